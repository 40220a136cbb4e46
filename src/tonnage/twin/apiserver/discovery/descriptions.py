"""Descriptions of types and fields, read at run time from packages that carry upstream's."""

from __future__ import annotations

import importlib
import importlib.util
import re
from functools import cached_property
from pathlib import Path
from typing import Final

import msgspec

_FIELD: Final = re.compile(r"^\s*\* \*\*(?P<name>[^*]+)\*\* ``[^`]*``(?: - (?P<text>.*))?$")
_PUBLISHED: Final = "kubernetes-json-schema/v1.35.0-local/_definitions.json"
_PACKAGE: Final = "kubernetes_validate"
_PREFIXES: Final = {
    "meta": "io.k8s.apimachinery.pkg.apis.meta",
    "apiextensions": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
    "apiregistration": "io.k8s.kube-aggregator.pkg.apis.apiregistration",
}


class _Described(msgspec.Struct):
    description: str = ""
    properties: dict[str, _Described] = {}


class _Published(msgspec.Struct):
    defs: dict[str, _Described] = msgspec.field(name="$defs")


class Descriptions:
    """Texts of the kubernetes-validate package (the extra `explain`) are upstream's as they stand.

    Without it they are those of lightkube-models, whose paragraphs are joined; of a type that neither has,
    there is no description.
    """

    def of(self, type_name: str) -> tuple[str, dict[str, str]]:
        """The text of a type (`core/v1.PodSpec`), and of its fields by JSON name."""
        published = self._published.get(public_name(type_name))
        if published is not None:
            fields = published.properties.items()
            return published.description, {name: field.description for name, field in fields}
        package, _, name = type_name.rpartition(".")
        try:
            module = importlib.import_module(f"lightkube.models.{package.replace('/', '_')}")
        except ImportError:
            return "", {}
        model = getattr(module, name, None)
        return parse(model.__doc__ or "") if model is not None else ("", {})

    def published(self, name: str) -> str:
        """The text of a type by its name in OpenAPI documents."""
        schema = self._published.get(name)
        return schema.description if schema else ""

    @cached_property
    def _published(self) -> dict[str, _Described]:
        # Found, not imported: its modules are validators, which nobody asks for here.
        package = importlib.util.find_spec(_PACKAGE)
        if package is None or package.origin is None:
            return {}
        try:
            content = (Path(package.origin).parent / _PUBLISHED).read_bytes()
        except FileNotFoundError:
            return {}
        return msgspec.json.decode(content, type=_Published).defs


def public_name(type_name: str) -> str:
    """`core/v1.Pod` as OpenAPI documents name it."""
    package, _, kind = type_name.rpartition(".")
    group, _, version = package.partition("/")
    return f"{_PREFIXES.get(group, f'io.k8s.api.{group}')}.{version}.{kind}"


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
