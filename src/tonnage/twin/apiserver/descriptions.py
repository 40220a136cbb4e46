"""Descriptions of types and fields, read at run time from the docstrings of the lightkube-models package."""

from __future__ import annotations

import importlib
import re
from typing import Final

_FIELD: Final = re.compile(r"^\s*\* \*\*(?P<name>[^*]+)\*\* ``[^`]*``(?: - (?P<text>.*))?$")


class Descriptions:
    """Where the package lacks a type, or is not there at all, there is no description."""

    def of(self, type_name: str) -> tuple[str, dict[str, str]]:
        """The text of a type (`core/v1.PodSpec`), and of its fields by JSON name."""
        package, _, name = type_name.rpartition(".")
        try:
            module = importlib.import_module(f"lightkube.models.{package.replace('/', '_')}")
        except ImportError:
            return "", {}
        found = getattr(module, name, None)
        return parse(found.__doc__ or "") if found is not None else ("", {})


def parse(docstring: str) -> tuple[str, dict[str, str]]:
    """A docstring's own text, and the texts of its parameters.

    >>> parse("A pod.\\n\\n  **parameters**\\n\\n  * **spec** ``PodSpec`` - What is\\n    wanted.")
    ('A pod.', {'spec': 'What is wanted.'})
    """
    about, _, listed = docstring.partition("**parameters**")
    fields: dict[str, str] = {}
    name = ""
    for line in listed.splitlines():
        match = _FIELD.match(line)
        if match is not None:
            name = match["name"]
            fields[name] = match["text"] or ""
        elif name:
            fields[name] = f"{fields[name]} {line.strip()}".strip()
    return " ".join(about.split()), fields
