"""A controller and an agent together: what a ClusterPolicy says becomes a MIG layout of a node.

Both note their actions, and a moment is what stands then of both: who starts from it are the next of each.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import yaml

from support.agent_scenes import Place, agent_of
from tonnage.controller.main import run_controller
from tonnage.controller.options import ControllerOptions
from tonnage.loop.performer import Performer
from tonnage.model.names import AGENTS_LAYOUTS
from tonnage.wire.kinds import CLUSTER_POLICY, CONFIG_MAP, NODE

NAMESPACE: Final = "tonnage-system"
OPERATORS: Final = "gpu-operator"
LAYOUTS_OF_THE_POLICY: Final = "layouts"
_CHART_DEFAULTS: Final = Path(__file__).parents[1] / "data/cluster-policy-26.7.yaml"
_FOUND_BY_NFD: Final = {"feature.node.kubernetes.io/pci-10de.present": "true"}
_CONTROLLER: Final = ControllerOptions(
    namespace=NAMESPACE, operator_namespace=OPERATORS, identity="controller", elect=False
)


def names_default(place: Place, layout: str, text: str) -> None:
    """A policy names a ConfigMap with that text, and the layout of nodes that ask for none."""
    policy = yaml.load(_CHART_DEFAULTS.read_text(encoding="utf-8"), yaml.CSafeLoader)
    manager = {**policy["spec"]["migManager"], "config": {"name": LAYOUTS_OF_THE_POLICY, "default": layout}}
    spec = {**policy["spec"], "migManager": manager, "mig": {"strategy": "mixed"}}
    place.cluster.put(NODE, "n", metadata={"labels": _FOUND_BY_NFD})
    place.cluster.put(CONFIG_MAP, LAYOUTS_OF_THE_POLICY, OPERATORS, data={"config.yaml": text})
    place.cluster.put(CLUSTER_POLICY, "cluster-policy", spec=spec)


async def controller_and_agent(place: Place) -> None:
    """Run both until cancelled. That GPUs can be divided the agent says on the Node, as on any."""
    record: Any = (Performer.__init__.__kwdefaults__ or {})["record"]
    options = {"labels": "direct", "mig_config_map": f"{NAMESPACE}/{AGENTS_LAYOUTS}"}
    with patch("tonnage.controller.refused_writes.log_record", record):
        async with asyncio.TaskGroup() as group:
            group.create_task(agent_of(place, **options))
            group.create_task(run_controller(_CONTROLLER, api=place.cluster, clock=place.clock))
