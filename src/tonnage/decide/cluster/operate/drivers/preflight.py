"""What stands against a driver on a node, before anything is rolled out: DRV-1, 2, 4 and 5."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from tonnage.decide.cluster.operate.drivers.groups import DriverGroup
from tonnage.decide.cluster.operate.drivers.images import driver_fields
from tonnage.model.drivers.images import ImageAnswer, TagState
from tonnage.model.drivers.node import DriverNode, DriverPod


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


def version_problems(
    group: DriverGroup, release: str, components: Mapping[str, tuple[str, str]]
) -> Iterator[PreflightProblem]:
    """DRV-4: components of other minor versions than NVIDIA's release has.

    `components` has by name the version that the policy asks for, and that of the release.
    """
    for name, (has, expected) in components.items():
        if _minor(has) and _minor(expected) and _minor(has) != _minor(expected):
            yield PreflightProblem(
                "",
                Preflight.VERSIONS,
                f"{name} {has} with release {release} of the GPU operator, which was released with {expected}"
                f" (driver {driver_fields(group.policy).version})",
                f"leave {name}.version out, or write {expected}",
                blocks=False,
            )


def _minor(version: str) -> tuple[str, ...]:
    parts = version.removeprefix("v").split(".")
    return tuple(parts[:2]) if len(parts) >= 2 and all(part.isdecimal() for part in parts[:2]) else ()
