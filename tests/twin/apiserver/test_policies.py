"""What admission policies leave in the audit log; what they answer is recorded (test_admission_answers)."""

from __future__ import annotations

import json

from tonnage.model.json import JsonObject
from tonnage.twin.apiserver.requests import Address, Notes
from tonnage.twin.apiserver.server import ApiServer
from tonnage.twin.clock import VirtualClock

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
