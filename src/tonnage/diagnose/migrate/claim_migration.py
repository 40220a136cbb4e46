"""DRA-4: what asks for GPUs by number and by labels of nodes, as a class, a claim template and a pod.

Of a pod's node affinity and nodeSelector, what says something of each GPU moves into the class; the rest
stays. One claim template is made for each pod, with a request for each container that asks for GPUs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from tonnage.diagnose.lint.manifest_objects import (
    ManifestObject,
    PodSite,
    at_path,
    mapping,
    mappings,
    pods_of,
    resources_of,
)
from tonnage.diagnose.migrate.claimable_resources import (
    GPU,
    MIG,
    claimable_count,
    device_amounts,
    mig_profile_of,
    places_of,
    unclaimable,
    uncountable,
)
from tonnage.diagnose.migrate.label_selectors import (
    CONVERTIBLE,
    IS_MIG,
    IS_WHOLE,
    MEMORY_LABEL,
    MIG_DEVICES,
    OF_DRIVER,
    WHOLE_GPUS,
    clause_of,
    part_of_gpu,
)
from tonnage.diagnose.migrate.object_names import class_name, cut_name, free_name, slug
from tonnage.diagnose.migrate.text_changes import LAST, DocumentChange, changed, without_empty_parents
from tonnage.documents.yaml.reader import Path, field_path
from tonnage.model.devices.claims import DRIVER
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.kubernetes.selectors import Requirement
from tonnage.model.reasons.pod.migration import (
    MigrationReason,
    ResourceNotClaimable,
)

_MIG_CLASS: Final = "mig.nvidia.com"
_TERMS: Final = (
    "affinity",
    "nodeAffinity",
    "requiredDuringSchedulingIgnoredDuringExecution",
    "nodeSelectorTerms",
)
_PREFERRED: Final = ("affinity", "nodeAffinity", "preferredDuringSchedulingIgnoredDuringExecution")
_RAY: Final = "ray.io"
API_VERSION: Final = "resource.k8s.io/v1"


@dataclass(frozen=True, slots=True)
class MigratedRequest:
    """A request of a claim: so many devices of a class. `profile`: of MIG devices of that profile.

    `typed`: the class has whole GPUs and MIG devices, so the request says which.
    """

    name: str
    device_class: str
    count: int
    profile: str = ""
    typed: bool = False

    @property
    def selectors(self) -> tuple[str, ...]:
        """Beside those of its class. Whole GPUs have no profile, so the type comes first."""
        kind = (IS_MIG if self.profile else IS_WHOLE,) if self.typed else ()
        profile = (f"device.attributes['{DRIVER}'].profile == '{self.profile}'",) if self.profile else ()
        return (*kind, *profile)

    def to_json(self) -> JsonObject:
        """As it stands in a claim of v1."""
        exact: JsonObject = {"deviceClassName": self.device_class}
        if self.count != 1:
            exact["count"] = self.count
        if self.selectors:
            exact["selectors"] = [{"cel": {"expression": text}} for text in self.selectors]
        return {"name": self.name, "exactly": exact}


@dataclass(frozen=True, slots=True)
class ClaimMigration:
    """What becomes of one object. `refusal`: why it stays as it is; else `notes` say how far it is migrated.

    `class_selectors` are of the class `class_name`, empty where a class of the driver serves.
    """

    site: PodSite
    requests: tuple[MigratedRequest, ...] = ()
    class_name: str = ""
    class_selectors: tuple[str, ...] = ()
    template: str = ""
    changes: tuple[DocumentChange, ...] = ()
    notes: tuple[str, ...] = ()
    refusal: MigrationReason | None = None

    @property
    def subject(self) -> str:
        """The object, as a person calls it."""
        return self.site.manifest.subject

    def objects(self) -> Iterator[JsonObject]:
        """The class, if it has one of its own, and the template."""
        if self.class_selectors:
            selectors: list[JsonValue] = [{"cel": {"expression": text}} for text in self.class_selectors]
            yield {
                "apiVersion": API_VERSION,
                "kind": "DeviceClass",
                "metadata": {"name": self.class_name},
                "spec": {"selectors": selectors},
            }
        if self.template:
            metadata: JsonObject = {"name": self.template}
            own = mapping(self.site.manifest.value.get("metadata")).get("namespace")
            if isinstance(own, str):
                metadata["namespace"] = own
            requests: list[JsonValue] = [request.to_json() for request in self.requests]
            yield {
                "apiVersion": API_VERSION,
                "kind": "ResourceClaimTemplate",
                "metadata": metadata,
                "spec": {"spec": {"devices": {"requests": requests}}},
            }

    def after(self) -> JsonValue:
        """The document that has the object, migrated."""
        manifest = self.site.manifest
        return changed(manifest.sheet.documents[manifest.document].value, self.changes)


@dataclass(slots=True)
class _Draft:
    """A migration as it is made."""

    site: PodSite
    divided: bool = False
    """MIG devices are asked for, which have less memory than a node's label says."""
    clauses: list[str] = field(default_factory=list)
    added: list[DocumentChange] = field(default_factory=list)
    removed: list[Path] = field(default_factory=list)
    requests: list[MigratedRequest] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def claim_migrations(manifest: ManifestObject, products: Iterable[str]) -> Iterator[ClaimMigration]:
    """One for each pod of an object that asks for GPUs, and for what asks for some elsewhere.

    `products` are names that drivers say.
    """
    names = tuple(products)
    sites = [site for site in pods_of(manifest) if any(device_amounts(spec) for _, spec in site.containers())]
    templates: dict[tuple[MigratedRequest, ...], str] = {}
    for number, site in enumerate(sites):
        migration = _migrated(site, names)
        if migration.template:  # pods of one object that ask alike share one
            own = f"{migration.template}-{number + 1}" if number else migration.template
            template = templates.setdefault(migration.requests, own)
            migration = replace(migration, template=template, changes=tuple(_renamed(migration, template)))
        yield migration
    for path, resources in resources_of(manifest):
        for name in device_amounts({"resources": resources}):
            place = f"{field_path(path)}, which is no pod's spec, and only that can have claims"
            message = f"{name} is asked for in {place}"
            refusal = ResourceNotClaimable(subject=manifest.subject, message=message, resource=name)
            yield ClaimMigration(PodSite(manifest, path, {}, {}), refusal=refusal)


def _renamed(migration: ClaimMigration, name: str) -> Iterator[DocumentChange]:
    for change in migration.changes:
        entry = change.value[0] if isinstance(change.value, list) and change.value else change.value
        if isinstance(entry, dict) and "resourceClaimTemplateName" in entry:
            new: JsonObject = {**entry, "resourceClaimTemplateName": name}
            yield replace(change, value=[new] if isinstance(change.value, list) else new)
        else:
            yield change


def _migrated(site: PodSite, products: Sequence[str]) -> ClaimMigration:
    resources = {name for _, container in site.containers() for name in device_amounts(container)}
    if refusal := unclaimable(site, resources) or _part_meant(site, resources):
        return ClaimMigration(site, refusal=refusal)
    draft = _Draft(site, divided=resources != {GPU})
    _labels(draft, products)
    device_class = class_name(draft.clauses) if draft.clauses else ""
    claim = free_name(
        "gpu", [str(entry.get("name")) for _, entry in mappings(site.spec.get("resourceClaims"))]
    )
    if refusal := _containers(draft, device_class, claim):
        return ClaimMigration(site, refusal=refusal)
    _ray_start(draft)
    template = cut_name(f"{slug(site.manifest.name) or 'pod'}-gpu")
    entry: JsonObject = {"name": claim, "resourceClaimTemplateName": template}
    if isinstance(site.spec.get("resourceClaims"), list) and site.spec["resourceClaims"]:
        draft.added.append(DocumentChange((*site.path, "resourceClaims", LAST), entry))
    else:
        draft.added.append(DocumentChange((*site.path, "resourceClaims"), [entry]))
    document = changed(site.manifest.sheet.documents[site.manifest.document].value, draft.added)
    removed = without_empty_parents(document, draft.removed)
    base, requests = _classed(draft.requests, own_class=bool(draft.clauses))
    return ClaimMigration(
        site,
        requests,
        device_class or draft.requests[0].device_class,
        (base, *draft.clauses) if draft.clauses else (),
        template,
        (*draft.added, *map(DocumentChange, removed)),
        tuple(draft.notes),
    )


def _classed(
    requests: Sequence[MigratedRequest], *, own_class: bool
) -> tuple[str, tuple[MigratedRequest, ...]]:
    """What all devices of a class of their own are, and the requests, which say the rest."""
    if all(request.profile for request in requests):
        return MIG_DEVICES, tuple(requests)
    if not any(request.profile for request in requests):
        return WHOLE_GPUS, tuple(requests)
    return OF_DRIVER, tuple(replace(request, typed=own_class) for request in requests)


def _part_meant(site: PodSite, resources: set[str]) -> MigrationReason | None:
    """Why the resource of whole GPUs is none on the nodes that are asked for."""
    selector = mapping(site.spec.get("nodeSelector")).items()
    required = [Requirement(key, "In", (str(value),)) for key, value in selector]
    required += [entry for _, term in mappings(_at(site.spec, _TERMS)) for _, entry in _requirements(term)]
    for requirement in required if GPU in resources else ():
        profile = part_of_gpu(requirement)
        if profile is None:
            continue
        part = "a share of a GPU, which a claim cannot ask for in numbers"
        if profile:
            part = f"a MIG device; ask for {MIG}{profile.replace('+me', '.me')}"
        message = f"{GPU} is here, by {requirement.key}, {part}"
        return ResourceNotClaimable(subject=site.manifest.subject, message=message, resource=GPU)
    return None


def _labels(draft: _Draft, products: Sequence[str]) -> None:
    """Move what labels say of GPUs into clauses."""
    spec, path = draft.site.spec, draft.site.path
    for key, value in mapping(spec.get("nodeSelector")).items():
        clause = _clause(draft, Requirement(key, "In", (str(value),)), products)
        if clause is None:
            _note_kept(draft, key, str(value))
        else:
            draft.clauses.append(clause)
            draft.removed.append((*path, "nodeSelector", key))
    terms = list(mappings(_at(spec, _TERMS)))
    if len(terms) == 1:
        index, term = terms[0]
        for place, requirement in _requirements(term):
            clause = _clause(draft, requirement, products)
            if clause is None:
                _note_kept(draft, requirement.key, requirement.operator)
                continue
            draft.clauses += [clause] if clause else []
            draft.removed.append((*path, *_TERMS, index, "matchExpressions", place))
    elif terms:
        _several_terms(draft, [term for _, term in terms], products)
    if any(
        requirement.key in CONVERTIBLE
        for _, entry in mappings(_at(spec, _PREFERRED))
        for _, requirement in _requirements(mapping(entry.get("preference")))
    ):
        draft.notes.append("preferred node affinity stays: a claim selects devices, and prefers none")
    draft.clauses[:] = dict.fromkeys(clause for clause in draft.clauses if clause)


def _clause(draft: _Draft, requirement: Requirement, products: Sequence[str]) -> str | None:
    """As `clause_of`: of what the pod asks for."""
    of_whole_gpus = draft.divided and requirement.key == MEMORY_LABEL
    return None if of_whole_gpus else clause_of(requirement, products)


def _several_terms(draft: _Draft, terms: list[JsonObject], products: Sequence[str]) -> None:
    """Terms of which one must hold: they are moved together, or not at all."""
    ways: list[str] = []
    keys = {requirement.key for term in terms for _, requirement in _requirements(term)}
    for term in terms:
        clauses = [_clause(draft, requirement, products) for _, requirement in _requirements(term)]
        if term.get("matchFields") or not clauses or None in clauses or not any(clauses):
            if keys & CONVERTIBLE:
                draft.notes.append("the node affinity stays: of its terms, some say more than what a GPU is")
            return
        ways.append(" && ".join(clause for clause in clauses if clause))
    draft.clauses.append(f"({' || '.join(ways)})")
    draft.removed.append((*draft.site.path, *_TERMS))


def _note_kept(draft: _Draft, key: str, detail: str) -> None:
    if key in CONVERTIBLE:
        draft.notes.append(f"the requirement on {key} ({detail[:80]}) stays with the node's labels")


def _requirements(term: JsonObject) -> Iterator[tuple[int, Requirement]]:
    for place, entry in mappings(term.get("matchExpressions")):
        values = entry.get("values")
        texts = tuple(map(str, values)) if isinstance(values, list) else ()
        yield place, Requirement(str(entry.get("key")), str(entry.get("operator")), texts)


def _containers(draft: _Draft, device_class: str, claim: str) -> MigrationReason | None:
    """A request for each container with GPUs; an init container uses that of a container with as many.

    What an amount has against it, where one is no number of devices.
    """
    asking = [(path, spec) for path, spec in draft.site.containers() if device_amounts(spec)]
    main = [(path, spec) for path, spec in asking if path[-2] == "containers"]
    for path, container in asking:
        entries: list[JsonValue] = []
        for resource, amount in device_amounts(container).items():
            count = claimable_count(amount)
            if count is None:
                return uncountable(draft.site, str(container.get("name"))[:63], resource, str(amount)[:40])
            request = _request_of_another(draft, path, container, resource, count)
            if not request:
                request = _request_name(container, draft, alone=len(main or asking) == 1)
                profile = mig_profile_of(resource)
                builtin = _MIG_CLASS if profile else DRIVER
                draft.requests.append(MigratedRequest(request, device_class or builtin, count, profile))
            entries.append({"name": claim, "request": request})
            draft.removed += places_of(resource, path, container)
        if len(asking) == 1:  # it has the whole claim
            entries = [{"name": claim}]
        at: Path = (*path, "resources", "claims")
        if mapping(container.get("resources")).get("claims"):
            draft.added += [DocumentChange((*at, LAST), entry) for entry in entries]
        else:
            draft.added.append(DocumentChange(at, entries))
    return None


def _ray_start(draft: _Draft) -> None:
    """Tell Ray its GPUs, which KubeRay otherwise counts by the limits of the pod's first container.

    Source: ray-operator/controllers/ray/common/pod.go.
    """
    site = draft.site
    first = next((spec for path, spec in site.containers() if path[-2:] == ("containers", 0)), {})
    counts = [claimable_count(amount) for amount in device_amounts(first).values()]
    if site.manifest.group != _RAY or site.path[-2] != "template" or not counts:  # the submitter has none
        return
    at: Path = (*site.path[:-2], "rayStartParams")
    group = mapping(at_path(site.manifest.sheet.documents[site.manifest.document].value, at[:-1]))
    params, number = group.get("rayStartParams") or {}, str(counts[0])
    if not isinstance(params, dict) or "num-gpus" in params:
        return
    written: Path = at if group.get("rayStartParams") is None else (*at, "num-gpus")
    draft.added.append(DocumentChange(written, number if written != at else {"num-gpus": number}))
    draft.notes.append(f"num-gpus: {number} is new in rayStartParams: KubeRay counts only limits of GPUs")


def _request_of_another(draft: _Draft, path: Path, container: JsonObject, resource: str, count: int) -> str:
    """The request that an init container can use, since it ends before the others begin; empty: none."""
    if path[-2] != "initContainers" or container.get("restartPolicy") == "Always":
        return ""
    profile = mig_profile_of(resource)
    return next((made.name for made in draft.requests if made.count >= count and made.profile == profile), "")


def _request_name(container: JsonObject, draft: _Draft, *, alone: bool) -> str:
    name = "gpu" if alone else cut_name(slug(str(container.get("name"))) or "gpu")
    return free_name(name, [request.name for request in draft.requests])


def _at(value: JsonValue, path: Path) -> JsonValue:
    for step in path:
        value = mapping(value).get(str(step))
    return value
