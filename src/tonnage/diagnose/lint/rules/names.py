"""Objects that a pod names and the cluster lacks. Nothing is said of kinds that could not be asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tonnage.diagnose.lint.finding import Draft
from tonnage.diagnose.lint.manifest_objects import PodSite, mapping, mappings
from tonnage.diagnose.lint.rule_inputs import RuleInputs
from tonnage.documents.nearest import nearest
from tonnage.documents.yaml.reader import Path
from tonnage.model.reasons.lint.manifests import ConfigMapUnknown, VolumeClaimUnknown
from tonnage.model.reasons.pod.admission import (
    NameMissing,
    PriorityClassUnknown,
    RuntimeClassMissing,
    ServiceAccountMissing,
)

_ALWAYS = ("default",)
"""A ServiceAccount that every namespace has."""


@dataclass(frozen=True, slots=True)
class NeededObject:
    """An object that a pod needs, by its kind; `namespace` empty for kinds without."""

    kind: str
    namespace: str
    name: str
    path: Path
    reason: type[NameMissing]


def of_pod(site: PodSite, inputs: RuleInputs) -> Iterator[Draft]:
    """A finding for each object that is certainly not there."""
    if inputs.cluster is None:
        return
    existing = inputs.cluster.existing
    for reference in references(site):
        if inputs.own(reference.kind, reference.namespace, reference.name) is not None:
            continue
        if existing.get((reference.kind, reference.namespace, reference.name)) is not False:
            continue
        others = sorted(
            name
            for (kind, space, name), there in existing.items()
            if there and (kind, space) == (reference.kind, reference.namespace)
        )
        where = f" in namespace {reference.namespace}" if reference.namespace else ""
        message = f"the {reference.kind} {reference.name[:100]} does not exist{where}"
        reason = reference.reason(
            subject=site.manifest.subject,
            message=message,
            remedy=nearest(reference.name, others) or "create it, or name another",
            kind=reference.kind,
            name=reference.name,
            others=tuple(others),
        )
        yield Draft(reason, reference.path)


def references(site: PodSite) -> Iterator[NeededObject]:
    """Every object that must be there before the pod can run. Secrets are not looked for."""
    spec, space = site.spec, site.manifest.namespace
    fields: tuple[tuple[str, str, type[NameMissing], bool], ...] = (
        ("priorityClassName", "PriorityClass", PriorityClassUnknown, False),
        ("runtimeClassName", "RuntimeClass", RuntimeClassMissing, False),
        ("serviceAccountName", "ServiceAccount", ServiceAccountMissing, True),
    )
    for field, kind, reason, namespaced in fields:
        name = spec.get(field)
        if isinstance(name, str) and name and not (kind == "ServiceAccount" and name in _ALWAYS):
            if kind == "PriorityClass" and name.startswith("system-"):
                continue
            yield NeededObject(kind, space if namespaced else "", name, (*site.path, field), reason)
    yield from _volumes(site)
    for path, container in site.containers():
        for index, source in mappings(container.get("envFrom")):
            yield from _config_map(
                source.get("configMapRef"), (*path, "envFrom", index, "configMapRef"), space
            )
        for index, variable in mappings(container.get("env")):
            value = mapping(variable.get("valueFrom")).get("configMapKeyRef")
            yield from _config_map(value, (*path, "env", index, "valueFrom", "configMapKeyRef"), space)


def _volumes(site: PodSite) -> Iterator[NeededObject]:
    space = site.manifest.namespace
    for index, volume in mappings(site.spec.get("volumes")):
        at: Path = (*site.path, "volumes", index)
        yield from _config_map(volume.get("configMap"), (*at, "configMap"), space)
        for place, source in mappings(mapping(volume.get("projected")).get("sources")):
            yield from _config_map(
                source.get("configMap"), (*at, "projected", "sources", place, "configMap"), space
            )
        name = mapping(volume.get("persistentVolumeClaim")).get("claimName")
        if isinstance(name, str) and name:
            path: Path = (*at, "persistentVolumeClaim", "claimName")
            yield NeededObject("PersistentVolumeClaim", space, name, path, VolumeClaimUnknown)


def _config_map(value: object, at: Path, space: str) -> Iterator[NeededObject]:
    if isinstance(value, dict) and isinstance(value.get("name"), str) and value.get("optional") is not True:
        yield NeededObject("ConfigMap", space, value["name"], (*at, "name"), ConfigMapUnknown)
