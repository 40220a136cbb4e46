"""Image names, and what the pretended images do when a pod names no command."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Final

_SHELL_IMAGES: Final = frozenset(
    {"busybox", "alpine", "ubuntu", "debian", "bash", "python", "nvidia/cuda", "nvcr.io/nvidia/cuda"}
)
_SMALLEST_BYTES: Final = 5 << 20


@dataclass(frozen=True, slots=True)
class ImageName:
    """An image reference: `repository` without the Docker Hub's defaults, and tag or digest."""

    repository: str
    tag: str

    @property
    def registry(self) -> str:
        """The host, or empty for the Docker Hub."""
        host, slash, _ = self.repository.partition("/")
        return host if slash and ("." in host or ":" in host or host == "localhost") else ""


def parse_image(text: str) -> ImageName:
    """Take a reference apart.

    >>> parse_image("docker.io/library/busybox"), parse_image("nvcr.io/nvidia/cuda:12.5.0").repository
    (ImageName(repository='busybox', tag='latest'), 'nvcr.io/nvidia/cuda')
    """
    name, _, digest = text.partition("@")
    head, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:
        head, tag = name, ""
    for prefix in ("docker.io/", "index.docker.io/"):
        head = head.removeprefix(prefix)
    return ImageName(head.removeprefix("library/"), digest or tag or "latest")


def full_image(text: str) -> str:
    """The reference as the runtime reports it, with registry and tag.

    >>> full_image("busybox"), full_image("nvcr.io/nvidia/cuda:12")
    ('docker.io/library/busybox:latest', 'nvcr.io/nvidia/cuda:12')
    """
    image = parse_image(text)
    separator = "@" if image.tag.startswith("sha256:") else ":"
    if image.registry:
        return f"{image.repository}{separator}{image.tag}"
    path = image.repository if "/" in image.repository else f"library/{image.repository}"
    return f"docker.io/{path}{separator}{image.tag}"


def default_command(text: str) -> tuple[str, ...]:
    """What the image runs when the pod does not say; empty for a server that the twin only pretends.

    >>> default_command("ubuntu:24.04"), default_command("nvidia/k8s/cuda-sample:vectoradd-12")
    (('bash',), ('vectoradd',))
    """
    image = parse_image(text)
    if image.repository in _SHELL_IMAGES:
        return ("bash",)
    if image.repository.endswith("/cuda-sample"):
        return (image.tag.partition("-")[0],)
    if image.repository == "pause" or image.repository.endswith("/pause"):
        return ("sleep", "infinity")
    return ()


def image_bytes(text: str) -> int:
    """A size for a pretended image, always the same for the same name (5 to 133 MiB)."""
    return _SMALLEST_BYTES + zlib.crc32(full_image(text).encode()) % (128 << 20)


def pull_problem(text: str) -> str:
    """Why the image cannot be pulled, in containerd's words; empty when it can.

    Every image can, except from a registry whose name ends in `.invalid`, which never exists (RFC 2606): that
    is how a scenario asks for a failing pull.
    """
    image = parse_image(text)
    if not image.registry.partition(":")[0].endswith(".invalid"):
        return ""
    path = image.repository.partition("/")[2]
    url = f"https://{image.registry}/v2/{path}/manifests/{image.tag}"
    full = full_image(text)
    return (
        f'failed to pull and unpack image "{full}": failed to resolve reference "{full}": '
        f'failed to do request: Head "{url}": dial tcp: '
        f"lookup {image.registry.partition(':')[0]}: no such host"
    )
