"""What stands against a driver on a node, before anything is rolled out: DRV-1, 2, 4 and 5."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tonnage.decide.cluster.operate.drivers.groups import NAMELESS, DriverGroup
from tonnage.model.catalog.gpu_operator import operator_releases
from tonnage.model.drivers.images import ImageAnswer, TagState
from tonnage.model.drivers.node import DriverNode, DriverPod
from tonnage.model.drivers.policy import DriverPolicy

_TOOLKIT: Final = "toolkit"
_PLUGIN: Final = "devicePlugin"


class Preflight(StrEnum):
    """The reason of a condition."""

    HOST_DRIVER = "HostDriverConflict"
    NOUVEAU = "NouveauBound"
    SECURE_BOOT = "SecureBootRefusesModule"
    HEADERS = "KernelHeadersMissing"
    IMAGE_MISSING = "DriverImageMissing"
    IMAGE_UNKNOWN = "DriverImageUnknown"
    SYSTEM = "SystemUnknown"
    VERSIONS = "UnsupportedVersions"


@dataclass(frozen=True, slots=True)
class PreflightProblem:
    """`blocks`: the node gets no driver container while this is so; `node` empty: it is about the policy."""

    node: str
    check: Preflight
    message: str
    remedy: str
    blocks: bool = True

    def __str__(self) -> str:
        subject = f"{self.node}: " if self.node else ""
        return f"{subject}{self.message}; {self.remedy}"


def has_host_driver(node: DriverNode, pod: DriverPod | None) -> bool:
    """Whether the node's driver is its host's own.

    An agent that does not say whose it is reports devices: without a driver pod they are the host's.
    """
    if node.host is not None and node.host.driver_owner:
        return node.host.driver_owner == "host"
    return bool(node.devices) and pod is None and not node.group


def problems_of(
    node: DriverNode, group: DriverGroup, pod: DriverPod | None, images: Mapping[str, ImageAnswer]
) -> Iterator[PreflightProblem]:
    """Everything that stands against the group's driver on this node, the cause before its symptoms."""
    host = node.host
    if has_host_driver(node, pod):
        version = f" {host.driver_version}" if host is not None and host.driver_version else ""
        yield PreflightProblem(
            node.name,
            Preflight.HOST_DRIVER,
            f"the host has a driver{version} of its own, which stays; no container brings another",
            "leave it so with driver.enabled=false or the node label nvidia.com/gpu.deploy.driver=false,"
            " or remove the host's packages",
        )
        return
    if host is not None:
        yield from _of_the_host(node, group)
    answer = images.get(group.image)
    if answer is not None and answer.state is TagState.MISSING:
        remedy = "name a version that is published for this system, or install the driver on the host"
        if group.policy.precompiled:
            remedy = "name a branch that is built for this kernel, or set usePrecompiled=false"
        yield PreflightProblem(
            node.name, Preflight.IMAGE_MISSING, f"image {group.image} does not exist", remedy
        )
    elif answer is not None and answer.state is TagState.UNKNOWN:
        message = f"whether image {group.image} exists is unknown: {answer.why}"
        remedy = "allow the registry in the chart (controller.drivers.registries), or ignore this"
        yield PreflightProblem(node.name, Preflight.IMAGE_UNKNOWN, message, remedy, blocks=False)


def _of_the_host(node: DriverNode, group: DriverGroup) -> Iterator[PreflightProblem]:
    host, policy = node.host, group.policy
    assert host is not None
    if host.nouveau_bound:
        yield PreflightProblem(
            node.name,
            Preflight.NOUVEAU,
            f"the kernel's own driver nouveau is bound to {host.nouveau_bound} of its GPUs",
            "on the node: echo 'blacklist nouveau' > /etc/modprobe.d/blacklist-nouveau.conf, rebuild the"
            " initial RAM disk, reboot",
        )
    if host.secure_boot and not policy.precompiled and "@" not in group.image:
        yield PreflightProblem(
            node.name,
            Preflight.SECURE_BOOT,
            "secure boot is on, and a module that a container builds has no signature that the kernel trusts",
            "set usePrecompiled=true where NVIDIA signs for this system, or turn secure boot off",
        )
    if host.headers is False and not policy.precompiled:
        package = _headers_package(group.os_tag, node.kernel)
        yield PreflightProblem(
            node.name,
            Preflight.HEADERS,
            f"kernel headers for the running kernel {node.kernel} are missing; the driver container must"
            " download them, and restarts again and again where it cannot",
            f"install {package} on the node, or set usePrecompiled=true",
            blocks=False,
        )


def _headers_package(system: str, kernel: str) -> str:
    if system.startswith(("ubuntu", "debian")):
        return f"linux-headers-{kernel}"
    return f"kernel-devel-{kernel}" if system.startswith(("rhel", "rocky", "ol", "rhcos")) else "its headers"


def system_problem(node: str) -> PreflightProblem:
    """A node for which no image can be named."""
    remedy = "let its agent see the host (nvidiaDriverRoot=/ in the chart), or run node feature discovery"
    return PreflightProblem(node, Preflight.SYSTEM, NAMELESS, remedy)


def version_problems(policy: DriverPolicy) -> Iterator[PreflightProblem]:
    """DRV-4: toolkit and device plugin of other minor versions than NVIDIA released together.

    They are held against the release that the policy says it is from, or else against each other.
    """
    toolkit, plugin = (_minor(policy.components.get(part, "")) for part in (_TOOLKIT, _PLUGIN))
    release = operator_releases().get(policy.release.removeprefix("v"))
    if release is not None:
        for part, has, expected in (
            (_TOOLKIT, toolkit, release.toolkit),
            (_PLUGIN, plugin, release.device_plugin),
        ):
            if has and has != _minor(expected):
                words = f"spec.{part}.version {policy.components[part]} with release {release.version} of"
                yield _versions(
                    f"{words} the GPU operator, which was released with {expected}", part, expected
                )
        return
    pairs = [(_minor(row.toolkit), _minor(row.device_plugin)) for row in operator_releases().values()]
    of_the_toolkit = [row for row in operator_releases().values() if _minor(row.toolkit) == toolkit]
    if of_the_toolkit and plugin in {pair[1] for pair in pairs} and (toolkit, plugin) not in pairs:
        row = of_the_toolkit[-1]
        words = f"spec.{_TOOLKIT}.version {policy.components[_TOOLKIT]} and spec.{_PLUGIN}.version"
        message = f"{words} {policy.components[_PLUGIN]} are in no release of the GPU operator together"
        yield _versions(message, _PLUGIN, row.device_plugin)


def _versions(message: str, part: str, expected: str) -> PreflightProblem:
    remedy = f"leave spec.{part}.version out, or write v{expected}"
    return PreflightProblem("", Preflight.VERSIONS, message, remedy, blocks=False)


def _minor(version: str) -> tuple[str, ...]:
    parts = version.removeprefix("v").split(".")
    return tuple(parts[:2]) if len(parts) >= 2 and all(part.isdecimal() for part in parts[:2]) else ()
