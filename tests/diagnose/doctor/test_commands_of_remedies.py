"""Commands of remedies name the node that was looked at, wherever they are typed."""

from __future__ import annotations

import pytest

from tonnage.diagnose.doctor.finding import Judgement, finding
from tonnage.model.layer import NodeLayer
from tonnage.model.reasons.node.plugin import AgentNotRunning

COMMAND = "kubectl get pods --field-selector spec.nodeName=$(hostname)"


@pytest.mark.parametrize(
    ("node", "name"),
    [
        pytest.param("gpu-a", "gpu-a", id="a node that is named"),
        pytest.param("", "$(hostname)", id="this machine"),
    ],
)
def test_a_command_is_about_the_node_that_was_looked_at(node: str, name: str) -> None:
    reason = AgentNotRunning(message="no plugin", remedy=COMMAND)
    judgement = Judgement(NodeLayer.PLUGIN, (finding(reason),), "")
    (found,) = judgement.on(node).findings
    assert found.reason.remedy == COMMAND.replace("$(hostname)", name)
