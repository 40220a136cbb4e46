"""What the twin's containers really run: the image of the node agent is the node agent."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tonnage.agent.main import AgentOptions, run_agent
from tonnage.twin.kubelet.runtime import ContainerContext, Program
from tonnage.twin.kubelet.spec import NodePaths
from tonnage.twin.platform import AGENT_IMAGE


def node_programs() -> Mapping[str, Program]:
    """Program by image."""
    return {AGENT_IMAGE: run_node_agent}


async def run_node_agent(context: ContainerContext) -> int:
    """The agent as in production: sockets under the node's root, HTTPS to the API server."""
    from tonnage.adapters.kubernetes.client import connect

    options = AgentOptions(
        node_name=context.env["NODE_NAME"],
        devices=f"scenario:{NodePaths(context.node_root).hardware}",
        root=context.node_root,
    )
    async with connect(Path(context.env["KUBECONFIG"])) as api:
        await run_agent(options, api=api, clock=context.clock)
    return 0
