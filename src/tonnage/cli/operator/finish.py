"""The end of an adoption: labels and notes of the handover are taken off the nodes that stay with us."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from tonnage.cli.operator.handover import Handover, HandoverView, NodeEnd
from tonnage.decide.cluster.adopt.finish import next_finish
from tonnage.decide.cluster.adopt.node_steps import AdoptionStep, AwaitNode, ChangeNode, RefuseNode
from tonnage.model.errors import ApiError, ConfigError, Problem
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.wire.kinds import NODE

_LOOK_S: Final = 1.0


def steps_to_finish(view: HandoverView) -> dict[str, AdoptionStep]:
    """The step of each node. Raises ConfigError: NVIDIA's operator is there, and would take them back."""
    operator = view.operator
    if operator is not None:
        where = f"Deployment {operator.namespace}/{operator.name}"
        why = "it would run its device plugin on these nodes again"
        remedy = "helm uninstall gpu-operator, or have the nodes back: tonnage operator release"
        raise ConfigError(Problem("NVIDIA's operator is still installed", where, why, remedy))
    return {name: next_finish(facts) for name, facts in view.nodes.items()}


async def finish_adoption(
    handover: Handover, api: KubernetesApi, clock: Clock, patience_s: float, say: Callable[[str, str], object]
) -> dict[str, tuple[NodeEnd, str]]:
    """Return once no node of the handover is left, or what each waits for when that takes too long.

    Where one is refused, none is changed from then on. Raises ConfigError.
    """
    ends: dict[str, tuple[NodeEnd, str]] = {}
    until = clock.monotonic() + patience_s
    while True:
        view = await handover.look()
        steps = {name: step for name, step in steps_to_finish(view).items() if name not in ends}
        refused = {
            name: (NodeEnd.REFUSED, str(step)) for name, step in steps.items() if isinstance(step, RefuseNode)
        }
        if refused:
            others = NodeEnd.WAITS, "left as it is, since another node was refused"
            return {**ends, **{name: refused.get(name, others) for name in steps}}
        for name, step in steps.items():
            if isinstance(step, ChangeNode) and await _is_changed(api, name, step):
                say(name, step.why)
                ends[name] = NodeEnd.DONE, "stays with Tonnage's agent"
        left = {name: (NodeEnd.WAITS, step.why) for name, step in steps.items() if name not in ends}
        if not left or clock.monotonic() >= until:
            return {**ends, **left}
        for name, step in steps.items():
            if isinstance(step, AwaitNode):
                say(name, step.why)
        await clock.sleep(_LOOK_S)


async def _is_changed(api: KubernetesApi, name: str, step: ChangeNode) -> bool:
    """Whether the write was taken; where the Node has changed since, the next look judges it anew."""
    try:
        await api.patch(NODE, name, step.patch)
    except ApiError as error:
        if error.code not in (HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND):
            raise
        return False
    return True
