"""Objects are refused, taken and warned of as by a genuine API server, with no server there."""

from __future__ import annotations

from typing import Any

import pytest

from support.recorded_creations import Creation, creations
from tonnage.decide.kubernetes.api.creation import answer_to_create
from tonnage.model.kubernetes.api_answer import ApiAnswer

CREATIONS = creations()
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c", "image": "x"}]},
}


def answer(**changes: Any) -> ApiAnswer:
    found = answer_to_create({**POD, **changes}, "lab")
    assert found is not None
    return found


@pytest.mark.sampled("recorded creations")
@pytest.mark.parametrize("creation", CREATIONS, ids=str)
def test_an_object_is_answered_as_by_a_genuine_kubernetes(creation: Creation) -> None:
    answer = answer_to_create(creation.body, creation.namespace)
    assert answer is not None
    if "strict decoding error" not in answer.message:  # the recorded requests are not strict
        assert answer.message == creation.said


def test_there_are_refusals_and_objects_of_many_kinds() -> None:
    refused = [creation for creation in CREATIONS if creation.said]
    assert len(refused) > 300
    assert len(CREATIONS) - len(refused) > 250
    assert len({one.body["kind"] for one in refused}) > 20


def test_what_the_server_makes_up_is_left_open() -> None:
    reply = answer(metadata={"generateName": "Train_"})
    assert reply.message.startswith('Pod "Train_…" is invalid: [metadata.')


def test_a_field_that_is_unknown_or_of_another_type_is_not_decoded() -> None:
    unknown, wrong = answer(spec={**POD["spec"], "nope": 1}), answer(spec={"containers": "x"})
    assert unknown.message.endswith('strict decoding error: unknown field "spec.nope"')
    assert wrong.message.endswith("Go struct field PodSpec.spec.containers of type []v1.Container")
    assert unknown.faults == wrong.faults == ()


def test_a_taken_object_comes_with_the_server_s_warnings() -> None:
    old = {"name": "p", "annotations": {"scheduler.alpha.kubernetes.io/critical-pod": ""}}
    [warning] = answer(metadata=old).warnings
    assert warning.startswith(
        "metadata.annotations[scheduler.alpha.kubernetes.io/critical-pod]: non-functional"
    )


@pytest.mark.parametrize(
    ("version", "kind"),
    [("apps/v0", "Deployment"), ("v1", "Nope"), ("v1", "Binding"), ("", ""), ("a.b/c/d", "Pod")],
    ids=["an old version", "no kind", "an order, which is not kept", "nothing", "no version"],
)
def test_a_kind_whose_rules_are_not_at_hand_is_not_judged(version: str, kind: str) -> None:
    assert answer_to_create({"apiVersion": version, "kind": kind, "metadata": {"name": "A_"}}, "lab") is None


def test_of_a_custom_kind_the_metadata_is_judged() -> None:
    policy: dict[str, Any] = {
        "apiVersion": "nvidia.com/v1",
        "kind": "ClusterPolicy",
        "spec": {"no": "such field"},
    }
    bad: dict[str, Any] = {**policy, "metadata": {"name": "A_", "labels": {"a": "x y"}, "namespace": "B_"}}
    answer = answer_to_create(bad, "lab")
    assert answer is not None
    assert answer.message.startswith(
        'ClusterPolicy.nvidia.com "A_" is invalid: [metadata.name: Invalid value'
    )
    assert [fault.field for fault in answer.faults] == [
        "metadata.name",
        "metadata.namespace",
        "metadata.labels",
    ]
    for key, name in (("name", "a"), ("generateName", "a-")):
        answer = answer_to_create({**policy, "metadata": {key: name}}, "lab")
        assert answer is not None
        assert not answer.message
    assert answer_to_create({**policy, "metadata": {}}, "lab") is None  # a program's configuration


def test_the_object_stays_as_it_was() -> None:
    body = {**POD, "metadata": {"name": "p", "uid": "u"}, "status": {"phase": "Running"}}
    before = repr(body)
    answer_to_create(body, "lab")
    assert repr(body) == before
