"""Whose a node's cordon is, asked before it is lifted."""

from __future__ import annotations

from dataclasses import replace

from tonnage.decide.cluster.operate.drivers.node_upgrade import UpgradingNode
from tonnage.decide.cluster.operate.drivers.states import OUR_CORDON, UpgradeState
from tonnage.ports.kubernetes import KubernetesReader
from tonnage.reading.driver_policy import cordon_has_the_note
from tonnage.wire.kinds import NODE_WRITERS


async def with_cordon(member: UpgradingNode, api: KubernetesReader) -> UpgradingNode:
    """The node, where its cordon is about to be lifted, with whether a user has cordoned it anew.

    Two changes between two looks leave the node as it was, but not who wrote that. A change after this
    reading makes the write that lifts the cordon stale.
    """
    node = member.node
    if member.state is not UpgradeState.UNCORDON or not node.unschedulable:
        return member
    if OUR_CORDON not in node.annotations:
        return member
    listing = await api.list(NODE_WRITERS, field_selector=f"metadata.name={node.name}")
    ours = all(cordon_has_the_note(owned, OUR_CORDON) for owned in listing.items)
    return replace(member, cordoned_anew=not ours)
