"""What is wrong with a resource of a node: a short word for the table, and all that is known of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tonnage.diagnose.agent_silence import ReportAge, duration
from tonnage.diagnose.explain.nodes.closed_nodes import GPUS_HEALTHY, utc
from tonnage.diagnose.fleet.claim_pools import ClaimPool
from tonnage.diagnose.fleet.label_claims import false_labels
from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.cluster import Node
from tonnage.model.name_lists import listed
from tonnage.model.node.gpu_status import ClaimReport, GpuDevice, GpuStatus
from tonnage.model.validation import NodeStage, Outcome

_WORDS: Final = (
    ("lost", "lost"),
    ("fallen off the bus", "lost"),
    ("xid 79", "lost"),
    ("reset", "needs reset"),
    ("ecc", "ECC"),
)
"""What a reason has in it, in lower case, and the word for it."""
NOT_SERVED: Final = "claims not served"
_MOST_NAMED: Final = 4
_REFUSED: Final = "configuration refused"
"""How a report begins its problem of a configuration."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """One thing that is wrong: `word` of two or three words, `text` with the reason."""

    word: str
    text: str

    def to_json(self) -> JsonObject:
        """As `status -o json` prints it."""
        return {"word": self.word, "text": self.text}


def device_word(reason: str) -> str:
    """The word for a device that is not healthy.

    >>> [device_word(reason) for reason in ("Xid 79: GPU has fallen off the bus", "too hot", "")]
    ['lost', 'unhealthy', 'unhealthy']
    """
    lowered = reason.lower()
    return next((word for part, word in _WORDS if part in lowered), "unhealthy")


def is_former(node: Node, resource: str, status: GpuStatus | None) -> bool:
    """Whether the node's devices go by another name now; kubelet lists the old one for some minutes more."""
    names = {device.resource for device in status.devices} if status is not None else set()
    return not node.allocatable.get(resource, 0) and bool(names) and not names & {resource, ""}


def troubles_of(
    node: Node, resource: str, devices: Sequence[GpuDevice], status: GpuStatus | None, agent: ReportAge
) -> Iterator[Trouble]:
    """All troubles of a resource of a node, those of its devices first."""
    yield from _devices(node, resource, devices, status)
    if status is not None and (why := status.mps.get(resource, "")):
        yield Trouble("MPS down", f"MPS daemon does not serve: {why}")
    yield from _of_node(node, status, agent)


def claim_troubles(
    node: Node, pool: ClaimPool, devices: Sequence[GpuDevice], status: GpuStatus | None, agent: ReportAge
) -> Iterator[Trouble]:
    """All troubles of what a node offers as claims: not served, devices that no claim can get, the node's."""
    ill = [device for device in devices if not device.healthy]
    unhealthy = {pool.names.get(device.uuid) for device in ill}
    yield from unclaimable(pool, status)
    if ill:
        yield from _devices(node, pool.resource, devices, status)
    for name, taints in pool.tainted.items():
        if name not in unhealthy:
            yield Trouble("1 tainted", f"{name} is tainted: {taints}")
    yield from _of_node(node, status, agent)


def unclaimable(pool: ClaimPool, status: GpuStatus | None) -> Iterator[Trouble]:
    """Why claims cannot have what the node's agent offers: it serves none, or does not publish all of it.

    Nothing of unhealthy devices, which have troubles of their own.
    """
    report = status.claims if status is not None and status.claims is not None else ClaimReport("")
    devices = status.devices if status is not None else ()
    unhealthy = {report.names.get(device.uuid) for device in devices if not device.healthy}
    if report.driver not in ("", pool.driver):
        return
    if report.why:
        yield Trouble(NOT_SERVED, f"claims are not served: {report.why}")
    names_by_why: dict[str, list[str]] = {}
    for name, why in report.unfit.items():
        if name not in unhealthy and (not pool.published or name not in pool.devices):
            names_by_why.setdefault(why, []).append(name)
    if not pool.published and not report.why and not names_by_why:
        yield Trouble("not published", "no ResourceSlice of the node was seen")
    for why, names in names_by_why.items():
        verb = "is" if len(names) == 1 else "are"
        text = f"{listed(names, _MOST_NAMED)} {verb} not published: {why}"
        yield Trouble(f"{len(names)} not published", text)


def label_troubles(node: Node, status: GpuStatus | None) -> Iterator[Trouble]:
    """Labels that are not what the agent reads of all devices, however each is offered."""
    if status is not None:
        yield from (Trouble("label differs", text) for text in false_labels(node, status.devices))


def _of_node(node: Node, status: GpuStatus | None, agent: ReportAge) -> Iterator[Trouble]:
    if node.ready is False:
        yield Trouble("node not ready", "node not ready")
    if agent.silent and agent.age is not None:
        yield Trouble(f"agent silent {duration(agent.age)}", agent.words)
    if status is not None:
        workload = status.validation.of(NodeStage.WORKLOAD)
        if workload.outcome is Outcome.FAILED:
            yield Trouble("not validated", f"a pod could not use a device: {workload.message}")
        yield from map(_problem, status.problems)


def _devices(
    node: Node, resource: str, devices: Sequence[GpuDevice], status: GpuStatus | None
) -> Iterator[Trouble]:
    ill = [device for device in devices if not device.healthy]
    missing = node.capacity.get(resource, 0) - node.allocatable.get(resource, 0)
    if ill:
        why = "; ".join(sorted({device.reason for device in ill if device.reason}))
        words = Counter(device_word(device.reason) for device in ill)
        yield Trouble(
            ", ".join(f"{number} {word}" for word, number in words.items()),
            f"{len(ill)} of {len(devices)} unhealthy{f': {why}' if why else ''}{_which(node, ill)}",
        )
    elif missing > 0 and is_former(node, resource, status):
        yield Trouble("renamed", "offered under another name now, still held under this one")
    elif missing > 0:
        claims = {holder.resource for device in devices for holder in device.holders if holder.of_claim}
        held = f": claims still hold some, {listed(sorted(claims))}" if claims else ""
        text = f"{missing} of {node.capacity[resource]} not allocatable{held}"
        yield Trouble(f"{missing} not allocatable", text)
    elif not resource or (devices and not node.allocatable.get(resource, 0)):
        yield Trouble("not advertised", "not advertised")


def _problem(problem: str) -> Trouble:
    text = problem.splitlines()[0]
    return Trouble("config refused" if text.startswith(_REFUSED) else "agent complains", text)


def _which(node: Node, ill: Sequence[GpuDevice]) -> str:
    """KUB-2: which devices, by index, and since when the agent calls the node's devices unhealthy."""
    numbers = [str(device.index) for device in ill if device.index is not None]
    parts = [f"GPU {', '.join(numbers)}"] if numbers else []
    healths = (condition for condition in node.problem_conditions if condition.type == GPUS_HEALTHY)
    since = next((condition.since for condition in healths if condition.since), None)
    parts += [f"since {utc(since)}"] if since is not None else []
    return f" ({'; '.join(parts)})" if parts else ""
