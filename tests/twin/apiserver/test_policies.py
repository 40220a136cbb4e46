"""What admission policies leave in the audit log; what they answer is recorded (test_admission_answers)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.api_stores import new_store
from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject
from tonnage.twin.apiserver.authentication.users import account_user
from tonnage.twin.apiserver.requests import RequestNotes, ResourcePath
from tonnage.twin.apiserver.server import ApiServer
from tonnage.twin.clock import VirtualClock
from tonnage.wire.kinds import CONFIG_MAP

KINDS = "admissionregistration.k8s.io", "v1"
RULE: JsonObject = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "resources": ["configmaps"],
    "operations": ["*"],
}


async def created(
    server: ApiServer, path: tuple[str, str, str], body: JsonObject, space: str = ""
) -> RequestNotes:
    notes = RequestNotes()
    await server.verbs.create(server.verbs.request("create", ResourcePath(path, space), notes=notes), body)
    return notes


async def test_annotations_and_failures_are_noted_for_the_audit() -> None:
    server = ApiServer(VirtualClock(), store=new_store())
    annotations: list[JsonObject] = [
        {"key": "seen", "valueExpression": "'name ' + object.metadata.name"},
        {"key": "nothing", "valueExpression": "null"},
    ]
    spec: JsonObject = {
        "matchConstraints": {"resourceRules": [RULE]},
        "validations": [{"expression": "true"}, {"expression": "false", "message": "no"}],
        "auditAnnotations": [*annotations],
    }
    await created(server, (*KINDS, "validatingadmissionpolicies"), {"metadata": {"name": "p"}, "spec": spec})
    bound: JsonObject = {"policyName": "p", "validationActions": ["Audit"]}
    path = (*KINDS, "validatingadmissionpolicybindings")
    await created(server, path, {"metadata": {"name": "b"}, "spec": bound})
    notes = await created(server, ("", "v1", "configmaps"), {"metadata": {"name": "c"}}, "default")
    assert notes.warnings == []
    failure = notes.audit.pop("validation.policy.admission.k8s.io/validation_failure")
    assert json.loads(failure) == [
        {
            "message": "no",
            "policy": "p",
            "binding": "b",
            "expressionIndex": 1,
            "validationActions": ["Audit"],
        }
    ]
    assert notes.audit["p/seen"] == "name c"
    assert "p/nothing" not in notes.audit


async def test_policies_see_controllers_under_their_own_names() -> None:
    server = ApiServer(VirtualClock(), store=new_store())
    validations: list[JsonObject] = [
        {"expression": "false", "messageExpression": "request.userInfo.username"}
    ]
    spec: JsonObject = {"matchConstraints": {"resourceRules": [RULE]}, "validations": [*validations]}
    await created(server, (*KINDS, "validatingadmissionpolicies"), {"metadata": {"name": "p"}, "spec": spec})
    bound: JsonObject = {"policyName": "p", "validationActions": ["Deny"]}
    path = (*KINDS, "validatingadmissionpolicybindings")
    await created(server, path, {"metadata": {"name": "b"}, "spec": bound})
    api = server.local().acting_as(account_user("kube-system", "job-controller"))
    with pytest.raises(ApiError, match="system:serviceaccount:kube-system:job-controller"):
        await api.create(CONFIG_MAP, {"metadata": {"name": "c"}}, namespace="default")


async def test_policies_judge_who_opens_a_stream(running: Any) -> None:
    rule: JsonObject = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CONNECT"],
        "resources": ["pods/exec"],
    }
    told = "request.operation + ' ' + object.kind + ' ' + object.command[0] + ' ' + request.name"
    validations: list[JsonObject] = [
        {"expression": "object.command[0] == 'ls'", "messageExpression": told},
        {"expression": "request.options == null && oldObject == null"},
    ]
    spec: JsonObject = {"matchConstraints": {"resourceRules": [rule]}, "validations": [*validations]}
    path = (*KINDS, "validatingadmissionpolicies")
    await created(running.server, path, {"metadata": {"name": "p"}, "spec": spec})
    bound: JsonObject = {"policyName": "p", "validationActions": ["Deny"]}
    path = (*KINDS, "validatingadmissionpolicybindings")
    await created(running.server, path, {"metadata": {"name": "b"}, "spec": bound})
    await running.pod("web")
    pods = "/api/v1/namespaces/default/pods/web"
    refused = await running.http("POST", f"{pods}/exec?command=sh&stdin=true")
    assert refused.code == 422
    assert refused.json["message"].endswith("denied request: CONNECT PodExecOptions sh web")
    for allowed in ("exec?command=ls", "attach?stdin=true"):
        answer = await running.http("POST", f"{pods}/{allowed}")
        assert answer.json["message"] == "pod web does not have a host assigned"
