"""Parts that are switched off at a node: the agent offers nothing, and offers it again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agent.conftest import FastClock
from support.agent_context import context_of
from tonnage.adapters.checkpoints import FolderCheckpoints
from tonnage.agent.board import NodeBoard
from tonnage.agent.operands.follower import OperandFollower
from tonnage.model.node.telemetry import PodIdentity
from tonnage.wire.objects import Node, ObjectMeta


def node(off: str = "") -> Node:
    annotations = {"tonnage.dev/parts-off": off} if off else {}
    return Node(metadata=ObjectMeta(name="n", annotations=annotations))


def follower_on(place: Path, clock: Any) -> tuple[NodeBoard, OperandFollower]:
    board = NodeBoard.blank(clock)
    return board, OperandFollower(context_of("n", None, clock, FolderCheckpoints(place)), board)


async def test_what_is_off_is_still_off_after_a_restart(tmp_path: Path) -> None:
    clock = FastClock()
    board, follower = follower_on(tmp_path, clock)
    board.node.publish(node("device-plugin,no-such-part"))
    await follower._switch()
    assert board.parts_off.value == {"device-plugin"}
    board, follower = follower_on(tmp_path, clock)
    await follower.restore()
    assert board.parts_off.value == {"device-plugin"}, "before the Node is seen"
    board.node.publish(node())
    await follower._switch()
    assert not board.parts_off.value


async def test_a_pod_in_another_s_place_asks_for_a_restart(tmp_path: Path) -> None:
    board, _ = follower_on(tmp_path, FastClock())

    def pods(uid: str) -> dict[str, PodIdentity]:
        return {f"gpu-operator/{uid}": PodIdentity(uid, {"tonnage.dev/operand": "mig-manager"})}

    board.pods.publish(pods("first"))
    assert not board.restarts.value, "the first one begins nothing anew"
    board.pods.publish({})
    board.pods.publish(pods("first"))
    assert not board.restarts.value
    board.pods.publish(pods("second"))
    assert board.restarts.value == {"mig-manager": "second"}
