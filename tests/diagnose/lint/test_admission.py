"""What a webhook says about claims, templates and classes is what lint says of the same object in a file."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.helm import assert_valid
from tonnage.cli.lint.lint_context import read_pod, shapes
from tonnage.diagnose.lint.admission import judge_claims
from tonnage.diagnose.lint.lint import LintContext, lint
from tonnage.diagnose.lint.sheet import Sheet
from tonnage.documents.yaml.reader import field_path

WRONG: Any = {
    "apiVersion": "resource.nvidia.com/v1beta1",
    "kind": "GpuConfig",
    "sharing": {"strategy": "MPSs"},
    "share": 1,
}
RIGHT: Any = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig"}


def claim(kind: str, parameters: Any, version: str = "v1", driver: str = "gpu.nvidia.com") -> Any:
    entry = {"opaque": {"driver": driver, "parameters": parameters}}
    request: Any = {"deviceClassName": "gpu.nvidia.com"}
    request = {"name": "gpu", **request} if version == "v1beta1" else {"name": "gpu", "exactly": request}
    spec: Any = {"devices": {"requests": [request], "config": [entry]}}
    if kind == "DeviceClass":
        spec = {"config": [entry]}
    elif kind == "ResourceClaimTemplate":
        spec = {"spec": spec}
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": kind,
        "metadata": {"name": "mine"},
        "spec": spec,
    }


PLACES = {
    "ResourceClaim": "spec.devices.config[0].opaque.parameters",
    "ResourceClaimTemplate": "spec.spec.devices.config[0].opaque.parameters",
    "DeviceClass": "spec.config[0].opaque.parameters",
}


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
@pytest.mark.parametrize("kind", PLACES)
def test_the_words_are_lints(kind: str, version: str) -> None:
    judgement = judge_claims(claim(kind, WRONG, version))
    located = lint(
        [Sheet("f.yaml", json.dumps(claim(kind, WRONG, version)))], LintContext(shapes(), read_pod)
    )
    expected = [
        (
            field_path(finding.place.path),
            f"{finding.reason.message} [{finding.code}]; {finding.reason.remedy}",
        )
        for finding in located.findings
        if finding.code == "claim-config-invalid"
    ]
    assert sorted((refusal.field, refusal.message) for refusal in judgement.refusals) == sorted(expected)
    assert {refusal.field for refusal in judgement.refusals} == {PLACES[kind]}
    assert any('unknown field "share"' in refusal.message for refusal in judgement.refusals)


@pytest.mark.parametrize(("version", "release"), [("v1beta1", "1.32"), ("v1beta2", "1.33"), ("v1", "1.34")])
@pytest.mark.parametrize("kind", PLACES)
def test_objects_of_each_version_fit_the_schema_of_the_release_that_brought_it(
    kind: str, version: str, release: str
) -> None:
    """Servers of 1.32 and 1.33 were not tried: their schemas say what the webhook would be shown."""
    assert_valid(claim(kind, RIGHT, version), release)
    wrong = claim(kind, RIGHT, version)
    wrong["spec"]["unknown"] = 1
    import kubernetes_validate  # as lean as `assert_valid` has left it

    with pytest.raises(kubernetes_validate.ValidationError):
        assert_valid(wrong, release)


@pytest.mark.parametrize("kind", PLACES)
def test_what_is_right_or_of_another_driver_is_not_refused(kind: str) -> None:
    assert not judge_claims(claim(kind, RIGHT)).refusals
    assert not judge_claims(claim(kind, WRONG, driver="gpu.example.com")).refusals


def test_what_the_api_server_itself_refuses_is_a_warning() -> None:
    wrong = claim("ResourceClaim", RIGHT)
    wrong["spec"]["devices"]["config"][0]["requests"] = ["gpus"]
    judgement = judge_claims(wrong)
    assert not judgement.refusals
    [warning] = judgement.warnings
    assert warning.startswith("spec.devices.config[0].requests[0]: the claim has no request gpus")


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"apiVersion": "v1", "kind": "Pod"},
        {"apiVersion": 5, "kind": [], "metadata": "x", "spec": []},
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"namespace": 7},
            "spec": 1,
        },
        {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "spec": {"config": {"a": 1}}},
    ],
)
def test_nothing_is_found_of_what_is_no_claim(value: Any) -> None:
    assert not judge_claims(value).refusals
