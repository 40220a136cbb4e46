"""Image names, and what the pretended images do when a pod names no command."""

from __future__ import annotations

import hashlib
import re
import zlib
from dataclasses import dataclass
from typing import Final

_SHELL_IMAGES: Final = frozenset({"python", "nvidia/cuda", "nvcr.io/nvidia/cuda"})
_COPIED_IMAGES: Final = frozenset({"busybox", "alpine", "ubuntu", "debian", "bash"})
"""What runs a shell in whatever registry there is a copy of it."""
_SMALLEST_BYTES: Final = 5 << 20
_PART: Final = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_LABEL: Final = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_HOST: Final = rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_DIGEST: Final = r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}"
_REFERENCE: Final = re.compile(
    rf"(?:{_HOST}/)?{_PART}(?:/{_PART})*(?::[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}})?(?:@{_DIGEST})?"
)


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


def image_id(text: str) -> str:
    """The image that a reference leads to, by a digest that is always the same for the same name.

    >>> image_id("busybox:1").partition("@")[0], image_id("x@sha256:12")
    ('docker.io/library/busybox', 'docker.io/library/x@sha256:12')
    """
    full = full_image(text)
    if "@" in full:
        return full
    return f"{full.rpartition(':')[0]}@sha256:{hashlib.sha256(full.encode()).hexdigest()}"


def wrong_reference(text: str) -> str:
    """Why this is no reference to an image, in the words of distribution/reference; empty when it is one.

    >>> wrong_reference("Bad//x"), wrong_reference("localhost:5000/a/b:1")
    ('invalid reference format', '')
    >>> wrong_reference("Nginx")
    'invalid reference format: repository name (library/Nginx) must be lowercase'
    """
    head, slash, rest = text.partition("/")
    hosted = slash and (
        any(separator in head for separator in ".:") or head == "localhost" or head != head.lower()
    )
    path = rest if hosted else text if slash else f"library/{text}"
    name = path.partition("@")[0].partition(":")[0]
    if name != name.lower():
        return f"invalid reference format: repository name ({name}) must be lowercase"
    return "" if _REFERENCE.fullmatch(f"{head}/{path}" if hosted else path) else "invalid reference format"


def runs_as_root(text: str) -> bool:
    """Whether the image is known to run its command as root."""
    return _is_shell(parse_image(text))


def _is_shell(image: ImageName) -> bool:
    return image.repository in _SHELL_IMAGES or image.repository.rpartition("/")[2] in _COPIED_IMAGES


def default_command(text: str) -> tuple[str, ...]:
    """What the image runs when the pod does not say; empty for a server that the twin only pretends.

    >>> default_command("registry.k8s.io/busybox"), default_command("nvidia/k8s/cuda-sample:vectoradd-12")
    (('bash',), ('vectoradd',))
    """
    image = parse_image(text)
    if _is_shell(image):
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
        f'failed to pull and unpack image "{full}": failed to resolve image: '
        f'failed to do request: Head "{url}": dial tcp: '
        f"lookup {image.registry.partition(':')[0]}: no such host"
    )
