"""Whether the expressions of an admission policy fit the kinds that it is about.

Source: k8s.io/apiserver pkg/admission/plugin/policy/validating (typechecking.go), v1.35.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from tonnage.decide.kubernetes.api.custom.kinds import identifiers, kind_of
from tonnage.decide.kubernetes.cel.kinds import DYN, INT, STRING, CelKind, Known
from tonnage.decide.kubernetes.cel.request_kinds import KINDS, with_variable
from tonnage.decide.kubernetes.claims.cel_errors import UnsupportedError
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import mapping, mappings, text, texts
from tonnage.wire.schema import Field, Schema

_MOST_TYPES: Final = 10
_MOMENT: Final = CelKind("timestamp")
_EMPTY: Final = CelKind("object")
_SCALARS: Final = {
    "string": STRING,
    "duration": STRING,
    "bool": CelKind("bool"),
    "int32": INT,
    "int64": INT,
    "float64": CelKind("double"),
    "bytes": CelKind("bytes"),
    "time": _MOMENT,
    "micro-time": _MOMENT,
    "int-or-string": DYN,
}
_META: Final = "meta/v1.ObjectMeta"
Gvk = tuple[str, str, str]


@dataclass(slots=True)
class Types:
    """What is known of kinds: the built-in ones, and definitions of custom ones."""

    schema: Schema
    definitions: Sequence[JsonObject]
    """Specs of CustomResourceDefinitions."""
    _made: dict[str, CelKind] = field(default_factory=dict)

    def kinds_of(self, group: str, version: str, plural: str) -> Iterator[Gvk]:
        """The kinds behind a resource."""
        for row in self.schema.kinds:
            if (row.group, row.version, row.plural) == (group, version, plural):
                yield group, version, row.kind
        for spec in self._custom(group):
            if plural in (text(spec, "names", "plural"), text(spec, "names", "singular")):
                yield from ((group, version, text(spec, "names", "kind")) for _ in _versions(spec, version))

    def type_of(self, gvk: Gvk) -> CelKind | None:
        """The type of a kind's objects; None where nobody knows it."""
        group, version, kind = gvk
        row = self.schema.kind(group, version, kind)
        if row is not None:
            return self._object(row.type)
        for spec in self._custom(group):
            if text(spec, "names", "kind") == kind:
                for found in _versions(spec, version):
                    described = kind_of(mapping(found, "schema", "openAPIV3Schema")) or _EMPTY
                    whole = {"apiVersion": STRING, "kind": STRING, "metadata": self._object(_META)}
                    return CelKind("object", fields=tuple({**dict(described.fields), **whole}.items()))
        return None

    def _custom(self, group: str) -> Iterator[JsonObject]:
        return (spec for spec in self.definitions if text(spec, "group") == group)

    def _object(self, name: str) -> CelKind:
        if name not in self._made:
            self._made[name] = _EMPTY  # of types that contain themselves
            fields = {
                called: kind
                for one in self.schema.types[name].fields.values()
                if (kind := self._field(one.type, one)) is not None
                for called in identifiers(one.name)
            }
            self._made[name] = CelKind("object", fields=tuple(fields.items()))
        return self._made[name]

    def _field(self, word: str, field: Field) -> CelKind | None:
        match word.partition(":"):
            case (("array" | "map") as shape, _, inner):
                element = self._field(inner or field.item, field)
                return None if element is None else CelKind("list" if shape == "array" else "map", element)
            case ("object" | "", _, _) if field.ref in self.schema.types:
                return self._object(field.ref)
            case ("raw", _, _):
                return None if field.go.endswith("v1.JSON") else _EMPTY
            case (name, _, _):
                return _SCALARS.get(name)


def _versions(spec: JsonObject, version: str) -> Iterator[JsonObject]:
    return (one for one in mappings(spec, "versions") if text(one, "name") == version and one.get("served"))


def expression_warnings(spec: JsonObject, types: Types) -> list[JsonValue]:
    """What a policy's status warns of. `spec` is the policy's."""
    params = _params(spec, types)
    checks = [
        (gvk, _checker(spec, kind, params))
        for gvk in _about(spec, types)
        if (kind := types.type_of(gvk)) is not None
    ]
    found: list[JsonValue] = []
    for index, validation in enumerate(mappings(spec, "validations")):
        for key in ("expression", "messageExpression"):
            written = text(validation, key)
            told = [f"{_named(gvk)}: {wrong}\n" for gvk, check in checks if (wrong := check(written))]
            if written and told:
                where = f"spec.validations[{index}].{key}"
                found.append({"fieldRef": where, "warning": "\n".join(told)})
    return found


def _named(gvk: Gvk) -> str:
    return f"{gvk[0]}/{gvk[1]}, Kind={gvk[2]}"


def _about(spec: JsonObject, types: Types) -> list[Gvk]:
    """The kinds of the rules that name theirs, ten at most of each rule."""
    found: set[Gvk] = set()
    for rule in mappings(spec, "matchConstraints", "resourceRules"):
        groups, versions = texts(rule, "apiGroups"), texts(rule, "apiVersions")
        resources = [one for one in texts(rule, "resources") if not {"*", "/"} & set(one)]
        if any("*" in one for one in (*groups, *versions)):
            continue
        named = [
            gvk
            for group in sorted(groups)
            for version in sorted(versions)
            for resource in sorted(resources)
            for gvk in types.kinds_of(group, version, resource)
        ]
        found |= set(named[:_MOST_TYPES])
        if len(named) >= _MOST_TYPES:
            break
    return sorted(found)


def _params(spec: JsonObject, types: Types) -> CelKind | None:
    group, _, version = text(spec, "paramKind", "apiVersion").rpartition("/")
    kind = text(spec, "paramKind", "kind")
    return types.type_of((group, version, kind)) if kind else None


def _checker(spec: JsonObject, kind: CelKind, params: CelKind | None) -> Callable[[str], str]:
    """Finds what is wrong with an expression about objects of this type."""
    from tonnage.decide.kubernetes.cel.expression import Expression

    known: Known = (
        ("object", kind),
        ("oldObject", kind),
        *((name, KINDS[name]) for name in ("request", "namespaceObject", "authorizer")),
        *((("params", params),) if params is not None else ()),
    )
    for variable in mappings(spec, "variables"):
        found = Expression(text(variable, "expression"), known, ())
        known = with_variable(known, text(variable, "name"), DYN if found.error else found.kind)

    def check(expression: str) -> str:
        try:
            error = Expression(expression, known, ()).error
        except UnsupportedError:
            return ""
        head, _, words = error.partition(": ")
        return words if head == "compilation failed" else ""

    return check
