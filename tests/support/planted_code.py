"""Code planted in a package, and what the laws say of it."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

from scripts.laws import breaches

CATALOG = '"""What is known, and never what is seen."""\n\nfrom importlib import resources\n'


def breaches_of(source: Path, room: str, code: str, *, name: str = "planted") -> list[str]:
    """What is wrong with one module in that room, without place."""
    path = source.joinpath("tonnage", *room.split("."), f"{name}.py")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dedent(code))
    if path.name != "__init__.py":
        path.with_name("__init__.py").touch()
    catalog = source / "tonnage/model/catalog/__init__.py"
    catalog.parent.mkdir(parents=True, exist_ok=True)
    catalog.write_text(CATALOG)
    return [breach.what for breach in breaches(source) if breach.path == path]
