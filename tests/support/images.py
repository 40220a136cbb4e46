"""Images for a genuine node, made here as there is no registry; programs of Debian's packages."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from scripts.find_prometheus import monitoring_programs
from scripts.image.archive import ImageConfig, pack_layer, write_archive
from scripts.image.build import Wish, build_image, fetch_for_build
from scripts.image.debian import Apt, Package, require_debian, unpack
from support.own_network import is_own_network
from tonnage.cli.locations.folders import cache_folder

BUSYBOX: Final = "docker.io/tonnage-test/busybox:1"
FAKETIME: Final = ("libfaketime", "libfaketimeMT.so.1")
"""A package and the library in it that makes a process' clock jump."""

REGISTRY: Final = ("docker-registry", "docker-registry")
"""CNCF distribution."""

_PODMAN: Final = ("podman", "conmon")
_CONTAINERD: Final = ("containerd", "containerd-shim-runc-v2", "ctr")
_TRIXIE: Final = """\
Types: deb
URIs: {mirror}
Suites: trixie
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
"""
"""Debian 13: the containerd of the one before it has no CDI, and this one runs there, too."""
_MACHINES_OWN: Final = ("libc6", "libperl", "libpam-modules")
"""Packages whose libraries are no use to podman, or must be the machine's own."""


def prepare_images() -> None:
    """Fetch all that the images need, while there is a network: the suite's own has no way out.

    Tests make the agent's image of other versions and without kept layers, too: what a layer was made from
    may have left uv's cache since.
    """
    with tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as folder:
        busybox_archive(Path(folder))
        fetch_for_build(Wish(Path(folder, "none.tar"), cache_folder(os.environ) / "images"), print)
        agent_archive(Path(folder))
    kept_file(*FAKETIME)
    kept_file(*REGISTRY)
    kept_podman()
    kept_containerd()
    monitoring_programs()


def busybox_archive(
    folder: Path,
    *,
    name: str = BUSYBOX,
    command: Sequence[str] = ("/bin/sleep", "2147483647"),
    more: Callable[[Path], object] = lambda _: None,
) -> str:
    """Write `folder`/busybox.tar, an OCI archive with one static busybox and its applets; the image's name.

    It serves as pause image (its default command sleeps) and as workload. `more` puts further files into the
    folder that becomes its root.
    """
    program = kept_file("busybox-static", "busybox")
    with tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as work:
        tree = Path(work) / "root"
        programs = tree / "bin"
        programs.mkdir(parents=True)
        for part in ("dev", "etc", "proc", "sys", "tmp", "root", "var/tmp"):
            (tree / part).mkdir(parents=True)
        (tree / "etc" / "passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
        (tree / "etc" / "group").write_text("root:x:0:\n")
        shutil.copy2(program, programs / "busybox")
        for applet in subprocess.run(
            [str(program), "--list"], capture_output=True, text=True, check=True, timeout=1800
        ).stdout.split():
            if applet != "busybox":
                (programs / applet).symlink_to("busybox")
        more(tree)
        layer = pack_layer(tree, Path(work) / "layer", made_by="busybox-static")
        config = ImageConfig(
            entrypoint=(),
            command=tuple(command),
            environment={"PATH": "/bin:/usr/bin"},
        )
        write_archive(folder / "busybox.tar", name=name, layers=[layer], config=config)
    return name


def agent_archive(folder: Path, *, version: str = "") -> str:
    """Write `folder`/agent-VERSION.tar, the image of this checkout; the image's name.

    Layers are kept between calls by what they are made from: another version costs seconds, the same less.
    """
    wish = Wish(
        output=folder / f"agent-{version or 'checkout'}.tar",
        cache=cache_folder(os.environ) / "images",
        version=version,
        offline=is_own_network(),
    )
    return build_image(wish, print, os.environ).name


def kept_file(package: str, name: str) -> Path:
    """A file of a Debian package, kept in the cache: the largest of its name, which settings may have."""
    folder = cache_folder(os.environ) / "images"
    kept = folder / name
    if not kept.exists():
        require_debian()
        apt = Apt(folder / "apt")
        with apt.locked(), tempfile.TemporaryDirectory(dir=folder) as fresh:
            apt.refresh()
            (file,) = apt.fetch(apt.named([package]))
            unpack(file, Path(fresh), lambda path: path if Path(path).name == name else None)
            max(Path(fresh).rglob(name), key=lambda path: path.lstat().st_size).replace(kept)
    return kept


def kept_podman() -> Path:
    """A folder with podman, its monitor and their libraries, kept in the cache: none of it is installed."""
    kept = cache_folder(os.environ) / "images" / "podman"
    if kept.is_dir():
        return kept
    require_debian()
    apt = Apt(kept.parent / "apt")
    with apt.locked(), tempfile.TemporaryDirectory(dir=kept.parent) as fresh:
        apt.refresh()
        packages = [package for package in apt.closure(_PODMAN) if _is_wanted(package)]
        for file in apt.fetch(packages):
            unpack(file, Path(fresh, "made"), _place)
        if not kept.is_dir():
            Path(fresh, "made").rename(kept)
    return kept


def kept_containerd() -> Mapping[str, Path]:
    """Debian's containerd 1.7 by its programs' names, kept in the cache; Ubuntu's on Ubuntu."""
    kept = cache_folder(os.environ) / "images" / "containerd"
    if not kept.is_dir():
        require_debian()
        mirror = _mirror()
        sources = _TRIXIE.format(mirror=mirror) if mirror else ""
        apt = Apt(kept.parent / ("apt-trixie" if mirror else "apt"), sources)
        with apt.locked(), tempfile.TemporaryDirectory(dir=kept.parent) as fresh:
            apt.refresh()
            (file,) = apt.fetch(apt.named(["containerd"]))
            wanted = {f"usr/bin/{name}": name for name in _CONTAINERD}
            unpack(file, Path(fresh, "made"), wanted.get)
            if not kept.is_dir():
                Path(fresh, "made").rename(kept)
    return {name: kept / name for name in _CONTAINERD}


def _mirror() -> str:
    """Where this machine has Debian's packages from; empty where it has none."""
    wanted = ("Created-By: Packages", "Origin: Debian", "Component: main")
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI)", *wanted]
    said = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800).stdout.split()
    return next((uri for uri in said if uri.rstrip("/").endswith("/debian")), "")


def _is_wanted(package: Package) -> bool:
    library = package.name.startswith("lib") and not package.name.startswith(_MACHINES_OWN)
    return library or package.name in _PODMAN


def _place(path: str) -> str | None:
    """Programs and libraries side by side; nothing else."""
    folder, _, name = path.rpartition("/")
    program = folder == "usr/bin" and name in _PODMAN
    return name if program or (".so" in name and folder.endswith("-linux-gnu")) else None
