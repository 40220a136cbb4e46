"""OPR-1, OPR-5: NVIDIA's ClusterPolicy, and values of its chart that mean one.

Fields that it has, values that it takes, what its parts need of each other. What the operator accepts is
accepted: a field of a later release than the table's is a warning, no error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from tonnage.diagnose.lint.finding import AddEmptyEntries, Draft, QuoteText, RenameKey, SetBare, TextRepair
from tonnage.diagnose.lint.manifest_objects import ManifestObject, at_path, mapping, mappings
from tonnage.diagnose.lint.rule_inputs import RuleInputs
from tonnage.documents.nearest import nearest
from tonnage.documents.yaml.reader import Path
from tonnage.model.catalog.cluster_policy import PolicyFields, operator_values, policy_fields
from tonnage.model.catalog.definition_fields import ANY_KEY, Field, Fields
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.reasons.lint.configurations import (
    ClusterPolicyDeprecated,
    ClusterPolicyIncomplete,
    ClusterPolicyKeyUnknown,
    ClusterPolicyValueInvalid,
)
from tonnage.model.reasons.lint.manifests import ConfigMapUnknown

_FULL_VERSION: Final = re.compile(r"[0-9]+\.[0-9]+(\.[0-9]+)+")
_IMAGE: Final = re.compile(r"[A-Za-z0-9-]+")


def is_values(manifest: ManifestObject) -> bool:
    """Whether it is a values file for NVIDIA's gpu-operator chart: by its sections and its name."""
    if manifest.kind or manifest.path or manifest.sheet.host is not None or "apiVersion" in manifest.value:
        return False
    sections = [key for key in operator_values().telling if isinstance(manifest.value.get(key), dict)]
    file = manifest.sheet.name.rpartition("/")[2].lower()
    return len(sections) > (0 if "values" in file else 1)


def of_manifest(manifest: ManifestObject, inputs: RuleInputs) -> Iterator[Draft]:
    """Findings on a ClusterPolicy, or on values."""
    if is_values(manifest):
        yield from _of_values(manifest, inputs)
        return
    if manifest.kind != "ClusterPolicy" or manifest.group != "nvidia.com":
        return
    at: Path = (*manifest.path, "spec")
    if manifest.api_version != "nvidia.com/v1":
        message = f"ClusterPolicy has no version {manifest.api_version[:60]}"
        yield _invalid((*manifest.path, "apiVersion"), message, "write nvidia.com/v1")
    spec = mapping(manifest.value.get("spec"))
    crd = policy_fields()
    yield from _Walk(at, crd).of(spec, crd.fields, at)
    missing = [name for name in crd.required if name not in spec]
    if missing and "spec" in manifest.value:  # without a spec at all the CRD requires nothing of it
        message = f"the ClusterPolicy lacks {', '.join(missing)}, which its CRD requires"
        remedy = f"add {', '.join(f'{name}: {{}}' for name in missing)}; {{}} takes every default"
        reason = ClusterPolicyIncomplete(message=message, remedy=remedy, missing=tuple(missing))
        change = AddEmptyEntries(at, tuple(missing))
        yield Draft(reason, at, "the API server refuses the object", change, on_key=True)
    yield from _nameless_variables(spec, at)
    yield from _together(spec, at)
    yield from _config_maps(manifest, spec, at, inputs)


def _of_values(manifest: ManifestObject, inputs: RuleInputs) -> Iterator[Draft]:
    table, values = operator_values(), manifest.value
    sections = _without(values, table.others)
    yield from _Walk(manifest.path, table, values=True).of(sections, table.fields, manifest.path)
    yield from _nameless_variables(values, manifest.path)
    yield from _together(values, manifest.path)
    yield from _config_maps(manifest, values, manifest.path, inputs)


def _without(values: JsonObject, others: frozenset[str]) -> JsonObject:
    """The values but those at the paths, which are at most two steps long."""
    return {
        key: {name: inner for name, inner in value.items() if f"{key}.{name}" not in others}
        if isinstance(value, dict)
        else value
        for key, value in values.items()
        if key not in others
    }


def _nameless_variables(value: JsonValue, at: Path) -> Iterator[Draft]:
    """Variables of the environment of any part; all but their names may be left out."""
    for key, child in mapping(value).items():
        if key != "env":
            yield from _nameless_variables(child, (*at, key))
            continue
        for index, variable in mappings(child):
            if "name" not in variable:
                why = "the API server refuses the object"
                yield _invalid((*at, key, index), "the variable has no name", "write name and value", why)


class _Walk:
    """Looks at a spec along the table of its fields."""

    def __init__(self, base: Path, table: PolicyFields, *, values: bool = False) -> None:
        self._base = base
        self._table = table
        self._values = values

    def of(self, value: JsonObject, fields: Fields, path: Path) -> Iterator[Draft]:
        crd = self._table
        for key, child in value.items():
            at: Path = (*path, key)
            dotted = ".".join(str(step) for step in at[len(self._base) :])
            if dotted in crd.deprecated:
                message = f"{dotted} no longer has any effect: {crd.deprecated[dotted]}"
                yield Draft(ClusterPolicyDeprecated(message=message, remedy="remove it"), at, on_key=True)
            field = fields.get(key, fields.get(ANY_KEY))
            if field is None:
                yield self._unknown(key, dotted, value, fields, at)
            elif child is not None:
                yield from self._field(child, field, at)

    def _field(self, value: JsonValue, field: Field, at: Path) -> Iterator[Draft]:
        """What one field holds, or an entry of a list."""
        if isinstance(field, str):
            yield from _leaf(value, field, at)
        elif isinstance(field, tuple) and isinstance(value, list):
            for index, entry in enumerate(value):
                yield from self._field(entry, field[0], (*at, index))
        elif isinstance(field, tuple):
            yield _invalid(at, "a list is expected", "write each entry behind a dash")
        elif isinstance(value, dict):
            yield from self.of(value, field, at)
        else:
            name = at[-1] if isinstance(at[-1], str) else "-"
            yield _invalid(at, "a mapping is expected", f"write {name}: {{}} or the fields below it")

    def _unknown(self, key: str, dotted: str, value: JsonObject, fields: Fields, at: Path) -> Draft:
        right = self._table.renamed.get(dotted, "")
        same = next((name for name in fields if name.lower() == key.lower()), right)
        change = RenameKey(at, same) if same and same not in value else None
        other = "the object's field" if self._values else "Helm's value"
        remedy = f"write {right}; {other} has the other name" if right else nearest(key, list(fields))
        if not same and (place := _elsewhere(key, self._table.fields)):
            remedy = f"the field of that name is {'' if self._values else 'spec.'}{place}"
        owner = "NVIDIA's gpu-operator chart has no value" if self._values else "ClusterPolicy has no"
        message = f"{owner} {dotted[:200]}"
        reason = ClusterPolicyKeyUnknown(message=message, remedy=remedy, meant=same or None)
        why = "kubectl refuses it; through Helm it is dropped silently"
        if self._values:
            why = "NVIDIA's chart drops it silently, Tonnage's refuses it"
        return Draft(reason, at, why, change, on_key=True)


def _elsewhere(key: str, sections: Fields) -> str:
    """Where a section, or a field of just one of them, has that name; empty where that is nowhere."""
    fields = [section for section, field in sections.items() if isinstance(field, Mapping) and key in field]
    return key if key in sections else f"{fields[0]}.{key}" if len(fields) == 1 else ""


def _invalid(
    at: Path, message: str, remedy: str = "", why: str = "", change: TextRepair | None = None
) -> Draft:
    return Draft(ClusterPolicyValueInvalid(message=message, remedy=remedy), at, why, change)


def _leaf(value: JsonValue, field: str, at: Path) -> Iterator[Draft]:
    if field == "bool" and not isinstance(value, bool):
        right = str(value).lower()
        change = SetBare(at, right) if isinstance(value, str) and right in ("true", "false") else None
        message = "true or false is expected, without quotes"
        remedy = f"write {right}" if change else "write true or false"
        yield _invalid(at, message, remedy, change=change)
    elif field == "whole" and (isinstance(value, bool) or not isinstance(value, int)):
        yield _invalid(at, "a whole number is expected", "write it without quotes")
    elif field == "text" and not isinstance(value, str):
        if isinstance(value, int | float):
            message = "a string is expected, but YAML reads a number here"
            why = "a version such as 550.10 would lose its last digit" if at[-1] == "version" else ""
            yield _invalid(at, message, "put it in quotes", why, QuoteText(at))
        else:
            yield _invalid(at, "a string is expected", "write one")
    elif field.startswith("|"):
        words = field[1:-1].split("|")
        if value not in words:
            message = f"no {at[-1]} {str(value)[:60]}"
            remedy = nearest(str(value), [word for word in words if word])
            yield _invalid(at, message, remedy or f"one of {', '.join(words)}")


def _together(spec: JsonObject, at: Path) -> Iterator[Draft]:
    """What one section needs of another."""
    cdi = mapping(spec.get("cdi"))
    if cdi.get("nriPluginEnabled") is True:
        for section, values in (("cdi", cdi), ("toolkit", mapping(spec.get("toolkit")))):
            if values.get("enabled") is False:
                message = f"the NRI plugin needs {section}.enabled"
                yield _invalid((*at, "cdi", "nriPluginEnabled"), message, "enable both, or neither")
    driver = mapping(spec.get("driver"))
    version = driver.get("version")
    if driver.get("usePrecompiled") is True and isinstance(version, str) and _FULL_VERSION.fullmatch(version):
        branch = version.partition(".")[0]
        message = f"precompiled drivers are tagged by branch, but {version[:40]} is a version"
        yield _invalid((*at, "driver", "version"), message, f'write "{branch}"')
    for part, component in spec.items():
        image = mapping(component).get("image")
        whole = not mapping(component).get("repository") and not mapping(component).get("version")
        if isinstance(image, str) and image and not whole and not _IMAGE.fullmatch(image):
            message = f"{image[:100]} is not a bare image name"
            remedy = "write registry and path under repository, the tag under version"
            yield _invalid((*at, part, "image"), message, remedy)


def _config_maps(manifest: ManifestObject, spec: JsonObject, at: Path, inputs: RuleInputs) -> Iterator[Draft]:
    """ConfigMaps that it names. Its operator's namespace is not in it: any with one of the name will do."""
    for dotted, key_field in policy_fields().config_maps.items():
        steps = tuple(dotted.split("."))
        name = at_path(spec, steps)
        if not isinstance(name, str) or not name:
            continue
        there = inputs.own("ConfigMap", "", name)
        if there is not None:
            key = at_path(spec, tuple(key_field.split("."))) if key_field else None
            keys = list(mapping(there.value.get("data")))
            if isinstance(key, str) and key and key not in keys:
                message = f"the ConfigMap {name[:100]} has no key {key[:100]}"
                reason = ConfigMapUnknown(
                    subject=manifest.subject,
                    message=message,
                    remedy=nearest(key, keys),
                    kind="ConfigMap",
                    name=name,
                    others=tuple(keys),
                    key=key,
                )
                yield Draft(reason, (*at, *key_field.split(".")))
        elif inputs.cluster is not None and inputs.cluster.existing.get(("ConfigMap", "", name)) is False:
            message = f"the ConfigMap {name[:100]} does not exist in any namespace"
            reason = ConfigMapUnknown(
                subject=manifest.subject,
                message=message,
                remedy="create it in the operator's namespace",
                kind="ConfigMap",
                name=name,
                others=(),
            )
            yield Draft(reason, (*at, *steps))
