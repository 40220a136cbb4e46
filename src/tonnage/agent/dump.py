"""The board as JSON, for who looks for mistakes; and a board out of such a dump, to replay it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, Generic, TypeVar

import msgspec

from tonnage.agent.board import Fact, NodeBoard, Topic
from tonnage.decide.node.choose_config import ConfigInForce
from tonnage.decide.node.claims.offer import ClaimOffer
from tonnage.decide.node.device_holds import DeviceHolds
from tonnage.decide.node.labels.node_labels import PublishedLabels
from tonnage.decide.node.mig.desired_layout import MigWish
from tonnage.decide.node.offer import NodeOffer, offer_of, plan_of
from tonnage.model.devices.claims import PublishedDevice
from tonnage.model.devices.health import SeenXid
from tonnage.model.devices.inventory import Inventory, Sample
from tonnage.model.devices.mps import MpsDaemon, MpsState
from tonnage.model.devices.sharing import Advertisement, Hold
from tonnage.model.mig.hooks import HostWork
from tonnage.model.mig.layouts import MigStanding, MigWork
from tonnage.model.names import ResourceName
from tonnage.model.node.condition_report import ConditionReport
from tonnage.model.node.machine import Machine
from tonnage.model.node.software import NodeSoftware
from tonnage.model.node.telemetry import PodIdentity
from tonnage.model.reasons.gpu.claim_serving import REASONS, ServingReason
from tonnage.ports.clock import Clock
from tonnage.wire.decode import decoded_json
from tonnage.wire.objects import Node, NodeSpec, ObjectMeta

VERSION: Final = 3
"""Another one after every change that a reader of the version before would misread."""
T = TypeVar("T")


class DumpedFact(msgspec.Struct, Generic[T], frozen=True):
    """A fact of the board; `age_s` is null where nothing was seen yet."""

    value: T
    age_s: float | None = None


class DumpedNode(msgspec.Struct, frozen=True):
    """Of the Node object what the agent goes by: its labels, and whether it is cordoned."""

    labels: Mapping[str, str]
    unschedulable: bool = False


class HoldFacts(msgspec.Struct, frozen=True):
    """Who holds what; `known` once kubelet was asked."""

    holds: tuple[Hold, ...]
    known: bool


class OfferFacts(msgspec.Struct, frozen=True):
    """What kubelet is told, and why some device is in no resource."""

    advertised: tuple[Advertisement, ...]
    problems: tuple[str, ...]


class DumpedReason(msgspec.Struct, frozen=True):
    """A reason by its code."""

    code: str
    message: str
    facts: Mapping[str, str]


class ClaimFacts(msgspec.Struct, frozen=True):
    """The GPUs that are offered as claims, why none can be had, or why those that share counters cannot."""

    devices: tuple[PublishedDevice, ...]
    refusal: DumpedReason | None = None
    unpublished: str = ""


class BoardFacts(msgspec.Struct, frozen=True):
    """The board's topics under their own names: see `NodeBoard`."""

    inventory: DumpedFact[Inventory | None]
    devices_error: DumpedFact[str]
    withheld: DumpedFact[Mapping[str, tuple[int, ...]]]
    configuration: DumpedFact[ConfigInForce | None]
    config_confirmed: DumpedFact[bool]
    node: DumpedFact[DumpedNode | None]
    node_versions: DumpedFact[tuple[str, str]]
    holds: DumpedFact[HoldFacts]
    offer: DumpedFact[OfferFacts | None]
    mps: DumpedFact[Mapping[ResourceName, MpsState]]
    mps_condition: DumpedFact[ConditionReport]
    mig_wish: DumpedFact[MigWish | None]
    mig_work: DumpedFact[MigWork]
    mig_standing: DumpedFact[MigStanding | None]
    mig_condition: DumpedFact[ConditionReport]
    software: DumpedFact[NodeSoftware]
    samples: DumpedFact[tuple[Sample, ...]]
    machine: DumpedFact[Machine | None]
    xids: DumpedFact[tuple[SeenXid, ...]]
    pods: DumpedFact[Mapping[str, PodIdentity]]
    requested: DumpedFact[Mapping[str, int] | None]
    labels: DumpedFact[PublishedLabels | None]
    parts_off: DumpedFact[frozenset[str]] = DumpedFact(frozenset())
    restarts: DumpedFact[Mapping[str, str]] = DumpedFact({})
    claims: DumpedFact[ClaimFacts | None] = DumpedFact(None)
    claim_daemons: DumpedFact[tuple[MpsDaemon, ...]] = DumpedFact(())


class NodeDump(msgspec.Struct, frozen=True):
    """A dump: its version, the agent's, the node, when it was made, and every fact of the board."""

    version: int
    agent: str
    node: str
    at: datetime
    facts: BoardFacts


def dump_of(board: NodeBoard, clock: Clock, *, node: str, agent: str) -> bytes:
    """The board now, as JSON. Texts of configurations and what hooks are told are left out."""
    now = clock.monotonic()
    facts = {name: _dumped(topic.fact, now) for name, topic in _topics(board).items()}
    dump = NodeDump(VERSION, agent, node, clock.now(), BoardFacts(**facts))
    plain = msgspec.to_builtins(dump, enc_hook=_plain, str_keys=True, order="deterministic")
    return msgspec.json.encode(plain)


def dump_in(text: bytes) -> NodeDump:
    """A dump of this version. Raises ValueError: it is none."""
    dump: NodeDump = decoded_json(text, NodeDump)
    if dump.version != VERSION:
        raise ValueError(f"a dump of version {dump.version}, not {VERSION}")
    return dump


def board_of(dump: NodeDump, clock: Clock) -> NodeBoard:
    """The board that was dumped, as of now by this clock. What the node offers is decided anew.

    Raises ValueError: a reason in it is unknown.
    """
    facts, now = dump.facts, clock.monotonic()
    dumped: dict[str, DumpedFact[Any]] = msgspec.structs.asdict(facts)
    values: dict[str, Any] = {name: fact.value for name, fact in dumped.items()}
    values["holds"] = DeviceHolds.of(facts.holds.value.holds, settled=facts.holds.value.known)
    values["claims"] = None if facts.claims.value is None else _claim_offer(facts.claims.value)
    values["offer"] = None if facts.offer.value is None else _offer(facts)
    if (node_facts := facts.node.value) is not None:
        meta = ObjectMeta(name=dump.node, labels=dict(node_facts.labels))
        values["node"] = Node(metadata=meta, spec=NodeSpec(unschedulable=node_facts.unschedulable))
    times = {name: None if fact.age_s is None else now - fact.age_s for name, fact in dumped.items()}
    return NodeBoard(**{name: Topic(clock, value, times[name]) for name, value in values.items()})


def _topics(board: NodeBoard) -> dict[str, Topic[Any]]:
    """Every topic by its name; `BoardFacts` refuses one too few, and a test compares it with the board."""
    return {
        "inventory": board.inventory,
        "devices_error": board.devices_error,
        "withheld": board.withheld,
        "configuration": board.configuration,
        "config_confirmed": board.config_confirmed,
        "node": board.node,
        "node_versions": board.node_versions,
        "holds": board.holds,
        "offer": board.offer,
        "mps": board.mps,
        "mps_condition": board.mps_condition,
        "mig_wish": board.mig_wish,
        "mig_work": board.mig_work,
        "mig_standing": board.mig_standing,
        "mig_condition": board.mig_condition,
        "software": board.software,
        "samples": board.samples,
        "machine": board.machine,
        "xids": board.xids,
        "pods": board.pods,
        "requested": board.requested,
        "labels": board.labels,
        "parts_off": board.parts_off,
        "restarts": board.restarts,
        "claims": board.claims,
        "claim_daemons": board.claim_daemons,
    }


def _dumped(fact: Fact[Any], now: float) -> DumpedFact[Any]:
    return DumpedFact(_shown(fact.value), None if fact.seen_s is None else round(now - fact.seen_s, 3))


def _offer(facts: BoardFacts) -> NodeOffer | None:
    inventory, config, mps = facts.inventory.value, facts.configuration.value, facts.mps.value
    if inventory is None or config is None:
        return None
    held = DeviceHolds.of(facts.holds.value.holds)
    return offer_of(inventory, config, plan_of(inventory, config, mps), held, mps)


def _dumped_reason(refusal: ServingReason | None) -> DumpedReason | None:
    if refusal is None:
        return None
    return DumpedReason(refusal.code, refusal.message, {key: str(v) for key, v in refusal.facts.items()})


def _claim_offer(claims: ClaimFacts) -> ClaimOffer:
    """Raises ValueError: no driver gives that reason."""
    dumped = claims.refusal
    if dumped is None:
        return ClaimOffer(claims.devices, None, claims.unpublished)
    cls = next((cls for cls in REASONS if cls.code == dumped.code), None)
    if cls is None:
        raise ValueError(f"no reason of the driver for claims: {dumped.code[:60]!r}")
    refusal = msgspec.convert({"message": dumped.message, **dumped.facts}, cls)
    return ClaimOffer(claims.devices, refusal, claims.unpublished)


def _shown(value: Any) -> Any:
    """A fact as it is shown: without what may be secret, and what follows from other facts."""
    match value:
        case ConfigInForce():
            return replace(value, choice=replace(value.choice, text=""))
        case MigWish():
            return replace(value, host=HostWork())
        case ClaimOffer():
            return ClaimFacts(value.devices, _dumped_reason(value.refusal), value.unpublished)
        case Node():
            return DumpedNode(value.metadata.labels, value.spec.unschedulable)
        case DeviceHolds():
            return HoldFacts(value.holds, value.settled)
        case NodeOffer():
            return OfferFacts(value.advertised, tuple(refusal.message for refusal in value.plan.refusals))
    return value


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"the dump has no {type(value).__name__}")
