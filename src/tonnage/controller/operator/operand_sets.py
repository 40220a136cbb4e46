"""DaemonSets under the names of NVIDIA's operands, and its RuntimeClasses, as a policy asks for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from tonnage.controller.context import ControllerContext
from tonnage.controller.operator.unmade_pods import UnmadePods
from tonnage.decide.cluster.operate.operand_sets import (
    OperandSets,
    operand_sets,
    remaining_classes,
    remaining_sets,
    runtime_classes,
)
from tonnage.decide.cluster.operate.refusals import RefusedRequest
from tonnage.loop.informer import Informer, Key
from tonnage.model.errors import ApiError
from tonnage.model.gpu_policy import FieldWithoutEffect, GpuPolicy
from tonnage.model.operands import DCGM
from tonnage.reading.gpu_policy import pods_not_ready, seen_object
from tonnage.wire.kinds import DAEMON_SET, RUNTIME_CLASS, Kind
from tonnage.wire.objects import Object

T = TypeVar("T", bound=Object)
_NO_DCGM: Final = FieldWithoutEffect(
    "dcgm", "no DaemonSets are made under NVIDIA's names; set operands.nvidiaNames in Tonnage's chart"
)


class OperandLoop:
    """Keeps them like the policy; without an image for pods there are no DaemonSets."""

    def __init__(self, context: ControllerContext, changed: Callable[[Key], None]) -> None:
        self._context = context
        self._sets = Informer(
            context.api, DAEMON_SET, context.clock, namespace=context.operator_namespace, on_change=changed
        )
        self._unmade = UnmadePods(context.clock, context.operator_namespace)
        self._classes = Informer(context.api, RUNTIME_CLASS, context.clock, on_change=changed)

    @property
    def copies(self) -> tuple[Informer[Any], ...]:
        """What has to be kept fresh for it."""
        return (self._sets, self._classes) if self._context.operand_image else (self._classes,)

    async def follow(self, policy: GpuPolicy) -> str:
        """Have them be as the policy says; why one cannot."""
        context = self._context
        classes = runtime_classes(policy, map(seen_object, self._classes))
        problem = await self._perform(classes, RUNTIME_CLASS, "RuntimeClasses")
        problem = problem or (classes.refusal.message if classes.refusal else "")
        if not context.operand_image:
            return problem
        namespace = context.operator_namespace
        sets = operand_sets(policy, context.operand_image, namespace, map(seen_object, self._sets))
        refused = await self._perform(sets, DAEMON_SET, f"DaemonSets in {namespace}")
        return problem or refused or (sets.refusal.message if sets.refusal else "")

    def without_effect(self, policy: GpuPolicy) -> tuple[FieldWithoutEffect, ...]:
        """What the policy asks for in vain, as no DaemonSets are made."""
        in_vain = policy.operands.dcgm is not None and not self._context.operand_image
        return (_NO_DCGM,) if in_vain else ()

    def without_pods(self) -> list[RefusedRequest]:
        """DaemonSets of ours whose pods have not been made for a minute: something forbids them."""
        return self._unmade.current(daemons for daemons in self._sets if seen_object(daemons).part)

    def not_ready(self) -> str:
        """Which pods with NVIDIA's image are not ready; of the agent's parts the nodes say it."""
        daemons = self._sets.get(DCGM.daemon_set, self._context.operator_namespace)
        return pods_not_ready(daemons) if daemons and seen_object(daemons).part else ""

    async def leave(self) -> None:
        """Without a policy: those that are still there go, as after a deletion that leaves orphans."""
        context = self._context
        await self._perform(
            remaining_classes(map(seen_object, self._classes)), RUNTIME_CLASS, "RuntimeClasses"
        )
        sets = remaining_sets(context.operator_namespace, map(seen_object, self._sets))
        await self._perform(sets, DAEMON_SET, f"DaemonSets in {context.operator_namespace}")

    async def _perform(self, sets: OperandSets, kind: Kind[T], subject: str) -> str:
        """Why it is not done; empty: it is. What is refused keeps nothing else from being done."""
        performer, problem = self._context.performer, ""
        for action in sets.applied:
            try:
                await performer.perform(action)
            except ApiError as error:
                problem = problem or f"{subject} are not as the policy says: {error.message}"
        for gone in sets.deleted:
            reading = self._context.api.get(kind, gone.name, gone.namespace or None)
            try:
                _, sight = await performer.look(gone.subject, reading)
                await performer.perform(gone, sight)
            except ApiError as error:
                problem = problem or f"{subject} are not as the policy says: {error.message}"
        return problem
