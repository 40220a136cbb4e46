"""CustomResourceDefinitions: names, scope, conversion. Their versions are checked by `versions`.

Source: k8s.io/apiextensions-apiserver pkg/apis/apiextensions/validation (validation.go), v1.35.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from tonnage.decide.kubernetes.api import names
from tonnage.decide.kubernetes.api.custom.formats import is_recognized
from tonnage.decide.kubernetes.api.problems import forbidden, invalid, required, unsupported
from tonnage.decide.kubernetes.api.validation.custom.schemas import formats_of, has_defaults
from tonnage.decide.kubernetes.api.validation.custom.versions import all_versions, each_version
from tonnage.decide.kubernetes.api.validation.fields import FieldErrors, unchanged
from tonnage.decide.kubernetes.api.validation.webhooks import client_config, review_versions
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import at, flag, mapping, mappings, text, texts

_SCOPES: Final = ("Cluster", "Namespaced")
_STRATEGIES: Final = ("None", "Webhook")
_APPROVAL: Final = "api-approved.kubernetes.io"
_PROTECTED: Final = ("k8s.io", "kubernetes.io")
_SEE: Final = "see https://github.com/kubernetes/enhancements/pull/1111"


def definition(obj: JsonObject) -> FieldErrors:
    """A new CustomResourceDefinition."""
    spec = mapping(obj, "spec")
    expected_name = f"{text(spec, 'names', 'plural')}.{text(spec, 'group')}"
    for key in ("generateName", "name"):
        if (name := text(obj, "metadata", key)) and name != expected_name:
            yield invalid(f"metadata.{key}", name, 'must be spec.names.plural+"."+spec.group')
    yield from _spec(spec)
    yield from _stored(obj)
    yield from _approved(obj)
    yield from _not_preserving(spec)


def definition_update(new: JsonObject, old: JsonObject) -> FieldErrors:
    """A changed one: what is stored already must stay readable."""
    spec, before = mapping(new, "spec"), mapping(old, "spec")
    yield from _spec(spec)
    new_names, had = mapping(spec, "names"), mapping(before, "names")
    if any(
        text(condition, "type") == "Established" and text(condition, "status") == "True"
        for condition in _conditions(old)
    ):
        yield from unchanged(spec.get("scope"), before.get("scope"), "spec.scope")
        yield from unchanged(new_names.get("kind"), had.get("kind"), "spec.names.kind")
    yield from unchanged(spec.get("group"), before.get("group"), "spec.group")
    yield from unchanged(new_names.get("plural"), had.get("plural"), "spec.names.plural")
    yield from _stored(new)
    if _approval(new)[0] != _approval(old)[0]:
        yield from _approved(new)
    if not flag(before, "preserveUnknownFields"):
        yield from _not_preserving(spec)


def format_cautions(new: JsonObject, old: JsonObject | None) -> list[str]:
    """Warnings of formats that schemas name and nobody knows, but for those that they had before."""
    old_formats = set(_formats(old)) if old is not None else set()
    return [f'unrecognized format "{form}"' for form in _formats(new) if form not in old_formats]


def _formats(definition: JsonObject) -> list[str]:
    return [
        form
        for schema in _schemas(mapping(definition, "spec"))
        for form in formats_of(schema)
        if not is_recognized(form)
    ]


def _schemas(spec: JsonObject) -> list[JsonObject]:
    """The schemas of all versions."""
    return [mapping(version, "schema", "openAPIV3Schema") for version in mappings(spec, "versions")]


def definition_status_update(new: JsonObject, _old: JsonObject) -> FieldErrors:
    """A changed status."""
    yield from _names(mapping(new, "status", "acceptedNames"), "status.acceptedNames")


def _conditions(obj: JsonObject) -> list[JsonObject]:
    return mappings(obj, "status", "conditions")


def _spec(spec: JsonObject) -> FieldErrors:
    group, versions = text(spec, "group"), mappings(spec, "versions")
    if not group:
        yield required("spec.group")
    elif wrong := names.dns_subdomain(group):
        yield invalid("spec.group", group, ",".join(wrong))
    elif "." not in group:
        yield invalid("spec.group", group, "should be a domain with at least one dot")
    scope = text(spec, "scope")
    if scope not in _SCOPES:
        yield unsupported("spec.scope", scope, _SCOPES) if scope else required("spec.scope")
    if flag(spec, "preserveUnknownFields") and any(map(has_defaults, _schemas(spec))):
        words = "must be false in order to use defaults in the schema"
        yield invalid("spec.preserveUnknownFields", True, words)
    yield from each_version(spec)
    for key in ("plural", "singular", "kind", "listKind"):
        if not text(spec, "names", key):
            yield required(f"spec.names.{key}")
    yield from _names(mapping(spec, "names"), "spec.names")
    yield from all_versions(versions)
    yield from _conversion(spec)


def _conversion(spec: JsonObject) -> FieldErrors:
    path, strategy = "spec.conversion", text(spec, "conversion", "strategy")
    if strategy != "None" and flag(spec, "preserveUnknownFields"):
        words = "must be None if spec.preserveUnknownFields is true"
        yield invalid(f"{path}.strategy", strategy, words)
    if strategy not in _STRATEGIES:
        where = f"{path}.strategy"
        yield unsupported(where, strategy, _STRATEGIES) if strategy else required(where)
    if strategy == "Webhook" and sum(flag(version, "served") for version in mappings(spec, "versions")) > 1:
        words = "this server converts nothing by webhooks: serve one version, or use the strategy None"
        yield forbidden(f"{path}.strategy", words)
    hook = mapping(spec, "conversion", "webhook")
    client, versions = at(hook, "clientConfig"), texts(hook, "conversionReviewVersions")
    if strategy == "Webhook":
        if isinstance(client, dict):
            yield from client_config(client, f"{path}.webhookClientConfig")
        else:
            yield required(f"{path}.webhookClientConfig", "required when strategy is set to Webhook")
        yield from review_versions(versions, f"{path}.conversionReviewVersions", "")
        return
    words = "should not be set when strategy is not set to Webhook"
    if client is not None:
        yield forbidden(f"{path}.webhookClientConfig", words)
    if versions:
        yield forbidden(f"{path}.conversionReviewVersions", words)


def _stored(obj: JsonObject) -> FieldErrors:
    """Every version that objects were ever stored in stays."""
    path, stored = "status.storedVersions", texts(obj, "status", "storedVersions")
    versions = mappings(obj, "spec", "versions")
    if not stored:
        yield invalid(path, None, "must have at least one stored version")
        return
    shown = list[JsonValue](stored)
    left = set(stored)
    for version in versions:
        if flag(version, "storage") and text(version, "name") not in left:
            yield invalid(path, shown, f"must have the storage version {text(version, 'name')}")
        left.discard(text(version, "name"))
    declared = {text(version, "name") for version in versions}
    for index, name in enumerate(stored):
        if name not in declared:
            words = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in "
                f"spec.versions until a storage migration ensures no data remains persisted in {name} and "
                f"removes {name} from status.storedVersions"
            )
            yield invalid(f"{path}[{index}]", name, words)


def _approval(obj: JsonObject) -> tuple[str, str]:
    """Whether a kind of a protected group was approved: a word for it, and why not."""
    annotation = text(obj, "metadata", "annotations", _APPROVAL)
    need = f'protected groups must have approval annotation "{_APPROVAL}"'
    if not annotation:
        return "missing", f"{need}, {_SEE}"
    if annotation.startswith("unapproved"):
        return "bypassed", ""
    parts = urlsplit(annotation)
    if parts.scheme and parts.netloc:
        return "approved", ""
    return "invalid", f'{need} with either a URL or a reason starting with "unapproved", {_SEE}'


def _approved(obj: JsonObject) -> FieldErrors:
    group = text(obj, "spec", "group")
    if not any(group == protected or group.endswith(f".{protected}") for protected in _PROTECTED):
        return
    path, (state, why) = f"metadata.annotations[{_APPROVAL}]", _approval(obj)
    if state == "missing":
        yield required(path, why)
    elif state == "invalid":
        yield invalid(path, text(obj, "metadata", "annotations", _APPROVAL), why)


def _not_preserving(spec: JsonObject) -> FieldErrors:
    if flag(spec, "preserveUnknownFields"):
        words = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
            "spec.versions[*].schema instead"
        )
        yield invalid("spec.preserveUnknownFields", True, words)


def _names(declared: JsonObject, path: str) -> FieldErrors:
    for key in ("plural", "singular"):
        name = text(declared, key)
        if name and (wrong := names.dns_label_1035(name)):
            yield invalid(f"{path}.{key}", name, ",".join(wrong))
    for key in ("kind", "listKind"):
        name = text(declared, key)
        if name and (wrong := names.dns_label_1035(name.lower())):
            words = f"may have mixed case, but should otherwise match: {','.join(wrong)}"
            yield invalid(f"{path}.{key}", name, words)
    for index, name in enumerate(texts(declared, "shortNames")):
        if wrong := names.dns_label_1035(name):
            yield invalid(f"{path}.shortNames[{index}]", name, ",".join(wrong))
    if text(declared, "kind") and text(declared, "kind") == text(declared, "listKind"):
        words = "kind and listKind may not be the same"
        yield invalid(f"{path}.listKind", text(declared, "listKind"), words)
    for index, name in enumerate(texts(declared, "categories")):
        if wrong := names.dns_label_1035(name):
            yield invalid(f"{path}.categories[{index}]", name, ",".join(wrong))
