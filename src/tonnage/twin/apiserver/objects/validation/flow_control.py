"""Who waits for whom when the server is busy: flow schemas and priority levels.

Source: pkg/apis/flowcontrol/validation, k8s.io/apiserver pkg/apis/flowcontrol/bootstrap (v1.35).
"""

from __future__ import annotations

import math
from typing import Final

from tonnage.model.json import JsonObject
from tonnage.twin.apiserver.access import flag, mapping, mappings, number, text, texts
from tonnage.twin.apiserver.objects import names
from tonnage.twin.apiserver.objects.go_values import in_go
from tonnage.twin.apiserver.objects.patch import same_json
from tonnage.twin.apiserver.objects.problems import (
    complaints,
    duplicate,
    forbidden,
    invalid,
    required,
    unsupported,
)
from tonnage.twin.apiserver.objects.validation.fields import Found

_EXEMPT: Final = "exempt"
_ANY: Final = "*"
_METHODS: Final = ("ByNamespace", "ByUser")
_SUBJECTS: Final = {"Group": "group", "ServiceAccount": "serviceAccount", "User": "user"}
_LEVELS: Final = ("Exempt", "Limited")
_RESPONSES: Final = ("Queue", "Reject")
_VERBS: Final = (
    "create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch",
)  # fmt: skip
_LAST_PRECEDENCE: Final = 10_000
_MOST_QUEUES: Final = 10_000_000
_HASH_BITS: Final = 60
_NOT_NEGATIVE: Final = "must be a non-negative integer"
_PERCENT: Final = "must be between 0 and 100, inclusive"
_KEPT_ANNOTATION: Final = "flowcontrol.k8s.io/preserve-zero-concurrency-shares"
_EVERYTHING: Final[JsonObject] = {
    "resourceRules": [
        {
            "verbs": [_ANY],
            "apiGroups": [_ANY],
            "resources": [_ANY],
            "clusterScope": True,
            "namespaces": [_ANY],
        }
    ],
    "nonResourceRules": [{"verbs": [_ANY], "nonResourceURLs": [_ANY]}],
}
_FIXED_SCHEMAS: Final[dict[str, JsonObject]] = {
    _EXEMPT: {
        "priorityLevelConfiguration": {"name": _EXEMPT},
        "matchingPrecedence": 1,
        "rules": [{"subjects": [{"kind": "Group", "group": {"name": "system:masters"}}], **_EVERYTHING}],
    },
    "catch-all": {
        "priorityLevelConfiguration": {"name": "catch-all"},
        "matchingPrecedence": _LAST_PRECEDENCE,
        "distinguisherMethod": {"type": "ByUser"},
        "rules": [
            {
                "subjects": [
                    {"kind": "Group", "group": {"name": "system:unauthenticated"}},
                    {"kind": "Group", "group": {"name": "system:authenticated"}},
                ],
                **_EVERYTHING,
            }
        ],
    },
}
_FIXED_LEVELS: Final[dict[str, JsonObject]] = {
    _EXEMPT: {"type": "Exempt"},
    "catch-all": {
        "type": "Limited",
        "limited": {
            "nominalConcurrencyShares": 5,
            "limitResponse": {"type": "Reject"},
            "lendablePercent": 0,
        },
    },
}


def flow_schema(obj: JsonObject) -> Found:
    """A FlowSchema: which requests are of which level; those that the server needs stay as they are."""
    name, spec = text(obj, "metadata", "name"), mapping(obj, "spec")
    precedence, path = number(spec, "matchingPrecedence"), "spec.matchingPrecedence"
    if precedence <= 0:
        yield invalid(path, precedence, "must be a positive value")
    if precedence > _LAST_PRECEDENCE:
        yield invalid(path, precedence, f"must not be greater than {_LAST_PRECEDENCE}")
    if precedence == 1 and name != _EXEMPT:
        yield invalid(path, precedence, "only the schema named 'exempt' may have matchingPrecedence 1")
    method = spec.get("distinguisherMethod")
    if method is not None and text(method, "type") not in _METHODS:
        yield unsupported("spec.distinguisherMethod.type", {"Type": text(method, "type")}, _METHODS)
    where, level = "spec.priorityLevelConfiguration.name", text(spec, "priorityLevelConfiguration", "name")
    if level:
        yield from complaints(where, level, names.dns_subdomain(level))
    else:
        yield required(where, "must reference a priority level")
    for index, rule in enumerate(mappings(spec, "rules")):
        yield from _rule(rule, f"spec.rules[{index}]")
    if name in _FIXED_SCHEMAS and not same_json(spec, _FIXED_SCHEMAS[name]):
        yield invalid(
            "spec", in_go("apf.FlowSchemaSpec", spec), f"spec of '{name}' must equal the fixed value"
        )
    yield from status(obj, obj)


def _rule(rule: JsonObject, path: str) -> Found:
    subjects = mappings(rule, "subjects")
    if not subjects:
        yield required(f"{path}.subjects", "subjects must contain at least one value")
    for index, subject in enumerate(subjects):
        yield from _subject(subject, f"{path}.subjects[{index}]")
    resources, others = mappings(rule, "resourceRules"), mappings(rule, "nonResourceRules")
    if not resources and not others:
        yield required(path, "at least one of resourceRules and nonResourceRules has to be non-empty")
    for index, one in enumerate(resources):
        yield from _resource_rule(one, f"{path}.resourceRules[{index}]")
    for index, one in enumerate(others):
        yield from _other_rule(one, f"{path}.nonResourceRules[{index}]")


def _subject(subject: JsonObject, path: str) -> Found:
    """Who asks: just what is said of its kind."""
    kind = text(subject, "kind")
    if kind not in _SUBJECTS:
        yield unsupported(f"{path}.kind", kind, sorted(_SUBJECTS))
        return
    key = _SUBJECTS[kind]
    if subject.get(key) is None:
        yield required(f"{path}.{key}", f"{key} is required when subject kind is '{kind}'")
    else:
        yield from _who(kind, mapping(subject, key), f"{path}.{key}")
    for other in ("ServiceAccount", "User", "Group"):
        if other != kind and subject.get(_SUBJECTS[other]) is not None:
            words = f"{_SUBJECTS[other]} is forbidden when subject kind is not '{other}'"
            yield forbidden(f"{path}.{_SUBJECTS[other]}", words)


def _who(kind: str, one: JsonObject, path: str) -> Found:
    name, namespace = text(one, "name"), text(one, "namespace")
    if not name:
        yield required(f"{path}.name")
    if kind != "ServiceAccount":
        return
    if name and name != _ANY:
        yield from complaints(f"{path}.name", name, names.dns_subdomain(name))
    if namespace:
        yield from complaints(f"{path}.namespace", namespace, names.dns_label(namespace))
    else:
        yield required(f"{path}.namespace", "must specify namespace for service account")


def _alone(found: list[str], path: str, others: str) -> Found:
    """A list in which the wildcard stands alone."""
    if _ANY in found and len(found) > 1:
        yield invalid(path, list(found), f"if '*' is present, must not specify other {others}")


def _verbs(rule: JsonObject, path: str) -> Found:
    verbs = texts(rule, "verbs")
    if not verbs:
        yield required(f"{path}.verbs", "verbs must contain at least one value")
    elif _ANY not in verbs and not {*verbs} <= {*_VERBS}:
        yield unsupported(f"{path}.verbs", list(verbs), _VERBS)
    yield from _alone(verbs, f"{path}.verbs", "verbs")


def _resource_rule(rule: JsonObject, path: str) -> Found:
    yield from _verbs(rule, path)
    for key, one, others in (
        ("apiGroups", "api group", "api groups"),
        ("resources", "resource", "resources"),
    ):
        if not (found := texts(rule, key)):
            yield required(f"{path}.{key}", f"resource rules must supply at least one {one}")
        yield from _alone(found, f"{path}.{key}", others)
    spaces, where = texts(rule, "namespaces"), f"{path}.namespaces"
    if not spaces and not flag(rule, "clusterScope"):
        words = "resource rules that are not cluster scoped must supply at least one namespace"
        yield required(where, words)
    yield from _alone(spaces, where, "namespaces")
    for index, space in enumerate(() if _ANY in spaces else spaces):
        for words in names.dns_label(space):
            each = "each member of this list must be '*' or a DNS-1123 label; "
            yield invalid(f"{where}[{index}]", space, each + words)


def _other_rule(rule: JsonObject, path: str) -> Found:
    yield from _verbs(rule, path)
    found, where = texts(rule, "nonResourceURLs"), f"{path}.nonResourceURLs"
    if not found:
        yield required(where, "nonResourceURLs must contain at least one value")
    yield from _alone(found, where, "non-resource URLs")
    for index, url in enumerate(() if _ANY in found else found):
        if words := _wrong_in_url(url):
            yield invalid(f"{where}[{index}]", url, words)


def _wrong_in_url(url: str) -> str:
    """What is wrong with a path; empty if nothing is."""
    if not url:
        return "must not be empty"
    if not url.startswith("/"):
        return "must start with slash"
    if " " in url:
        return "must not contain white-space"
    if "//" in url:
        return "must not contain double slash"
    wildcards = url.count(_ANY)
    good = wildcards == 0 or (wildcards == 1 and url.endswith("/*"))
    return "" if good else "wildcard can only do suffix matching"


def priority_level(obj: JsonObject) -> Found:
    """A PriorityLevelConfiguration: how much is done at once of a level, and what becomes of the rest."""
    name, spec = text(obj, "metadata", "name"), mapping(obj, "spec")
    if _KEPT_ANNOTATION in mapping(obj, "metadata", "annotations"):
        yield forbidden("metadata.annotations", f"annotation '{_KEPT_ANNOTATION}' is forbidden")
    kind, limited, exempt = text(spec, "type"), spec.get("limited"), spec.get("exempt")
    if (name == _EXEMPT) != (kind == "Exempt"):
        yield invalid("spec.type", kind, "must be 'Exempt' if and only if `name` is 'exempt'")
    match kind:
        case "Exempt":
            if limited is not None:
                yield forbidden("spec.limited", "must be nil if the type is not Limited")
            yield from _exempted(mapping(exempt), "spec.exempt")
        case "Limited":
            if exempt is not None:
                yield forbidden("spec.exempt", "must be nil if the type is Limited")
            if limited is None:
                yield required("spec.limited", "must not be empty when type is Limited")
            else:
                yield from _limits(mapping(limited), "spec.limited")
        case _:
            yield unsupported("spec.type", kind, _LEVELS)
    yield from _fixed_level(name, spec)
    yield from status(obj, obj)


def _fixed_level(name: str, spec: JsonObject) -> Found:
    """The levels that the server needs stay as they are."""
    if name not in _FIXED_LEVELS:
        return
    passed_over = ("exempt",) if name == _EXEMPT else ()
    if not same_json({key: spec[key] for key in spec if key not in passed_over}, _FIXED_LEVELS[name]):
        part = " except the 'spec.exempt' field" if passed_over else ""
        shown = in_go("apf.PriorityLevelConfigurationSpec", spec)
        yield invalid("spec", shown, f"spec of '{name}'{part} must equal the fixed value")


def _exempted(exempt: JsonObject, path: str) -> Found:
    if (shares := number(exempt, "nominalConcurrencyShares")) < 0:
        yield invalid(f"{path}.nominalConcurrencyShares", shares, _NOT_NEGATIVE)
    yield from _lendable(exempt, path)


def _lendable(level: JsonObject, path: str) -> Found:
    if not 0 <= (percent := number(level, "lendablePercent")) <= 100:
        yield invalid(f"{path}.lendablePercent", percent, _PERCENT)


def _limits(limited: JsonObject, path: str) -> Found:
    if (shares := number(limited, "nominalConcurrencyShares")) < 0:
        yield invalid(f"{path}.nominalConcurrencyShares", shares, _NOT_NEGATIVE)
    yield from _response(mapping(limited, "limitResponse"), f"{path}.limitResponse")
    yield from _lendable(limited, path)
    if (percent := number(limited, "borrowingLimitPercent")) < 0:
        yield invalid(f"{path}.borrowingLimitPercent", percent, f"if specified, {_NOT_NEGATIVE}")


def _response(response: JsonObject, path: str) -> Found:
    kind, queuing, where = text(response, "type"), response.get("queuing"), f"{path}.queuing"
    if kind not in _RESPONSES:
        yield unsupported(f"{path}.type", kind, _RESPONSES)
    elif kind == "Reject" and queuing is not None:
        yield forbidden(where, "must be nil if limited.limitResponse.type is not Limited")
    elif kind == "Queue" and queuing is None:
        yield required(where, "must not be empty if limited.limitResponse.type is Limited")
    elif kind == "Queue":
        yield from _queues(mapping(queuing), where)


def _queues(queuing: JsonObject, path: str) -> Found:
    longest, queues, hand = (number(queuing, key) for key in ("queueLengthLimit", "queues", "handSize"))
    if longest <= 0:
        yield invalid(f"{path}.queueLengthLimit", longest, "must be positive")
    if queues <= 0:
        yield invalid(f"{path}.queues", queues, "must be positive")
    elif queues > _MOST_QUEUES:
        yield invalid(f"{path}.queues", queues, f"must not be greater than {_MOST_QUEUES}")
    if hand <= 0:
        yield invalid(f"{path}.handSize", hand, "must be positive")
    elif hand > queues:
        yield invalid(f"{path}.handSize", hand, f"should not be greater than queues ({queues})")
    elif math.ceil(math.log2(queues) * hand) > _HASH_BITS:
        words = (
            f"required entropy bits of deckSize {queues} and handSize {hand} "
            f"should not be greater than {_HASH_BITS}"
        )
        yield invalid(f"{path}.handSize", hand, words)


def status(new: JsonObject, _old: JsonObject) -> Found:
    """What the server says of either: one condition of a type."""
    seen: set[str] = set()
    for index, condition in enumerate(mappings(new, "status", "conditions")):
        path, kind = f"status.conditions[{index}].type", text(condition, "type")
        if kind in seen:
            yield duplicate(path, kind)
        seen.add(kind)
        if not kind:
            yield required(path)
