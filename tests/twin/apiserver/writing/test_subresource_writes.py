"""What writers of objects and of parts of them may say of identity, versions and kinds."""

from __future__ import annotations

import pytest

from support.api_stores import new_store
from tonnage.adapters.clock import SystemClock
from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject
from tonnage.model.json_access import at
from tonnage.ports.kubernetes import PatchType
from tonnage.twin.apiserver.requests import RequestNotes, ResourcePath
from tonnage.twin.apiserver.server import ApiServer
from tonnage.twin.apiserver.verbs import Verbs

_PODS = ("", "v1", "pods")
_BUDGETS = ("policy", "v1", "poddisruptionbudgets")
_DEPLOYMENTS = ("apps", "v1", "deployments")
_FOOS = ("example.org", "v1", "foos")
_FIXED = "metadata.{}: Invalid value: {}: field is immutable"
_PREFER = (
    "prefer a domain-qualified finalizer name{} to avoid accidental conflicts with other finalizer writers"
)
_OTHER: JsonObject = {"metadata": {"uid": "u"}}
_OTHER_UID = _FIXED.format("uid", '"u"')
_SELECTOR: JsonObject = {"matchLabels": {"a": "b"}}
_CONTAINERS: JsonObject = {"containers": [{"name": "c", "image": "i"}]}
_OBJECTS: list[tuple[tuple[str, str, str], JsonObject]] = [
    (_PODS, {"spec": _CONTAINERS}),
    (_BUDGETS, {"spec": {"minAvailable": 1, "selector": _SELECTOR}}),
    (
        _DEPLOYMENTS,
        {
            "spec": {
                "selector": _SELECTOR,
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": _CONTAINERS},
            }
        },
    ),
    (_FOOS, {"spec": {"replicas": 1}}),
]
_OPEN: JsonObject = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_FOO: JsonObject = {
    "metadata": {"name": "foos.example.org"},
    "spec": {
        "group": "example.org",
        "scope": "Namespaced",
        "names": {"plural": "foos", "kind": "Foo"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": _OPEN},
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
                },
            }
        ],
    },
}
_REFUSED: list[tuple[str, tuple[str, str, str], str, JsonObject, str]] = [
    ("another uid of a pod's status", _PODS, "status", _OTHER, _OTHER_UID),
    ("another uid of its ephemeral containers", _PODS, "ephemeralcontainers", _OTHER, _OTHER_UID),
    (
        "a grace period that nobody gave",
        _PODS,
        "status",
        {"metadata": {"deletionGracePeriodSeconds": 5}},
        _FIXED.format("deletionGracePeriodSeconds", 5),
    ),
    (
        "an end that nobody asked for",
        _BUDGETS,
        "status",
        {"metadata": {"deletionTimestamp": "2020-01-01T00:00:00Z"}},
        _FIXED.format("deletionTimestamp", '"2020-01-01T00:00:00Z"'),
    ),
    (
        "a budget of no version",
        _BUDGETS,
        "",
        {"metadata": {"resourceVersion": None}},
        "must be specified for",
    ),
    (
        "a custom object of no version",
        _FOOS,
        "",
        {"metadata": {"resourceVersion": None}},
        "must be specified",
    ),
    (
        "a custom object of another kind",
        _FOOS,
        "",
        {"kind": "Bar"},
        'kind: Invalid value: "Bar": must be Foo',
    ),
    (
        "a custom object of another version",
        _FOOS,
        "",
        {"apiVersion": "v9"},
        'Foo "o" is invalid: apiVersion: Invalid value: "v9": must be example.org/v1',
    ),
    (
        "a Scale of another object",
        _DEPLOYMENTS,
        "scale",
        {"metadata": {"uid": "u"}},
        'deployments/scale.apps "o": Precondition failed: UID in precondition: u, UID in object meta: ',
    ),
    (
        "a Scale with a label that is none",
        _DEPLOYMENTS,
        "scale",
        {"metadata": {"labels": {"-a": "b"}}},
        'Scale.autoscaling "o" is invalid: metadata.labels: Invalid value: "-a"',
    ),
]
_TAKEN: list[tuple[str, tuple[str, str, str], str, JsonObject]] = [
    (
        "an end of a pod, which is dropped",
        _PODS,
        "status",
        {"metadata": {"deletionTimestamp": "2020-01-01T00:00:00Z"}},
    ),
    ("another kind of a custom object's status", _FOOS, "status", {"kind": "Bar", "apiVersion": "v9"}),
    ("another uid in a custom object's Scale", _FOOS, "scale", {"metadata": {"uid": "u"}}),
]


@pytest.fixture
async def verbs() -> Verbs:
    verbs = ApiServer(SystemClock(), store=new_store()).verbs
    definitions = ResourcePath(("apiextensions.k8s.io", "v1", "customresourcedefinitions"))
    await verbs.create(verbs.request("create", definitions), _FOO)
    for path, body in _OBJECTS:
        request = verbs.request("create", ResourcePath(path, "default"))
        await verbs.create(request, {"metadata": {"name": "o"}, **body})
    return verbs


async def _patched(verbs: Verbs, path: tuple[str, str, str], part: str, patch: JsonObject) -> RequestNotes:
    notes = RequestNotes()
    request = verbs.request("patch", ResourcePath(path, "default", "o", part), notes=notes)
    await verbs.patch(request, PatchType.MERGE, patch)
    return notes


@pytest.mark.parametrize(
    ("path", "part", "patch", "said"), [row[1:] for row in _REFUSED], ids=[r[0] for r in _REFUSED]
)
async def test_what_a_patch_says_is_refused(
    verbs: Verbs, path: tuple[str, str, str], part: str, patch: JsonObject, said: str
) -> None:
    with pytest.raises(ApiError) as refused:
        await _patched(verbs, path, part, patch)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("path", "part", "patch"), [row[1:] for row in _TAKEN], ids=[row[0] for row in _TAKEN]
)
async def test_what_a_patch_says_is_passed_over(
    verbs: Verbs, path: tuple[str, str, str], part: str, patch: JsonObject
) -> None:
    stored = verbs.store.get((path[0], path[2]), ("default", "o"))
    await _patched(verbs, path, part, patch)
    after = verbs.store.get((path[0], path[2]), ("default", "o"))
    assert stored is not None
    assert after is not None
    for where in (("kind",), ("spec",), ("metadata", "uid"), ("metadata", "deletionTimestamp")):
        assert at(after.object, *where) == at(stored.object, *where)


@pytest.mark.parametrize(
    ("finalizer", "said"),
    [
        ("a/b", []),
        ("orphan", []),
        ("bad", [_PREFER.format("")]),
        ("a.b", [_PREFER.format(" including a path (/)")]),
    ],
)
async def test_of_new_finalizers_of_custom_objects_writers_are_warned(
    verbs: Verbs, finalizer: str, said: list[str]
) -> None:
    patch: JsonObject = {"metadata": {"finalizers": [finalizer]}}
    notes = await _patched(verbs, _FOOS, "", patch)
    assert notes.warnings == [f'metadata.finalizers: "{finalizer}": {words}' for words in said]
    assert (await _patched(verbs, _FOOS, "", {**patch, "spec": {"a": 1}})).warnings == []


async def test_an_empty_list_of_entries_changes_nothing_of_a_custom_object(verbs: Verbs) -> None:
    await _patched(verbs, _FOOS, "", {"metadata": {"managedFields": []}, "spec": {"a": 1}})
    stored = verbs.store.get(("example.org", "foos"), ("default", "o"))
    assert stored is not None
    metadata = stored.object["metadata"]
    assert isinstance(metadata, dict)
    assert metadata["managedFields"]
