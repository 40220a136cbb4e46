"""Fields of a pod's spec that the API server refuses, whoever asks: a manifest, a file, a dump.

Source: k8s.io/kubernetes pkg/apis/core/validation, 1.35.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

from tonnage.documents.nearest import nearest
from tonnage.documents.pods.container_fields import (
    choice_faults,
    container_faults,
    field_fault,
    host_network_faults,
)
from tonnage.documents.pods.node_placement import node_affinity_faults, node_selector_faults
from tonnage.documents.pods.placement import (
    FieldPath,
    PodFault,
    mapping,
    mappings,
    placement_faults,
    text_of,
    unsupported,
)
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.kubernetes.name_words import (
    wrong_in_key,
    wrong_in_label,
    wrong_in_resource,
    wrong_in_subdomain,
)
from tonnage.model.reasons.pod.admission import (
    ClaimEntryInvalid,
    PodFieldInvalid,
    PodLevelResource,
    TolerationInvalid,
)

_T = TypeVar("_T")
_RESTARTS: Final = ("Always", "OnFailure", "Never")
_DNS: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_LONGEST_S: Final = 2**31 - 1
_POD_LEVEL: Final = ("cpu", "memory")
_HUGE_PAGES: Final = "hugepages-"
_TOLERATES: Final = ("Equal", "Exists")
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def faults(
    spec: JsonObject, amounts: Callable[[FieldPath], Iterable[_T]], *, is_pod: bool
) -> Iterator[PodFault | _T]:
    """All of them, in the server's order. `amounts`: what stands against the `resources` at a path."""
    yield from claim_entry_faults(spec)
    yield from container_faults(spec, amounts)
    yield from pod_level_faults(spec)
    yield from amounts(("resources",))
    yield from policy_faults(spec)
    yield from node_selector_faults(spec)
    yield from node_affinity_faults(spec)
    yield from dns_faults(spec)
    yield from gate_faults(spec)
    yield from placement_faults(spec)
    yield from name_faults(spec)
    yield from toleration_faults(spec)
    if is_pod and text_of(spec, "nodeName") and spec.get("schedulingGates"):
        why = "Forbidden: cannot be set until all schedulingGates have been cleared"
        message = "a pod with nodeName cannot have scheduling gates"
        yield field_fault(("nodeName",), why, message, "leave out one of them")


def field_faults(spec: JsonObject) -> Iterator[PodFault]:
    """Those that stand in fields of which nothing more special can be said."""
    nothing: tuple[PodFault, ...] = ()
    for fault in faults(spec, lambda _: nothing, is_pod=True):
        if fault.kind is PodFieldInvalid:
            yield fault


def policy_faults(spec: JsonObject) -> Iterator[PodFault]:
    """What the pod as a whole may be one of a few of."""
    yield from host_network_faults(spec)
    yield from choice_faults(text_of(spec, "restartPolicy"), _RESTARTS, ("restartPolicy",))
    yield from choice_faults(text_of(spec, "dnsPolicy"), _DNS, ("dnsPolicy",))


def dns_faults(spec: JsonObject) -> Iterator[PodFault]:
    """Without a policy the pod has to bring its own configuration."""
    if spec.get("dnsPolicy") == "None" and not spec.get("dnsConfig"):
        why, message = (
            "must provide `dnsConfig` when `dnsPolicy` is None",
            "dnsPolicy None needs a dnsConfig",
        )
        yield field_fault(("dnsConfig",), f"Required value: {why}", message, "give one", ("dnsPolicy",))


def gate_faults(spec: JsonObject) -> Iterator[PodFault]:
    """Scheduling gates: each once, by a qualified name."""
    seen_names: set[str] = set()
    for index, gate in mappings(spec.get("schedulingGates")):
        name, path = text_of(gate, "name"), ("schedulingGates", index)
        for why in wrong_in_key(name):
            yield field_fault(
                path, _invalid(name, why), f"{name[:100]!r} is not the name of a gate", "write domain/name"
            )
        if name in seen_names:
            message = f"the gate {name[:100]} is listed twice"
            yield field_fault(path, f"Duplicate value: {json.dumps(name)}", message, "name it once")
        seen_names.add(name)


def name_faults(spec: JsonObject) -> Iterator[PodFault]:
    """The node's name, and how long the pod may run."""
    node, seconds = text_of(spec, "nodeName"), spec.get("activeDeadlineSeconds")
    for why in wrong_in_subdomain(node) if node else ():
        yield field_fault(("nodeName",), _invalid(node, why), f"no node is named {node[:100]!r}", "name one")
    if isinstance(seconds, int) and not 0 < seconds <= _LONGEST_S:
        path, why = ("activeDeadlineSeconds",), f"must be between 1 and {_LONGEST_S}, inclusive"
        yield field_fault(
            path, f"Invalid value: {seconds}: {why}", "a deadline must be 1 or more", "leave it out"
        )


def claim_entry_faults(spec: JsonObject) -> Iterator[PodFault]:
    """`resourceClaims`: each with a name of its own, and naming a claim or a template."""
    names: set[str] = set()
    for index, entry in mappings(spec.get("resourceClaims")):
        at: FieldPath = ("resourceClaims", index)
        name = text_of(entry, "name")
        sources = {key: entry.get(key) for key in ("resourceClaimName", "resourceClaimTemplateName")}
        if not name:
            yield _claim((*at, "name"), "Required value", "the entry has no name", "give it one", at)
        elif name in names:
            message = f"two entries are named {name[:63]}"
            yield _claim((*at, "name"), f"Duplicate value: {json.dumps(name)}", message, "rename one")
        for why in wrong_in_label(name) if name else ():
            message, remedy = f"an entry cannot be named {name[:63]!r}", "use small letters, digits and -"
            yield _claim((*at, "name"), _invalid(name, why), message, remedy)
        names.add(name)
        if sum(value is not None for value in sources.values()) != 1 and "source" not in entry:
            yield _claim_of_pod(name, sources, at)
        for key, value in sources.items():
            for why in wrong_in_subdomain(value) if isinstance(value, str) else ():
                yield _claim((*at, key), _invalid(str(value), why), f"nothing is named {value!r}", "name one")


def _claim_of_pod(name: str, sources: dict[str, JsonValue], at: FieldPath) -> PodFault:
    names = [*sources]
    shown = {"Name": name, **{f"{key[0].upper()}{key[1:]}": value for key, value in sources.items()}}
    why = (
        f"must specify one of: `{names[0]}`, `{names[1]}`"
        if sources[names[0]] is None
        else f"at most one of `{names[0]}` or `{names[1]}` may be specified"
    )
    message = "a claim of a pod names a ResourceClaim or a ResourceClaimTemplate, and not both"
    text = f"Invalid value: {json.dumps(shown, separators=(',', ':'))}: {why}"
    return _claim(at, text, message, f"write one of {', '.join(names)}")


def _claim(path: FieldPath, text: str, message: str, remedy: str, mark: FieldPath = ()) -> PodFault:
    return PodFault(ClaimEntryInvalid, path, text, message, remedy, mark)


def pod_level_faults(spec: JsonObject) -> Iterator[PodFault]:
    """`spec.resources` is of what all containers share: a device belongs to a container."""
    for section in ("limits", "requests"):
        for name, amount in sorted(mapping(mapping(spec.get("resources")).get(section)).items()):
            if name in _POD_LEVEL or name.startswith(_HUGE_PAGES):
                continue
            listed = ", ".join(
                f'"{fault_words}"' for fault_words in (_POD_LEVEL[0], _HUGE_PAGES, _POD_LEVEL[1])
            )
            why = f"Unsupported value: {json.dumps(name)}: supported values: {listed}"
            message = (
                f"{name[:100]} stands under the pod's {section}, where only cpu, memory and huge pages may"
            )
            remedy = f"put {name[:100]}: {str(amount)[:60]} under the container's limits"
            wrong = [*wrong_in_resource(name)]
            for text in [_invalid(name, fault_words) for fault_words in wrong] or [why]:
                yield PodFault(PodLevelResource, ("resources", section, name), text, message, remedy)


def toleration_faults(spec: JsonObject) -> Iterator[PodFault]:
    """Tolerations that no server takes. Gt and Lt are left out: some take them, by version and gate."""
    for index, toleration in mappings(spec.get("tolerations")):
        yield from _toleration(toleration, ("tolerations", index))


def _toleration(toleration: JsonObject, at: FieldPath) -> Iterator[PodFault]:
    key, operator, value, effect = (text_of(toleration, k) for k in ("key", "operator", "value", "effect"))

    def fault(field: str, text: str, message: str, remedy: str, mark: FieldPath) -> PodFault:
        return PodFault(TolerationInvalid, (*at, field), text, message, remedy, mark)

    for why in wrong_in_key(key) if key else ():
        yield fault(
            "key", _invalid(key, why), f"{key[:100]!r} is not the key of a taint", "write domain/name", ()
        )
    if not key and operator != "Exists":
        why = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        message = "a toleration without key needs operator: Exists"
        yield fault("operator", _invalid(operator, why), message, "name the taint's key", at)
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        why = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        message, remedy = "tolerationSeconds needs effect: NoExecute", "remove it, or set the effect"
        yield fault("effect", _invalid(effect, why), message, remedy, (*at, "tolerationSeconds"))
    if operator == "Exists" and value:
        why = _invalid(value, "value must be empty when `operator` is 'Exists'")
        message, remedy = (
            "a toleration with operator Exists takes no value",
            "remove it, or use operator: Equal",
        )
        yield fault("operator", why, message, remedy, (*at, "value"))
    if operator not in ("", *_TOLERATES, "Gt", "Lt"):
        message, remedy = f"no operator {operator[:60]}", nearest(operator, [*_TOLERATES])
        yield fault("operator", unsupported(operator, _TOLERATES), message, remedy, ())
    if effect and effect not in _EFFECTS:
        message, remedy = f"no effect {effect[:60]}", nearest(effect, [*_EFFECTS])
        yield fault("effect", unsupported(effect, _EFFECTS), message, remedy, ())


def _invalid(value: str, why: str) -> str:
    return f"Invalid value: {json.dumps(value)}: {why}"


def written_path(path: FieldPath) -> str:
    """A path below the spec as the server writes it.

    >>> written_path(("resources", "limits", "nvidia.com/gpu")), written_path(("tolerations", 0, "value"))
    ('.resources.limits[nvidia.com/gpu]', '.tolerations[0].value')
    """
    amounts = path[:1] == ("resources",)
    return "".join(
        f"[{step}]" if isinstance(step, int) or (amounts and depth == 2) else f".{step}"
        for depth, step in enumerate(path)
    )
