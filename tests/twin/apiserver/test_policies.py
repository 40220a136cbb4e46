"""What admission policies leave in the audit log; what they answer is recorded (test_admission_answers)."""

from __future__ import annotations

import json

import pytest

from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject
from tonnage.twin.apiserver.authentication.users import account_user
from tonnage.twin.apiserver.requests import Address, Notes
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


async def created(server: ApiServer, path: tuple[str, str, str], body: JsonObject, space: str = "") -> Notes:
    notes = Notes()
    await server.verbs.create(server.verbs.request("create", Address(path, space), notes=notes), body)
    return notes


async def test_annotations_and_failures_are_noted_for_the_audit() -> None:
    server = ApiServer(VirtualClock())
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
    server = ApiServer(VirtualClock())
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
