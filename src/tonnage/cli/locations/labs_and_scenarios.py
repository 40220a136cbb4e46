"""Finds labs and scenarios: the ones that ship (in the wheel or in a checkout), or a person's own files."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Final

import tonnage
from tonnage.model.errors import ConfigError, Problem, not_utf8

if TYPE_CHECKING:
    from tonnage.documents.lab.steps import Lab
    from tonnage.documents.scenario import Scenario

LAB_FILE: Final = "lab.yaml"
DEFAULT_SCENARIO: Final = "inference"
_LARGEST_BYTES: Final = 4 << 20
_MOST_FILES: Final = 500


@dataclass(frozen=True, slots=True)
class LabFolder:
    """A lab and the folder that its commands run in."""

    lab: Lab
    folder: Path


def labs_folder() -> Path:
    """`tonnage/labs` of an installed wheel, else `labs` of the checkout."""
    package = Path(tonnage.__file__).parent
    installed = package / "labs"
    return installed if installed.is_dir() else package.parent.parent / "labs"


def scenarios_folder() -> Path:
    """The scenarios that ship."""
    return Path(tonnage.__file__).parent / "scenarios"


def lab_names() -> tuple[str, ...]:
    """Labs that ship, sorted."""
    return tuple(sorted(path.parent.name for path in labs_folder().glob(f"*/{LAB_FILE}")))


def scenario_names() -> tuple[str, ...]:
    """Scenarios that ship, sorted."""
    return tuple(sorted(path.stem for path in scenarios_folder().glob("*.yaml")))


def load_lab(name: str) -> LabFolder:
    """A lab by name, by folder or by its file.

    Raises:
        ConfigError: no such lab, or a lab that cannot be run as written.
    """
    from tonnage.documents.lab.steps import parse_lab

    path = labs_folder() / name / LAB_FILE
    if name not in lab_names():
        typed = Path(name)
        path = typed / LAB_FILE if typed.is_dir() else typed
        if not path.is_file():
            raise _unknown("lab", name, lab_names(), "tonnage lab list")
    folder = path.parent.resolve()
    return LabFolder(parse_lab(read_text(path), source=str(path), files=_files_in(folder)), folder)


def _files_in(folder: Path) -> set[str]:
    """The files of a lab, by name; none behind a link that leads away, nor in a subfolder with such a link.

    Raises:
        ConfigError: there are too many.
    """
    places: set[Path] = set()
    leaving: set[Path] = set()
    for place in folder.rglob("*"):
        if not Path(os.path.realpath(place)).is_relative_to(folder):
            leaving.update(place.parents)
        elif place.is_file():
            places.add(place)
        if len(places) > _MOST_FILES:
            why, remedy = f"the folder has more than {_MOST_FILES} files", "put the lab into its own folder"
            raise ConfigError(Problem("not a lab's folder", str(folder), why, remedy))
    leaving -= {folder, *folder.parents}
    return {str(file.relative_to(folder)) for file in places if leaving.isdisjoint(file.parents)}


def load_scenario(name: str) -> Scenario:
    """A scenario by name or by file.

    Raises:
        ConfigError: no such scenario, or one that cannot be used as written.
    """
    from tonnage.documents.scenario import parse_scenario

    path = scenarios_folder() / f"{name}.yaml" if name in scenario_names() else Path(name)
    if not path.is_file():
        raise _unknown("scenario", name, scenario_names(), "a scenario is a name or a YAML file")
    return parse_scenario(read_text(path), source=str(path))


def read_text(path: Path) -> str:
    """The text of a file that a person named.

    Raises:
        ConfigError: it cannot be read, is far too large, or is no text.
    """
    try:
        return read_bytes(path, _LARGEST_BYTES).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(not_utf8(error, str(path))) from None


def read_bytes(path: Path, largest: int) -> bytes:
    """The content of a file that a person named; `-` is stdin.

    Raises:
        ConfigError: it cannot be read, or has more than `largest` bytes.
    """
    try:
        with nullcontext(sys.stdin.buffer) if str(path) == "-" else path.open("rb") as file:
            content = file.read(largest + 1)
    except OSError as error:
        raise ConfigError(Problem("cannot read the file", str(path), error.strerror or str(error))) from None
    if len(content) > largest:
        raise ConfigError(
            Problem("file too large", str(path), f"the file is larger than {largest >> 20} MiB")
        )
    return content


def _unknown(noun: str, name: str, names: tuple[str, ...], remedy: str) -> ConfigError:
    near = get_close_matches(name.lower(), names, n=1)
    hint = f"use {near[0]} if you meant that" if near else f"known: {', '.join(names)}; {remedy}"
    if "/" in name or name.endswith((".yaml", ".yml")):
        missing = "a folder" if Path(name).is_dir() else "file not found"
        return ConfigError(Problem(f"{noun} not found", name[:1000], missing, hint))
    return ConfigError(Problem(f"unknown {noun}: {name[:200]}", remedy=hint))
