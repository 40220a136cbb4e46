"""Nodes change hands one after another: each round looks at the cluster, and takes the next steps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from http import HTTPStatus
from typing import Final

from tonnage.decide.cluster.adopt.node_steps import (
    AdoptionStep,
    AwaitNode,
    ChangeNode,
    NodeAtRest,
    RefuseNode,
    next_adoption,
    next_release,
)
from tonnage.decide.cluster.adopt.operator_deployment import (
    ScaleOperator,
    paused,
    resumed,
)
from tonnage.model.adoption import AdoptionFacts, OperatorDeployment, note_from
from tonnage.model.errors import ApiError, ClusterError, ConfigError, Problem
from tonnage.model.operands import OPERAND_LABEL, OPERANDS
from tonnage.model.reasons.cluster.operator import OperatorScaledUp
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.reading.adoption import adoption_facts_from, operator_deployment_from
from tonnage.wire.kinds import DAEMON_SET, DEPLOYMENT, NODE, NODE_GPU_STATUS, POD
from tonnage.wire.objects import NodeGPUStatus, Pod

_LOOK_S: Final = 1.0
_OPERATOR: Final = "app.kubernetes.io/component=gpu-operator"
_PLUGIN: Final = OPERANDS["device-plugin"].daemon_set


class Direction(StrEnum):
    """To whom nodes go."""

    ADOPT = "adopt"
    RELEASE = "release"


class NodeEnd(StrEnum):
    """How a node has ended."""

    DONE = "done"
    WAITS = "waiting"
    REFUSED = "refused"
    RETURNED = "returned"


@dataclass(frozen=True, slots=True)
class HandoverOptions:
    """`nodes`: only these, else all that `selector` selects. `patience_s`: how long one node may take."""

    operator_namespace: str = "gpu-operator"
    agents_namespace: str = "tonnage-system"
    nodes: tuple[str, ...] = ()
    selector: str = ""
    parallel: int = 1
    patience_s: float = 300.0


@dataclass(frozen=True, slots=True)
class HandoverView:
    """What the cluster shows: nodes that are meant, those of others that are adopted, and the operator."""

    nodes: Mapping[str, AdoptionFacts]
    others_adopted: int
    operator: OperatorDeployment | None


@dataclass(slots=True)
class _Course:
    """How the nodes of one command have come along."""

    direction: Direction
    since: dict[str, float] = field(default_factory=dict)
    returning: dict[str, str] = field(default_factory=dict)
    """Nodes that go back, and why."""
    ended: dict[str, tuple[NodeEnd, str]] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)

    def step(self, facts: AdoptionFacts) -> AdoptionStep:
        """What comes next at a node."""
        back = self.direction is Direction.RELEASE or facts.node in self.returning
        return next_release(facts) if back else next_adoption(facts)


class Handover:
    """Has nodes change hands. `say_step` is told what is done at a node, or waited for, when that changes."""

    def __init__(
        self,
        api: KubernetesApi,
        clock: Clock,
        options: HandoverOptions,
        say_step: Callable[[str, str], object],
    ) -> None:
        self._api = api
        self._clock = clock
        self._options = options
        self._say = say_step

    async def run(self, direction: Direction) -> dict[str, tuple[NodeEnd, str]]:
        """Return once no node that is meant changes any more: how each has ended, and why.

        Raises ConfigError, ClusterError: it cannot be begun, or somebody else works against it.
        """
        course = _Course(direction)
        view = await self.look()
        if direction is Direction.ADOPT:
            course.ended = _refusals(view)
        else:
            await self._require_daemon_set(view)
        while set(view.nodes) - set(course.ended):
            if direction is Direction.RELEASE or await self._pause(view, course):
                # What a command before this one has begun comes first.
                for facts in sorted(view.nodes.values(), key=lambda facts: not facts.note):
                    await self._advance(facts, view, course)
            await self._clock.sleep(_LOOK_S)
            view = await self.look()
        if direction is Direction.RELEASE:
            await self._resume(view, course)
        return course.ended

    async def look(self) -> HandoverView:
        """Read everything once. Raises ConfigError: a node that is named is not there."""
        api, options = self._api, self._options
        pods = (await api.list(POD, namespace=options.operator_namespace)).items
        operator = await self._operator(pods)
        if options.agents_namespace != options.operator_namespace:
            pods = [*pods, *(await api.list(POD, namespace=options.agents_namespace)).items]
        on_node: defaultdict[str, list[Pod]] = defaultdict(list)
        for pod in pods:
            on_node[pod.spec.node_name].append(pod)
        reports = await self._reports()
        selected = {
            node.metadata.name for node in (await api.list(NODE, label_selector=options.selector)).items
        }
        now = self._clock.now() + timedelta(seconds=api.server_ahead_s)
        every = {
            name: adoption_facts_from(node, reports.get(name), on_node[name], now)
            for node in sorted((await api.list(NODE)).items, key=lambda node: node.metadata.name)
            if (name := node.metadata.name)
        }
        if absent := sorted(set(options.nodes) - set(every)):
            raise ConfigError(Problem(f"no node {', '.join(absent)}", remedy="kubectl get nodes"))
        meant = {
            name: facts
            for name, facts in every.items()
            if (name in options.nodes if options.nodes else name in selected and self._is_concerned(facts))
        }
        others = sum(1 for name, facts in every.items() if name not in meant and facts.note)
        return HandoverView(meant, others, operator)

    def _is_concerned(self, facts: AdoptionFacts) -> bool:
        """Whether the node has, or had, a device plugin of the operator of this namespace."""
        note = note_from(facts.note)
        if note is not None and note.namespace:
            return note.namespace == self._options.operator_namespace
        return bool(facts.note or facts.plugin_pods)

    async def _reports(self) -> dict[str, NodeGPUStatus]:
        try:
            return {report.metadata.name: report for report in (await self._api.list(NODE_GPU_STATUS)).items}
        except ApiError as error:
            if error.code != HTTPStatus.NOT_FOUND:
                raise
            return {}  # the kind is not served before the agents are installed

    async def _operator(self, pods: list[Pod]) -> OperatorDeployment | None:
        namespace = self._options.operator_namespace
        there = (await self._api.list(DEPLOYMENT, namespace=namespace, label_selector=_OPERATOR)).items
        if not there:
            return None
        chosen = there[0].spec.selector.match_labels.items()
        count = sum(1 for pod in pods if chosen and chosen <= pod.metadata.labels.items())
        return operator_deployment_from(there[0], count)

    async def _pause(self, view: HandoverView, course: _Course) -> bool:
        """Whether NVIDIA's operator stands still. Raises ClusterError: somebody started it again."""
        operator = view.operator
        if operator is None:
            namespace = self._options.operator_namespace
            remedy = "name its namespace: --operator-namespace"
            raise ConfigError(
                Problem("no Deployment of NVIDIA's operator", f"namespace {namespace}", "", remedy)
            )
        step, where = paused(operator), f"Deployment {operator.namespace}/{operator.name}"
        if isinstance(step, OperatorScaledUp):
            remedy = "have it kept at 0 replicas there, scale it to 0, and run tonnage operator adopt again"
            raise ClusterError(Problem("NVIDIA's operator was started again", where, step.message, remedy))
        if step is not None:
            self._tell(course, "", f"{where}: scale to 0")
            await self._scale(operator, step)
        elif operator.pods:
            self._tell(course, "", f"{where}: {operator.pods} pods end")
        return step is None and not operator.pods

    async def _resume(self, view: HandoverView, course: _Course) -> None:
        """Start NVIDIA's operator again, unless a node still is in the hands of an agent."""
        while view.operator is not None and (step := resumed(view.operator)) is not None:
            if view.others_adopted or any(facts.note for facts in view.nodes.values()):
                return
            where = f"Deployment {view.operator.namespace}/{view.operator.name}"
            self._tell(course, "", f"{where}: scale to {step.replicas}")
            await self._scale(view.operator, step)
            view = await self.look()

    async def _scale(self, operator: OperatorDeployment, step: ScaleOperator) -> None:
        try:
            await self._api.patch(DEPLOYMENT, operator.name, step.patch, namespace=operator.namespace)
        except ApiError as error:
            if error.code != HTTPStatus.CONFLICT:
                raise

    async def _advance(self, facts: AdoptionFacts, view: HandoverView, course: _Course) -> None:
        """Take the node's next step, unless it has to wait for its turn."""
        name, step = facts.node, course.step(facts)
        if name in course.ended:
            return
        if isinstance(step, NodeAtRest):
            back = course.returning.get(name)
            course.ended[name] = (NodeEnd.RETURNED, back) if back else (NodeEnd.DONE, step.why)
            self._tell(course, name, f"back with NVIDIA's operator: {back}" if back else step.why)
            return
        if isinstance(step, RefuseNode):
            course.ended[name] = NodeEnd.REFUSED, str(step)
            return
        if not self._has_turn(facts, view, course):
            return
        self._tell(course, name, step.why)
        if isinstance(step, ChangeNode):
            await self._change(name, step)
        self._lose_patience(name, step, course)

    def _has_turn(self, facts: AdoptionFacts, view: HandoverView, course: _Course) -> bool:
        """Whether the node is under way, or may begin. After a node that went back no other begins."""
        name = facts.node
        if name in course.since:
            return True
        if course.direction is Direction.ADOPT and not facts.note and course.returning:
            course.ended[name] = NodeEnd.WAITS, "not begun, since another node went back"
            return False
        busy = sum(1 for other in course.since if other in view.nodes and other not in course.ended)
        if busy >= self._options.parallel:
            return False
        course.since[name] = self._clock.monotonic()
        return True

    async def _change(self, name: str, step: ChangeNode) -> None:
        try:
            await self._api.patch(NODE, name, step.patch)
        except ApiError as error:
            if error.code not in (HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND):
                raise  # otherwise the next round sees what it is now

    def _lose_patience(self, name: str, step: AdoptionStep, course: _Course) -> None:
        """What takes too long ends; a node whose devices are nobody's goes back first."""
        now, adopts = self._clock.monotonic(), course.direction is Direction.ADOPT
        if (
            not isinstance(step, AwaitNode | ChangeNode)
            or now - course.since[name] <= self._options.patience_s
        ):
            return
        begun = isinstance(step, ChangeNode) or step.begun
        if begun and adopts and name not in course.returning:
            course.returning[name], course.since[name] = step.why, now
            self._tell(course, name, f"goes back to NVIDIA's operator: {step.why}")
        else:
            course.ended[name] = NodeEnd.WAITS, step.why

    async def _require_daemon_set(self, view: HandoverView) -> None:
        """Raises ConfigError: there is nobody to give nodes back to."""
        namespace = self._options.operator_namespace
        sets = (await self._api.list(DAEMON_SET, namespace=namespace)).items
        theirs = any(
            each_set.metadata.name == _PLUGIN and OPERAND_LABEL not in each_set.metadata.labels
            for each_set in sets
        )
        if not theirs and any(facts.note for facts in view.nodes.values()):
            where = f"namespace {namespace}"
            remedy = "install NVIDIA's operator again, or name its namespace: --operator-namespace"
            raise ConfigError(Problem(f"no DaemonSet {_PLUGIN} of NVIDIA's operator", where, "", remedy))

    def _tell(self, course: _Course, name: str, words: str) -> None:
        if course.words.get(name) != words:
            course.words[name] = words
            self._say(name, words)


def _refusals(view: HandoverView) -> dict[str, tuple[NodeEnd, str]]:
    """Nodes that are not begun whatever happens; where there are some, nothing is changed at all."""
    refused = {
        name: (NodeEnd.REFUSED, str(step))
        for name, facts in view.nodes.items()
        if isinstance(step := next_adoption(facts), RefuseNode)
    }
    if not refused:
        return {}
    others = NodeEnd.WAITS, "nothing was changed, since another node was refused"
    return {name: refused.get(name, others) for name in view.nodes}
