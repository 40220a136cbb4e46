"""What stands against a driver on a node, before anything is rolled out: DRV-1, 2, 4 and 5."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from tonnage.decide.cluster.operate.drivers.groups import DriverGroup
from tonnage.decide.cluster.operate.drivers.module_containers import driver_images
from tonnage.model.catalog.gpu_operator import operator_releases
from tonnage.model.drivers.images import ImageAnswer, TagState
from tonnage.model.drivers.node import DriverNode, DriverPod, HostSystem
from tonnage.model.drivers.policy import DriverPolicy
from tonnage.model.reasons.cluster.drivers import (
    BuiltModuleUnsigned,
    DriverImageMissing,
    DriverImageUnknown,
    DriverSystemUnknown,
    DriverVersionsMixed,
    HeadersToDownload,
    HostDriverConflict,
    NouveauBindsGpus,
    PreflightReason,
)

_TOOLKIT: Final = "toolkit"
_PLUGIN: Final = "devicePlugin"


def has_host_driver(node: DriverNode, pod: DriverPod | None) -> bool:
    """Whether the node's driver is its host's own.

    An agent that does not say whose it is reports devices: without a driver pod they are the host's.
    """
    if node.host is not None and node.host.driver_owner:
        return node.host.driver_owner == "host"
    return bool(node.devices) and pod is None and not node.group


def problems_of(
    node: DriverNode, group: DriverGroup, pod: DriverPod | None, images: Mapping[str, ImageAnswer]
) -> Iterator[PreflightReason]:
    """Everything that stands against the group's driver on this node, the cause before its symptoms."""
    host, subject = node.host, f"Node {node.name}"
    if has_host_driver(node, pod):
        version = host.driver_version if host is not None else ""
        shown = f" {version}" if version else ""
        yield HostDriverConflict(
            subject=subject,
            node=node.name,
            message=f"the host has a driver{shown} of its own, which stays; no container brings another",
            remedy="leave it so with driver.enabled=false or the node label"
            " nvidia.com/gpu.deploy.driver=false, or remove the host's packages",
            version=version,
        )
        return
    if host is not None:
        yield from _of_the_host(node, host, group)
    for image in driver_images(group):
        if (answer := images.get(image)) is not None:
            yield from _of_an_image(node, group, image, answer)


def _of_an_image(
    node: DriverNode, group: DriverGroup, image: str, answer: ImageAnswer
) -> Iterator[PreflightReason]:
    subject = f"Node {node.name}"
    if answer.state is TagState.MISSING:
        remedy = "name a version that is published for this system, or install the driver on the host"
        if group.policy.precompiled:
            remedy = "name a branch that is built for this kernel, or set usePrecompiled=false"
        if image != group.image:
            remedy = "name a version that is published for this system, or switch the module off"
        message = f"image {image} does not exist"
        yield DriverImageMissing(subject=subject, node=node.name, message=message, remedy=remedy, image=image)
    elif answer.state is TagState.UNKNOWN:
        message = f"whether image {image} exists is unknown: {answer.why}"
        remedy = DriverImageUnknown.advice
        yield DriverImageUnknown(subject=subject, node=node.name, message=message, remedy=remedy, image=image)


def _of_the_host(node: DriverNode, host: HostSystem, group: DriverGroup) -> Iterator[PreflightReason]:
    policy, subject = group.policy, f"Node {node.name}"
    if host.nouveau_bound:
        yield NouveauBindsGpus(
            subject=subject,
            node=node.name,
            message=f"the kernel's own driver nouveau is bound to {host.nouveau_bound} of its GPUs",
            remedy="on the node: echo 'blacklist nouveau' > /etc/modprobe.d/blacklist-nouveau.conf, rebuild"
            " the initial RAM disk, reboot",
            gpus=host.nouveau_bound,
        )
    if host.secure_boot and not policy.precompiled and "@" not in group.image:
        yield BuiltModuleUnsigned(
            subject=subject,
            node=node.name,
            message="secure boot is on, and a module that a container builds has no signature that the"
            " kernel trusts",
            remedy="set usePrecompiled=true where NVIDIA signs for this system, or turn secure boot off",
        )
    if host.headers is False and not policy.precompiled:
        package = _headers_package(group.os_tag, node.kernel)
        yield HeadersToDownload(
            subject=subject,
            node=node.name,
            message=f"kernel headers for the running kernel {node.kernel} are missing; the driver container"
            " must download them, and restarts again and again where it cannot",
            remedy=f"install {package} on the node, or set usePrecompiled=true",
            kernel=node.kernel,
        )


def _headers_package(system: str, kernel: str) -> str:
    if system.startswith(("ubuntu", "debian")):
        return f"linux-headers-{kernel}"
    return f"kernel-devel-{kernel}" if system.startswith(("rhel", "rocky", "ol", "rhcos")) else "its headers"


def system_problem(node: str) -> DriverSystemUnknown:
    """A node for which no image can be named."""
    message = "its system is not known, so that no driver image can be named"
    remedy = "let its agent see the host (nvidiaDriverRoot=/ in the chart), or run node feature discovery"
    return DriverSystemUnknown(subject=f"Node {node}", node=node, message=message, remedy=remedy)


def unplaced_files(node: str, system: str, section: str) -> DriverSystemUnknown:
    """A node for whose system it is not known where the files of a section belong."""
    message = f"where {system} looks for the files of driver.{section} is not known"
    remedy = "have them in the driver image, and select other nodes with this policy"
    return DriverSystemUnknown(subject=f"Node {node}", node=node, message=message, remedy=remedy)


def version_problems(policy: DriverPolicy) -> Iterator[DriverVersionsMixed]:
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
                message = f"{words} the GPU operator, which was released with {expected}"
                yield _versions(policy, message, part, expected)
        return
    pairs = [(_minor(row.toolkit), _minor(row.device_plugin)) for row in operator_releases().values()]
    of_the_toolkit = [row for row in operator_releases().values() if _minor(row.toolkit) == toolkit]
    if of_the_toolkit and plugin in {pair[1] for pair in pairs} and (toolkit, plugin) not in pairs:
        row = of_the_toolkit[-1]
        words = f"spec.{_TOOLKIT}.version {policy.components[_TOOLKIT]} and spec.{_PLUGIN}.version"
        message = f"{words} {policy.components[_PLUGIN]} are in no release of the GPU operator together"
        yield _versions(policy, message, _PLUGIN, row.device_plugin)


def _versions(policy: DriverPolicy, message: str, part: str, expected: str) -> DriverVersionsMixed:
    remedy = f"leave spec.{part}.version out, or write v{expected}"
    return DriverVersionsMixed(subject=str(policy.owner), node="", message=message, remedy=remedy, part=part)


def _minor(version: str) -> tuple[str, ...]:
    parts = version.removeprefix("v").split(".")
    return tuple(parts[:2]) if len(parts) >= 2 and all(part.isdecimal() for part in parts[:2]) else ()
