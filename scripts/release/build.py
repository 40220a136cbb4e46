"""A release, all of it or nothing: wheel, sources, image, chart, krew's plugin, bills, licences, audit."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from scripts.image.build import REPOSITORY, Wish, build_image, creation_time
from scripts.image.checkout import Git
from scripts.image.lock import NAME, read_lock, this_release
from scripts.image.wheels import build_distributions, run_uv, staged_source, version_of
from scripts.licences import (
    TABLE,
    Licences,
    Row,
    lying_in_the_image,
    rendered,
    shipped_by_the_wheel,
)
from scripts.locked import PROJECT, pinned_packages
from scripts.release.archives import chart_files, packed
from scripts.release.audit import PROGRAM, audited
from scripts.release.bom import image_bom, wheel_bom, written
from scripts.release.image_content import read_content
from scripts.release.krew import NOWHERE, manifest, plugin_files
from tonnage.model.errors import ConfigError, Problem

SUMS: Final = "SHA256SUMS"


@dataclass(frozen=True, slots=True)
class ReleaseWish:
    """Where to; `name` is the image's, `accept` vulnerabilities that do not stop it.

    `address` is the URL at which releases will lie.
    A `trial` takes today's Debian packages, whether or not somebody has looked at them.
    """

    output: Path
    cache: Path
    name: str = ""
    address: str = NOWHERE
    accept: Collection[str] = ()
    trial: bool = False
    offline: bool = False
    audit_program: Sequence[str] = PROGRAM


def make_release(wish: ReleaseWish, tell: Callable[[str], None], environment: Mapping[str, str]) -> Path:
    """Build it; the folder, which takes the place of one of the same version.

    Raises:
        ConfigError: with what to do; nothing is left, and nothing that was there is changed.
    """
    version = version_of(REPOSITORY)
    git = Git(REPOSITORY, tell)
    if git.says("status", "--porcelain"):
        tell("warning: the checkout has changes that no commit has")
    base = f"{PROJECT}-{version}"
    target = wish.output / (f"{base}-trial" if wish.trial else base)
    created = creation_time(git, environment)
    with published(target) as folder, tempfile.TemporaryDirectory() as scratch:
        wheel = _distributions(folder, Path(scratch), version, wish)
        tell(f"{wheel.name}, and its sources")
        _archives(folder, wheel, version, wish)
        archive = folder / f"{base}-image.tar"
        image = build_image(_image_wish(wish, archive), tell, environment)
        tell(f"{image.name}\n  {image.digest}")
        rows = _licences(archive, wish)
        (folder / "licences.txt").write_text(rendered(rows) + "\n", encoding="utf-8")
        bills = {
            f"{base}-wheel.cdx.json": wheel_bom(wheel, version, pinned_packages(), rows, created),
            f"{base}-image.cdx.json": image_bom(
                read_content(archive), version, _locked_packages(), rows, created
            ),
        }
        for name, bill in bills.items():
            (folder / name).write_text(written(bill), encoding="utf-8")
            tell(f"{name}: {len(bill.components)} parts")
        _audit(folder, Path(scratch), wish, tell)
        (folder / SUMS).write_text(sums(folder), encoding="utf-8")
    return target


def _distributions(folder: Path, scratch: Path, version: str, wish: ReleaseWish) -> Path:
    """Wheel and sources into `folder`; the wheel."""
    source = staged_source(REPOSITORY, scratch / "source", version)
    built = scratch / "dist"
    build_distributions(REPOSITORY, source, built, "--sdist", "--wheel", offline=wish.offline)
    for pattern in ("*.tar.gz", "*.whl"):
        (found,) = built.glob(pattern)
        shutil.copy(found, folder)
    (wheel,) = folder.glob("*.whl")
    return wheel


def _archives(folder: Path, wheel: Path, version: str, wish: ReleaseWish) -> None:
    """The chart, and the plugin for krew with its manifest."""
    packed(chart_files(REPOSITORY / "deploy" / "helm" / PROJECT), folder / f"{PROJECT}-chart-{version}.tgz")
    pinned = ("export", "--frozen", "--no-dev", "--no-emit-project", "--no-header")
    requirements = run_uv(REPOSITORY, *pinned, offline=wish.offline)
    licence = (REPOSITORY / "LICENSE").read_bytes()
    plugin = folder / f"{PROJECT}-{version}-kubectl-gpu.tar.gz"
    packed(plugin_files(wheel, requirements, licence, version), plugin)
    (folder / "gpu.yaml").write_text(manifest(plugin, version, wish.address.rstrip("/")), encoding="utf-8")


def _image_wish(wish: ReleaseWish, archive: Path) -> Wish:
    return Wish(archive, wish.cache, name=wish.name, offline=wish.offline, locked=not wish.trial)


def _locked_packages() -> Mapping[str, tuple[str, str]]:
    return read_lock(REPOSITORY / "deploy" / "image" / NAME).get(this_release(), {})


def _licences(archive: Path, wish: ReleaseWish) -> list[Row]:
    """Rows of all that is shipped. A trial may have copyright files that nobody has read."""
    licences = Licences.read()
    held = set(lying_in_the_image(licences, archive, read=not wish.trial))
    rows = sorted({*shipped_by_the_wheel(licences), *held})
    if refused := [f"{row.kind} {row.name}: {row.refusal}" for row in rows if row.refusal]:
        remedy = "read the licence, then say in that file what it is, or leave the part out"
        raise ConfigError(
            Problem(f"{len(refused)} licences are not allowed", str(TABLE), "\n".join(refused), remedy)
        )
    return rows


def _audit(folder: Path, scratch: Path, wish: ReleaseWish, tell: Callable[[str], None]) -> None:
    wanted = ("export", "--frozen", "--no-dev", "--all-extras", "--no-emit-project", "--no-header")
    requirements = scratch / "requirements.txt"
    requirements.write_text(run_uv(REPOSITORY, *wanted, offline=wish.offline), encoding="utf-8")
    names = sorted({package.name for package in pinned_packages()} - {PROJECT})
    audit = audited(requirements, names, accept=wish.accept, program=wish.audit_program)
    for line in audit.lines():
        tell(line)
    if audit.found:
        raise ConfigError(
            Problem(
                f"{len(audit.found)} known vulnerabilities",
                "uv.lock",
                "\n".join(audit.found),
                "uv lock --upgrade-package NAME; or, where it does not concern Tonnage, --accept ID",
            )
        )
    (folder / "audit.json").write_text(audit.record(), encoding="utf-8")


def sums(folder: Path) -> str:
    """What `sha256sum --check` takes, of every file in the folder but the sums."""
    lines = []
    for path in sorted(folder.iterdir()):
        if path.name != SUMS:
            with path.open("rb") as file:
                lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {path.name}\n")
    return "".join(lines)


@contextmanager
def published(target: Path) -> Iterator[Path]:
    """A folder to fill, which becomes `target` when all went well; else `target` stays as it was."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as place:
        folder = Path(place) / "new"
        folder.mkdir()
        yield folder
        before = Path(place) / "before"
        if target.exists():
            target.rename(before)
        try:
            folder.rename(target)
        except OSError:
            if before.exists():
                before.rename(target)
            raise
