"""Selectors that do not compile: refused by the twin's API server as by the genuine one."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.decide.kubernetes.api.encoding.decode import decode
from tonnage.decide.kubernetes.api.problems import invalid_status
from tonnage.decide.kubernetes.api.validate import validate_create, validate_update
from tonnage.model.json import JsonObject
from tonnage.wire.schema import KindRow, load_schema

FINE = "device.driver == 'gpu.nvidia.com'"
WRONG = "device.foo == 1"
SAYS = (
    'spec.{}.cel.expression: Invalid value: "device.foo == 1": compilation failed: '
    "ERROR: <input>:1:7: undefined field 'foo'\n | device.foo == 1\n | ......^"
)


def row(kind: str) -> KindRow:
    kind_type = load_schema().kind("resource.k8s.io", "v1", kind)
    assert kind_type is not None
    return kind_type


def selecting(expression: str) -> list[dict[str, Any]]:
    return [{"cel": {"expression": expression}}]


def made(kind: str, expression: str, *, label: str = "", version: str = "") -> JsonObject:
    exactly = {"deviceClassName": "gpu", "selectors": selecting(expression)}
    devices = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    specs: dict[str, dict[str, Any]] = {
        "DeviceClass": {"selectors": selecting(expression)},
        "ResourceClaim": devices,
        "ResourceClaimTemplate": {"spec": devices},
    }
    metadata: dict[str, Any] = {"name": "x", "labels": {"l": label or "a"}}
    if kind != "DeviceClass":
        metadata["namespace"] = "ml"
    metadata["resourceVersion"] = version
    return decode(load_schema(), row(kind).type, {"metadata": metadata, "spec": specs[kind]}).value


@pytest.mark.parametrize(
    ("kind", "where"),
    [
        ("DeviceClass", "selectors[0]"),
        ("ResourceClaim", "devices.requests[0].exactly.selectors[0]"),
        ("ResourceClaimTemplate", "spec.devices.requests[0].exactly.selectors[0]"),
    ],
)
def test_a_selector_that_does_not_compile_is_refused_dra_2(kind: str, where: str) -> None:
    """DRA-2: at admission, not when a pod waits."""
    errors = validate_create(row(kind), made(kind, WRONG))
    status = invalid_status(row(kind), "x", errors)
    assert status["message"] == f'{kind}.resource.k8s.io "x" is invalid: {SAYS.format(where)}'
    assert validate_create(row(kind), made(kind, FINE)) == ()


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("1 + 1", 'Invalid value: "1 + 1": must evaluate to bool or the unknown type, not int'),
        ("true" + " " * 10240, "Too long: may not be more than 10240 bytes"),
    ],
    ids=["no truth value", "too long"],
)
def test_what_else_is_wrong_with_a_selector(expression: str, text: str) -> None:
    [error] = validate_create(row("DeviceClass"), made("DeviceClass", expression))
    assert str(error) == f"spec.selectors[0].cel.expression: {text}"


@pytest.mark.parametrize("kind", ["DeviceClass", "ResourceClaim", "ResourceClaimTemplate"])
def test_a_selector_that_stands_is_left_alone(kind: str) -> None:
    old, new = made(kind, WRONG, version="1"), made(kind, WRONG, label="b", version="1")
    assert validate_update(row(kind), new, old) == ()
    assert validate_update(row(kind), old, made(kind, FINE, version="1")) != ()
