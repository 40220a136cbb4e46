"""The image of a driver for a system and a kernel, named as NVIDIA's operator does.

Source: NVIDIA/gpu-operator v26.7, api/nvidia/v1 (ImagePath) and internal/state/driver.go.
"""

from __future__ import annotations

import re
from typing import Final

from tonnage.model.catalog.gpu_operator import operator_releases
from tonnage.model.drivers.node import DriverNode
from tonnage.model.drivers.policy import DriverOwnerKind, DriverPolicy, ImageFields
from tonnage.model.json_access import mapping, mappings, text
from tonnage.model.reasons.cluster.drivers import DriverPolicyRefused

_ID: Final = "feature.node.kubernetes.io/system-os_release.ID"
_VERSION_ID: Final = "feature.node.kubernetes.io/system-os_release.VERSION_ID"
_MAJOR_ONLY: Final = frozenset({"rhel", "rocky", "ol"})
_IDS_BY_NAME: Final = (
    *(("ubuntu", "ubuntu"), ("debian", "debian"), ("red hat enterprise linux coreos", "rhcos")),
    *(("red hat enterprise linux", "rhel"), ("rocky", "rocky"), ("oracle linux", "ol")),
    *(("suse linux enterprise", "sles"), ("amazon linux", "amzn"), ("flatcar", "flatcar")),
)
"""By how a Node's `osImage` begins; the longer first."""
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)*")
_SAFE: Final = re.compile(r"[A-Za-z0-9._-]{1,60}")
_PART: Final = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_REFERENCE: Final = re.compile(
    rf"(?:(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\])(?::[0-9]+)?/)?{_PART}(?:/{_PART})*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@sha256:[0-9a-f]{64})?"
)
"""What a container runtime takes for an image: host, path, tag, digest."""
_NVCR: Final = "nvcr.io/nvidia"
MODULES: Final = {
    "gds": ImageFields("nvcr.io/nvidia/cloud-native", "nvidia-fs", "2.29.4"),
    "gdrcopy": ImageFields("nvcr.io/nvidia/cloud-native", "gdrdrv", "v2.6"),
}
"""Sections that ask for a kernel module beside the driver's, and the image for lack of another."""
_MANAGER: Final = ImageFields("nvcr.io/nvidia/cloud-native", "k8s-driver-manager", "v0.12.0")


def system_tag(node: DriverNode) -> str:
    """The system in a driver's tag, such as `ubuntu22.04` or `rhel9`; empty where nobody says it.

    The agent's report counts before node feature discovery, and both before the Node's `osImage`.
    """
    host = node.host
    if host is not None and host.system_id and host.system_version:
        return _tag(host.system_id, host.system_version)
    if node.labels.get(_ID) and node.labels.get(_VERSION_ID):
        return _tag(node.labels[_ID], node.labels[_VERSION_ID])
    image = node.system_image.lower()
    system = next((tag_id for name, tag_id in _IDS_BY_NAME if image.startswith(name)), "")
    version = _NUMBER.search(image)
    if not system or version is None:
        return ""
    # Ubuntu's third number is a point release, which no tag has.
    return _tag(system, ".".join(version[0].split(".")[:2]))


def _tag(system: str, version: str) -> str:
    system = system.lower()
    tag = f"{system}{version.partition('.')[0] if system in _MAJOR_ONLY else version}"
    return tag if _SAFE.fullmatch(tag) else ""


def image_path(fields: ImageFields) -> str:
    """repository/image:version, with `@` before a digest; `image` alone where it stands alone.

    >>> image_path(ImageFields("nvcr.io/nvidia", "driver", "580.95.05"))
    'nvcr.io/nvidia/driver:580.95.05'
    >>> image_path(ImageFields("", "registry.example.com/driver:1", ""))
    'registry.example.com/driver:1'
    """
    if not fields.repository and not fields.version:
        return fields.image
    name = "/".join(filter(None, (fields.repository.rstrip("/"), fields.image)))
    if not fields.version:
        return name
    return f"{name}{'@' if fields.version.startswith('sha256:') else ':'}{fields.version}"


def registry_proxy(policy: DriverPolicy) -> tuple[str, str]:
    """The proxy for the driver's container and the hosts that it is not for, as `env` says them, or empty."""
    variables = {text(entry, "name"): text(entry, "value") for entry in mappings(dict(policy.pod), "env")}
    proxy, hosts = (
        variables.get(name) or variables.get(name.lower(), "") for name in ("HTTPS_PROXY", "NO_PROXY")
    )
    return proxy, hosts


def manager_image(policy: DriverPolicy) -> str:
    """The image of `k8s-driver-manager`, NVIDIA's default where the policy names none."""
    return image_path(policy.manager) or image_path(_MANAGER)


def driver_fields(policy: DriverPolicy) -> ImageFields:
    """The fields of the driver's image, those of the newest release known where the policy has none."""
    fields = policy.image
    if fields.repository or fields.image or fields.version:
        return fields
    newest = list(operator_releases().values())[-1]
    return ImageFields(_NVCR, "driver", newest.driver)


def policy_refusal(policy: DriverPolicy) -> DriverPolicyRefused | None:
    """What is wrong with a policy itself, such as an image that names no version."""
    message = policy.problem
    modules = [section for section in MODULES if section in policy.pod]
    if not message and policy.precompiled and modules:
        message = (
            f"spec.{modules[0]}.enabled: NVIDIA builds this module beside drivers that are built on the node,"
            " not beside precompiled ones; switch usePrecompiled or this off"
        )
    where = "spec.driver" if policy.owner.kind is DriverOwnerKind.CLUSTER_POLICY else "spec"
    images = {
        where: driver_fields(policy),
        **{f"spec.{name}": module_fields(policy, name) for name in modules},
    }
    message = message or next(filter(None, (_unfit(at, fields) for at, fields in images.items())), "")
    return DriverPolicyRefused(subject=str(policy.owner), message=message) if message else None


def _unfit(where: str, fields: ImageFields) -> str:
    """Why nodes could not pull the image, with the field that is missing; empty: they can."""
    path = image_path(fields)
    if not fields.image:
        return f"{where}.image: {path} names no image; set image"
    if "@" not in path and ":" not in path.rpartition("/")[2]:
        return f"{where}.version: the image {path} has neither a tag nor a digest; set version"
    if not _REFERENCE.fullmatch(path):
        both = ":" in fields.image.rpartition("/")[2] and fields.version
        remedy = "have the tag in version alone" if both else "correct repository, image and version"
        return f"{where}.image: {path} is no name of an image; {remedy}"
    return ""


def module_fields(policy: DriverPolicy, section: str) -> ImageFields:
    """The fields of a module's image, NVIDIA's where the policy has none."""
    settings = mapping(dict(policy.pod), section)
    fields = ImageFields(*(text(settings, key) for key in ("repository", "image", "version")))
    return fields if fields != ImageFields() else MODULES[section]


def driver_image(policy: DriverPolicy, system: str, kernel: str) -> str:
    """The driver's image for nodes with this system, and with precompiled drivers this kernel."""
    return for_system(driver_fields(policy), system, kernel if policy.precompiled else "")


def for_system(fields: ImageFields, system: str, kernel: str = "") -> str:
    """An image of which there is one for each system: its tag says which. A digest says it by itself."""
    path = image_path(fields)
    name, colon, tag = path.rpartition(":")
    if "@" in path or not colon or "/" in tag:
        return path
    return f"{name}:{'-'.join(filter(None, (tag, kernel, system)))}"
