"""Has the parts that NVIDIA's operands do, too, wait until the node is adopted."""

from __future__ import annotations

from typing import Final

from tonnage.agent.board import NodeBoard
from tonnage.model.operands import ADOPTED, SWITCHED

_ALL: Final = frozenset(SWITCHED)


def hold_until_adopted(board: NodeBoard) -> None:
    """Have every such part off until the Node's label says that it was adopted, and while it does not.

    Nothing is kept on disk: an agent that cannot see its Node must not serve beside another plugin.
    """

    def follow() -> None:
        node = board.node.value
        if node is not None:  # one that is away for a moment says nothing new
            adopted = node.metadata.labels.get(ADOPTED) == "true"
            board.parts_off.publish(frozenset() if adopted else _ALL)

    board.parts_off.publish(_ALL)
    board.node.subscribe(follow)
