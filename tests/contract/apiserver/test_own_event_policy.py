"""The chart's admission policy on Events: about an agent's own node, and in no other name."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from support.agent_policy_server import (
    ACCOUNT,
    MERGE,
    NODE_OF_THE_TOKEN,
    PATIENCE_S,
    Server,
    path_of,
)
from support.helm import Helm, Manifest


def event(about: str = "mine", **changes: Any) -> Manifest:
    """One as the agent on node `mine` writes it, but for the changes; None takes a field away."""
    whole: Manifest = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{about}.1", "namespace": "default"},
        "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": about, "uid": about},
        "type": "Warning",
        "reason": "DevicePluginConfigRefused",
        "message": "kept",
        "source": {"component": "tonnage-agent", "host": "mine"},
        "reportingComponent": "tonnage-agent",
        "reportingInstance": "mine",
        "count": 1,
    }
    return {key: value for key, value in (whole | changes).items() if value is not None}


EVENTS = "/api/v1/namespaces/default/events"


AGENT_OF_MINE = {"Impersonate-User": ACCOUNT, NODE_OF_THE_TOKEN: "mine"}


@pytest.fixture(scope="module")
def events(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The path of Events, once agents may write there and the policy counts."""
    server.send("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", **DEFAULT})
    made = []
    for found in Helm(4, tmp_path_factory.mktemp("helm")).rendered():
        if found["kind"] in ("Role", "RoleBinding") and found["metadata"]["namespace"] == "default":
            group, plural = path_of(found).rsplit("/", 1)
            made.append((f"{group}/namespaces/default/{plural}", found))
    for path, found in made:
        assert server.send("POST", path, found) == ""
    until = time.monotonic() + PATIENCE_S
    while "about that node" not in server.send("POST", EVENTS, event("other"), **AGENT_OF_MINE):
        server.send("DELETE", f"{EVENTS}/other.1")
        assert time.monotonic() < until
    yield EVENTS
    for path, found in made:
        server.send("DELETE", f"{path}/{found['metadata']['name']}")


DEFAULT: Manifest = {"metadata": {"name": "default"}}


def test_events_about_its_own_node(server: Server, events: str) -> None:
    assert server.send("POST", events, event(), **AGENT_OF_MINE) == ""
    again: Manifest = {"count": 2, "lastTimestamp": "2026-01-01T00:00:00Z"}
    assert server.send("PATCH", f"{events}/mine.1", again, MERGE, **AGENT_OF_MINE) == ""
    combined = event(
        metadata={"name": "mine.2", "namespace": "default"}, reportingComponent=None, reportingInstance=None
    )
    assert server.send("POST", events, combined, **AGENT_OF_MINE) == "", "as client-go combines many"


@pytest.mark.parametrize(
    "changes",
    [
        {"about": "other"},
        {"involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": "mine", "namespace": "default"}},
        {"involvedObject": {"apiVersion": "v1", "kind": "Secret", "name": "mine", "namespace": "default"}},
        {"involvedObject": {}},
        {"related": {"apiVersion": "v1", "kind": "Node", "name": "other"}},
        {"source": {"component": "kubelet", "host": "mine"}},
        {"source": {"component": "tonnage-agent", "host": "other"}},
        {"source": None},
        {"reportingComponent": "default-scheduler"},
        {"reportingInstance": "other"},
    ],
    ids=lambda changes: str(changes)[:70],
)
def test_no_event_about_anything_else_or_in_the_name_of_others(
    server: Server, events: str, changes: dict[str, Any]
) -> None:
    body = event(**changes)
    body["metadata"] = {"name": "forged.1", "namespace": "default"}
    refusal = server.send("POST", events, body, **AGENT_OF_MINE)
    assert "the agent on node mine may write Events about that node alone, in its own name" in refusal


def test_no_event_of_others_is_made_one_of_its_own(server: Server, events: str) -> None:
    others = event(
        "other", metadata={"name": "kubelet.1", "namespace": "default"}, source={"component": "kubelet"}
    )
    others |= {"reportingComponent": "kubelet", "reportingInstance": "other"}
    assert server.send("POST", events, others) == ""
    for patch in ({"message": "all is well"}, {key: event()[key] for key in ("involvedObject", "source")}):
        refused = server.send("PATCH", f"{events}/kubelet.1", patch, MERGE, **AGENT_OF_MINE)
        assert "may write Events about that node alone" in refused
    assert server.send("PATCH", f"{events}/kubelet.1", {"message": "seen"}, MERGE) == "", "others are let be"


def test_no_event_by_a_token_of_no_node(server: Server, events: str) -> None:
    body = event(metadata={"name": "nodeless.1", "namespace": "default"})
    who = {"Impersonate-User": ACCOUNT}
    assert "does not say on which node" in server.send("POST", events, body, **who)
