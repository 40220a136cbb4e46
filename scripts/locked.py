"""What uv.lock pins for those who install Tonnage, on any platform that it runs on."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from packaging.markers import Marker

ROOT: Final = Path(__file__).resolve().parents[1]
PROJECT: Final = "tonnage"
PYTHONS: Final = ("3.11", "3.12", "3.13")
MACHINES: Final = ("x86_64", "aarch64")


@dataclass(frozen=True, slots=True, order=True)
class Pinned:
    """A package and what it directly needs; `optional` where only an extra of Tonnage brings it."""

    name: str
    version: str
    needs: tuple[str, ...]
    optional: bool = False


def pinned_packages(lock: Path = ROOT / "uv.lock") -> tuple[Pinned, ...]:
    """Tonnage itself and all that it needs, sorted by name; a package twice where Pythons differ in it."""
    packages = tomllib.loads(lock.read_text(encoding="utf-8"))["package"]
    (project,) = [package for package in packages if package["name"] == PROJECT]
    extras = [row for rows in project.get("optional-dependencies", {}).values() for row in rows]
    required = _reached(packages, project["dependencies"])
    found = {key: _pinned(packages, key, optional=False) for key in required}
    for key in _reached(packages, extras):
        found.setdefault(key, _pinned(packages, key, optional=True))
    # uv.lock has no version of a project whose version is read from its source.
    own = Pinned(PROJECT, project.get("version", ""), _needs(project["dependencies"]))
    return (own, *sorted(found.values()))


def _reached(packages: list[dict[str, Any]], rows: list[dict[str, Any]]) -> set[tuple[str, str]]:
    """(name, version) of all that these rows lead to, on any platform."""
    by_name: dict[str, list[dict[str, Any]]] = {}
    for package in packages:
        by_name.setdefault(package["name"], []).append(package)
    found: set[tuple[str, str]] = set()
    waiting = [row for row in rows if _ever(row)]
    while waiting:
        row = waiting.pop()
        for package in by_name[row["name"]]:
            key = (package["name"], package["version"])
            if key not in found and row.get("version", package["version"]) == package["version"]:
                found.add(key)
                waiting += [need for need in package.get("dependencies", ()) if _ever(need)]
                optional = package.get("optional-dependencies", {})
                wanted = [need for extra in row.get("extra", ()) for need in optional.get(extra, ())]
                waiting += [need for need in wanted if _ever(need)]
    return found


def _pinned(packages: list[dict[str, Any]], key: tuple[str, str], *, optional: bool) -> Pinned:
    (package,) = [one for one in packages if (one["name"], one.get("version")) == key]
    return Pinned(*key, _needs(package.get("dependencies", [])), optional)


def _needs(rows: list[dict[str, Any]]) -> tuple[str, ...]:
    return tuple(sorted({row["name"] for row in rows if _ever(row)}))


def _ever(row: Mapping[str, Any]) -> bool:
    """Whether the row counts on a platform that Tonnage runs on."""
    marker = row.get("marker")
    return marker is None or any(Marker(marker).evaluate(own) for own in _environments())


def _environments() -> Iterator[dict[str, str]]:
    """Values of environment markers. Source: PyPA, dependency specifiers."""
    for python in PYTHONS:
        for machine in MACHINES:
            yield {
                "python_version": python,
                "python_full_version": f"{python}.0",
                "implementation_name": "cpython",
                "platform_python_implementation": "CPython",
                "sys_platform": "linux",
                "platform_system": "Linux",
                "os_name": "posix",
                "platform_machine": machine,
            }
