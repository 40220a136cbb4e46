"""The chart's admission policies, on a genuine API server and on the twin's: what an agent may write."""

from __future__ import annotations

import pytest

from support.agent_policy_server import (
    MERGE,
    Server,
    conditions,
)
from support.helm import Manifest


def test_its_own_conditions_of_its_own_node(server: Server) -> None:
    assert server.as_agent("mine", conditions("GPUsHealthy", "GPUConfigApplied", "MPSReady")) == ""
    assert server.as_agent("mine", conditions("GPUsHealthy")) == "", "again, with others beside"


def test_no_other_node_and_none_without_a_name(server: Server) -> None:
    assert "the agent on node mine may write conditions of that node alone" in server.as_agent(
        "mine", conditions("GPUsHealthy"), of="other"
    )
    assert "does not say on which node" in server.as_agent("", conditions("GPUsHealthy"))


@pytest.mark.parametrize(
    "patch",
    [
        conditions("Ready"),
        {"status": {"capacity": {"nvidia.com/gpu": "64"}}},
        {"status": {"allocatable": {"cpu": "400"}}},
        {"status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]}},
        {"status": {"volumesInUse": ["a"]}},
        {"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}},
        {"metadata": {"annotations": {"a": "b"}}},
        {"metadata": {"finalizers": ["a.b/c"]}},
    ],
    ids=lambda patch: str(patch)[:60],
)
def test_nothing_else_of_its_node(server: Server, patch: Manifest) -> None:
    assert "may write its own conditions of a node and nothing else" in server.as_agent("mine", patch)


def test_no_condition_of_others_is_taken_away(server: Server) -> None:
    only = conditions("GPUsHealthy")
    refusal = server.as_agent("mine", only, kind=MERGE)  # a merge replaces the list
    assert "may write its own conditions of a node and nothing else" in refusal
