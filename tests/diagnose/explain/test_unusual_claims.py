"""Claims of unusual shape: alternatives, all devices, constraints over requests."""

from __future__ import annotations

from typing import Any

import pytest

from support.claim_objects import (
    ANY,
    DRIVER,
    Body,
    claim,
    device,
    dynamic,
    explained,
    node,
    pod,
    resource_slice,
)
from tonnage.model.reasons.pod.claims import FeatureGateNeeded
from tonnage.model.verdict import Explanation, Verdict


def asking(*requests: Body, constraints: Any = ()) -> Body:
    body = {"devices": {"requests": [*requests], "constraints": [*constraints]}}
    return dynamic("ResourceClaim", "mine", body)


def one_of(name: str, *parts: Body) -> Body:
    return {"name": name, "firstAvailable": [{"deviceClassName": "gpu", **part} for part in parts]}


def exact(name: str, **exactly: Any) -> Body:
    return {"name": name, "exactly": {"deviceClassName": "gpu", **exactly}}


THREE = resource_slice("a", device("g0", model="H100"), device("g1", model="A10"), device("g2", model="A10"))
OF_MODEL = f"{DRIVER}/model"
LOWER = [{"cel": {"expression": f"device.attributes['{DRIVER}'].model == 'a10'"}}]
NONE = [{"cel": {"expression": "false"}}]
TOGETHER = "each request can be met alone, but not all of them at once"


@pytest.mark.parametrize(
    ("expected", "version", "message", "remedy"),
    [
        pytest.param(
            asking(one_of("x", {"name": "big", "count": 9}, {"name": "small"}), exact("y", count=3)), "1.36",
            TOGETHER, "ask for 2 of 3 devices in request y of claim ml/mine",
            id="an alternative that is met is not at fault",
        ),
        pytest.param(
            asking(one_of("x", {"name": "big", "count": 9}, {"name": "odd", "selectors": NONE})),
            "1.36",
            "request x/big: wants 9 of class gpu, 3 left; claim ml/mine, request x/odd: wants 1",
            "ask for 3 of 9 devices in request x/big of claim ml/mine; or change the selector in request x/",
            id="no alternative is met",
        ),
        pytest.param(
            asking(exact("y", count=3), constraints=[{"distinctAttribute": OF_MODEL}]), "1.36",
            f"do not meet distinctAttribute {OF_MODEL}", "or ask for 2 of 3 devices in request y",
            id="values that differ",
        ),
        pytest.param(
            asking(exact("y", count=2), constraints=[{"distinctAttribute": OF_MODEL}]), "1.35",
            "the scheduler cannot allocate the claim at all: claim ml/mine, constraint #0: empty constraint",
            "remove distinctAttribute, or turn on DRAConsumableCapacity", id="without the gate for that",
        ),
        pytest.param(
            asking(exact("y", count=2), constraints=[{"matchAttribute": "x.y/z"}]), "1.36",
            "do not meet matchAttribute x.y/z, which 3 of them do not have", "remove the constraint on x.y/z",
            id="an attribute that no device has",
        ),
        pytest.param(
            asking(exact("y", count=2), constraints=[{"matchAttribute": "x.y/model"}]), "1.36",
            "do not meet matchAttribute x.y/model",
            f"remove the constraint on x.y/model, or compare {OF_MODEL}",
            id="an attribute of another domain",
        ),
        pytest.param(
            asking(exact("y", selectors=LOWER)), "1.36", "not selected by claim ml/mine",
            "== 'a10' (no device has the model a10; write 'A10')", id="a value that no device has",
        ),
        pytest.param(
            asking(exact("y", allocationMode="All"), constraints=[{"matchAttribute": OF_MODEL}]), "1.36",
            "cannot add device gpu.example.com/a/g1 because a claim constraint would not be satisfied",
            "ask for a count instead of allocationMode: All", id="all, and alike",
        ),
        pytest.param(
            asking(exact("y", count=40)), "1.36", "exceeds the claim limit of 32",
            "ask for at most 32 devices in a claim", id="too many for a claim",
        ),
        pytest.param(
            asking(exact("y", capacity={"requests": {f"{DRIVER}/memory": "1Gi"}})), "1.36",
            f"g0, g1, g2 without the capacity {DRIVER}/memory", "change the capacity",
            id="a capacity misnamed",
        ),
        pytest.param(
            asking(exact("y", capacity={"requests": {"memory": "900Gi"}})), "1.36",
            "too little memory left of g0, g1, g2", "change the capacity memory", id="more than a device has",
        ),
    ],
)  # fmt: skip
def test_claims_of_unusual_shape(expected: Body, version: str, message: str, remedy: str) -> None:
    answer = explained(node("a"), THREE, ANY, expected, pod("mine"), version=version)
    reasons = (*answer.reasons, *answer.nodes[0].reasons)
    assert answer.verdict is Verdict.NEVER
    assert message in "; ".join(reason.message for reason in reasons)
    assert remedy in "; ".join((*(r.remedy for r in reasons), *(r.action for r in answer.remedies)))


def test_a_claim_that_a_server_took_shows_that_capacity_may_be_asked_for() -> None:
    asked = asking(exact("y", capacity={"requests": {"memory": "900Gi"}}))
    asked["metadata"]["uid"] = "taken"
    answer = explained(node("a"), THREE, ANY, asked, pod("mine"), version="1.35")
    assert "too little memory left of g0, g1, g2" in answer.nodes[0].reasons[0].message


def test_without_the_gate_a_server_drops_what_a_file_asks_of_capacity_and_gives_whole_devices() -> None:
    part = asking(exact("y", capacity={"requests": {"memory": "900Gi"}}))
    answer = explained(node("a"), THREE, ANY, part, pod("mine"), version="1.35")
    assert answer.verdict is Verdict.FITS
    [note] = [reason for reason in answer.reasons if reason.is_note]
    assert isinstance(note, FeatureGateNeeded)
    assert "drops capacity of the claim ml/mine unless DRAConsumableCapacity is on" in note.message


@pytest.mark.parametrize(
    "expected",
    [
        asking(exact("y", allocationMode="All", adminAccess=True)),
        asking(
            exact("y"), exact("z", count=2), constraints=[{"requests": ["z"], "matchAttribute": OF_MODEL}]
        ),
        asking(one_of("x", {"name": "big", "count": 9}, {"name": "all", "allocationMode": "All"})),
    ],
    ids=["all for an administrator", "a constraint on one request", "all as an alternative"],
)
def test_claims_of_unusual_shape_that_fit(expected: Body) -> None:
    assert explained(node("a"), THREE, ANY, expected, pod("mine"), version="1.36").placement.node == "a"


UNREGISTERED = "DRA driver gpu.nvidia.com is not registered"


def starting(*events: Body, report: Body | None = None) -> Explanation:
    """What is said of a pod that is bound, with a claim whose device the node publishes."""
    bound = pod("g", nodeName="a")
    bound["status"] = {"phase": "Pending"}
    reports = [dynamic_report(report)] if report is not None else []
    slices = [resource_slice("a", device("gpu-0"))]
    return explained(node("a"), *slices, ANY, claim("g", held="a/gpu-0", by="p"), bound, *reports, *events)


def dynamic_report(claims: Body) -> Body:
    status = {"devices": [], "claims": {"driver": "gpu.nvidia.com", "devices": [], **claims}}
    meta = {"name": "a"}
    return {"apiVersion": "tonnage.dev/v1alpha1", "kind": "NodeGPUStatus", "metadata": meta, "status": status}


def attempt(second: int, text: str) -> Body:
    """The Event of an attempt to prepare the pod's claims."""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"p.{second}", "namespace": "ml"},
        "involvedObject": {"kind": "Pod", "namespace": "ml", "name": "p"},
        "reason": "FailedPrepareDynamicResources",
        "lastTimestamp": f"2026-05-01T12:00:{second:02}Z",
        "message": f"Failed to prepare dynamic resources: prepare dynamic resources: {text}",
    }


def test_of_attempts_to_prepare_a_claim_the_last_one_counts() -> None:
    later = "NodePrepareResources failed for ResourceClaim g: the device is gone"
    assert starting(attempt(1, UNREGISTERED)).reasons[0].code == "dra-driver-unregistered"
    explanation = starting(attempt(1, UNREGISTERED), attempt(9, later))
    assert [reason.code for reason in explanation.reasons] == ["dra-prepare-failed"]


def test_why_the_driver_is_not_registered_is_the_agents_word() -> None:
    explanation = starting(attempt(1, UNREGISTERED), report={"reason": "another driver is there"})
    assert "the node's agent says: claims are not served: another driver is there" in explanation.message
    assert [remedy.action for remedy in explanation.remedies] == [
        "do what the agent says: kubectl describe node a"
    ]


def test_a_node_without_slices_says_why_by_its_agent() -> None:
    part = {"name": "gpu-0-mig-1g10gb-19-0", "uuid": "", "reason": "the gate is off"}
    waiting = explained(node("a"), ANY, claim("g"), pod("g"), dynamic_report({"devices": [part]}))
    assert waiting.nodes[0].reasons[0].message.endswith("; its agent says: the gate is off")
