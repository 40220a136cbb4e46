"""What the status of an admission policy warns of, as a genuine 1.35.8 does."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.twin.controllers.policy_types import Types, expression_warnings
from tonnage.wire.schema import load_schema

WIDGET: Any = {
    "group": "ex.io",
    "names": {"plural": "widgets", "kind": "Widget"},
    "versions": [
        {
            "name": "v1",
            "served": True,
            "schema": {
                "openAPIV3Schema": {
                    "type": "object",
                    "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}}}},
                }
            },
        }
    ],
}
TYPES = Types(load_schema(), [WIDGET])
DEPLOYMENTS = ("apps", "v1", "deployments")


def warned(expression: str, *resources: tuple[str, str, str], **spec: Any) -> list[str]:
    """The warnings of a policy with one expression, which is true where it is made."""
    rules = [
        {"apiGroups": [group], "apiVersions": [version], "resources": [plural]}
        for group, version, plural in resources
    ]
    policy: Any = {"matchConstraints": {"resourceRules": rules}, "validations": [{"expression": expression}]}
    found: Any = expression_warnings({**policy, **spec}, TYPES)
    assert all(one["fieldRef"] == "spec.validations[0].expression" for one in found)
    return [one["warning"] for one in found]


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        pytest.param("object.spec.replicas > 5", "", id="what fits is not told"),
        pytest.param(
            "object.spec.replicas > '5'",
            "1:22: found no matching overload for '_>_' applied to '(int, string)'",
            id="numbers and texts",
        ),
        pytest.param("object.spec.replica == 5", "1:12: undefined field 'replica'", id="a wrong field"),
        pytest.param(
            "object.spec.template.spec.containers.all(c, c.imag == 'x')",
            "1:46: undefined field 'imag'",
            id="a wrong field of an element",
        ),
        pytest.param(
            "object.spec.template.spec.containers.all(c, c.resources.limits['cpu'] == '1')",
            "1:56: undefined field 'limits'",
            id="amounts, of which there is no type",
        ),
        pytest.param(
            "object.spec.strategy.rollingUpdate.maxSurge == 1", "", id="numbers or texts, which may be either"
        ),
        pytest.param(
            "authorizer.requestResource.check('get').allowed()",
            "1:11: unexpected failed resolution of 'kubernetes.authorization.Authorizer'",
            id="what is asked, which nobody declares",
        ),
        pytest.param(
            "object.requestResource == 'x'",
            "1:7: undefined field 'requestResource'",
            id="a field of its name",
        ),
        pytest.param(
            "quantity('1').value == 1",
            "1:14: unexpected failed resolution of 'kubernetes.Quantity'",
            id="a field of a type of Kubernetes' own",
        ),
        pytest.param(
            "ip('::1').value == 1", "1:10: type 'net.IP' does not support field selection", id="of an address"
        ),
        pytest.param("variables.most == 'x'", "", id="variables of such types, which are of any"),
        pytest.param(
            "variables.count == 'x'",
            "1:17: found no matching overload for '_==_' applied to '(int, string)'",
            id="a variable with the type of its expression",
        ),
        pytest.param("params.x == 1", "1:1: undeclared reference to 'params'", id="parameters of no kind"),
    ],
)
def test_expressions_are_held_to_the_kinds_they_are_about(expression: str, words: str) -> None:
    written = (("count", "object.spec.replicas"), ("most", "quantity('5')"))
    variables = [{"name": name, "expression": text} for name, text in written]
    found = warned(expression, DEPLOYMENTS, variables=variables)
    assert [one.splitlines()[0].partition(" (in")[0] for one in found] == (
        [f"apps/v1, Kind=Deployment: ERROR: <input>:{words}"] if words else []
    )


def test_every_kind_is_told_of_parameters_are_typed_and_unknown_kinds_are_passed_over() -> None:
    about = (("", "v1", "secrets"), ("ex.io", "v1", "widgets"), ("", "v1", "nopes"), ("*", "v1", "pods"))
    (told,) = warned("object.spec.b == 1", *about)
    assert told.split("\n")[0] == "/v1, Kind=Secret: ERROR: <input>:1:7: undefined field 'spec'"
    assert told.split("\n")[4] == "ex.io/v1, Kind=Widget: ERROR: <input>:1:12: undefined field 'b'"
    kind = {"apiVersion": "ex.io/v1", "kind": "Widget"}
    (told,) = warned("params.spec.b == 1", DEPLOYMENTS, paramKind=kind)
    assert "undefined field 'b'" in told
    assert not warned("params.metadata.labels.x == 'a' && params.spec.a == 'b'", DEPLOYMENTS, paramKind=kind)
