"""The node's state in one place: each fact with when it was seen, and who is called when it changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from tonnage.decide.node.device_holds import DeviceHolds
from tonnage.decide.node.runtime.node_software import node_software
from tonnage.model.errors import Bug, Problem
from tonnage.model.mig.layouts import MigStanding, MigWork
from tonnage.model.node.condition_report import ConditionReport
from tonnage.model.node.runtime_config import NodeRuntime
from tonnage.model.node.software import KubeletPolicies, NodeSoftware
from tonnage.ports.clock import Clock

if TYPE_CHECKING:
    from tonnage.decide.node.choose_config import ConfigInForce
    from tonnage.decide.node.claims.offer import ClaimOffer
    from tonnage.decide.node.labels.node_labels import PublishedLabels
    from tonnage.decide.node.mig.desired_layout import MigWish
    from tonnage.decide.node.offer import NodeOffer
    from tonnage.model.devices.health import SeenXid
    from tonnage.model.devices.inventory import Inventory, Sample
    from tonnage.model.devices.mps import MpsDaemon, MpsState
    from tonnage.model.names import ResourceName
    from tonnage.model.node.machine import Machine
    from tonnage.model.node.telemetry import PodIdentity
    from tonnage.wire.objects import Node

T = TypeVar("T")
_NOT_LOOKED_AT: Final = KubeletPolicies(reason="its files have not been checked yet")


@dataclass(frozen=True, slots=True)
class Fact(Generic[T]):
    """A value, and when it was seen last by the monotonic clock. None: never, it is what one begins with."""

    value: T
    seen_s: float | None = None


class Topic(Generic[T]):
    """One fact about the node. One loop publishes it, any may read it and subscribe to it.

    Subscribers are called within `publish`, in the order in which they subscribed and before it returns. Each
    sees the new value. A subscriber does something short: it sets the wake-up of its loop, or publishes what
    follows at once on another topic. It may not publish the topic that it is called for, which is a Bug, and
    what it raises is raised by `publish`.
    """

    __slots__ = ("_clock", "_fact", "_is_calling", "_subscribers")

    def __init__(self, clock: Clock, value: T, seen_s: float | None = None) -> None:
        self._clock = clock
        self._fact = Fact(value, seen_s)
        self._subscribers: list[Callable[[], object]] = []
        self._is_calling = False

    @property
    def fact(self) -> Fact[T]:
        """The value with its time."""
        return self._fact

    @property
    def value(self) -> T:
        """The value; the same object until one is published that differs, so that `is` tells of news."""
        return self._fact.value

    def subscribe(self, subscriber: Callable[[], object]) -> None:
        """Have this called after every change from now on."""
        self._subscribers.append(subscriber)

    def publish(self, value: T) -> None:
        """The value as it was seen now."""
        if self._is_calling:
            raise Bug(Problem("a subscriber publishes the topic that it is called for"))
        before = self._fact.value
        if value is before or value == before:
            self._fact = Fact(before, self._clock.monotonic())
            return
        self._fact = Fact(value, self._clock.monotonic())
        self._is_calling = True
        try:
            for subscriber in self._subscribers:
                subscriber()
        finally:
            self._is_calling = False


@dataclass(frozen=True, slots=True)
class NodeBoard:
    """All that the agent's loops know of the node. Every loop is given it, and reads no other loop's state.

    Whose a topic is, is said beside it. Values are frozen: a change is another value. A loop may be given
    another one, or what keeps files, for what that does; all of these are listed in decision 0025.
    """

    inventory: Topic[Inventory | None]
    """Devices as they may be used; None until the first scan. Of `NodeDevices`."""
    devices_error: Topic[str]
    """Why the devices cannot be read; empty when they can. Of `NodeDevices`."""
    withheld: Topic[Mapping[str, tuple[int, ...]]]
    """What a change of the MIG layout works on: see `decide.node.mig.devices_in_change`. Of `NodeMig`."""
    configuration: Topic[ConfigInForce | None]
    """The device-plugin configuration that runs. Of `NodeConfig`."""
    config_confirmed: Topic[bool]
    """Whether that one was decided on by this agent, and is not only what ran last. Of `NodeConfig`."""
    node: Topic[Node | None]
    """The Node object; None before it was seen, or while there is none. Of `NodeConfig`."""
    node_versions: Topic[tuple[str, str]]
    """(of kubelet, of the container runtime) as the Node says them, else empty. Of `NodeConfig`."""
    holds: Topic[DeviceHolds]
    """Who holds which device. Of `HoldLedger`."""
    offer: Topic[NodeOffer | None]
    """What the node offers, and what that follows from. Of `DevicePlugin`."""
    mps: Topic[Mapping[ResourceName, MpsState]]
    """How every control daemon of MPS stands, by resource. Of `NodeMps`."""
    mps_condition: Topic[ConditionReport]
    """The condition `MPSReady`. Of `NodeMps`."""
    mig_wish: Topic[MigWish | None]
    """The MIG layout that is asked for; None while none is, or that is not known. Of `NodeMigConfig`."""
    mig_work: Topic[MigWork]
    """What is being done for the MIG layout. Of `NodeMig`."""
    mig_standing: Topic[MigStanding | None]
    """How the node stands to its MIG layout; None where nothing is to be said. Of `NodeMig`."""
    mig_condition: Topic[ConditionReport]
    """The condition `MIGConfigApplied`. Of `NodeMigLayout`."""
    software: Topic[NodeSoftware]
    """The node's kubelet and container runtime. Of `SoftwareWatch`."""
    samples: Topic[tuple[Sample, ...]]
    """What the devices read when the status was last made. Of `StatusPublisher`."""
    machine: Topic[Machine | None]
    """The machine as it was when the labels were last made. Of `NodeFeatures`."""
    xids: Topic[tuple[SeenXid, ...]]
    """The last Xids that devices reported, the newest last. Of `NodeDevices`."""
    pods: Topic[Mapping[str, PodIdentity]]
    """The pods that are not over, by `namespace/name`; none before they are listed. Of `Holders`."""
    requested: Topic[Mapping[str, int] | None]
    """Devices that the node's pods ask for, by resource; None while that is not known. Of `Holders`."""
    labels: Topic[PublishedLabels | None]
    """The labels that are published; None until then. Of `NodeFeatures`."""
    parts_off: Topic[frozenset[str]]
    """Parts that are switched off, of `model.operands.SWITCHED`. Of `OperandFollower` or `AdoptionWait`."""
    restarts: Topic[Mapping[str, str]]
    """Pods that asked for a part's restart, the last one's uid by part. Of `OperandFollower`."""
    claims: Topic[ClaimOffer | None]
    """What the node offers to claims; None while it has no driver for them. Of `ClaimDriver`."""
    claim_daemons: Topic[tuple[MpsDaemon, ...]]
    """The control daemons of MPS that prepared claims need. Of `ClaimSharing`."""

    @classmethod
    def blank(cls, clock: Clock) -> NodeBoard:
        """The board of an agent that has seen nothing yet."""
        return cls(
            inventory=Topic(clock, None),
            devices_error=Topic(clock, ""),
            withheld=Topic(clock, MappingProxyType({})),
            configuration=Topic(clock, None),
            config_confirmed=Topic(clock, value=False),
            node=Topic(clock, None),
            node_versions=Topic(clock, ("", "")),
            holds=Topic(clock, DeviceHolds()),
            offer=Topic(clock, None),
            mps=Topic(clock, MappingProxyType({})),
            claim_daemons=Topic(clock, ()),
            mps_condition=Topic(clock, ConditionReport("Unknown", "MPSNeverUsed")),
            mig_wish=Topic(clock, None),
            mig_work=Topic(clock, MigWork.NONE),
            mig_standing=Topic(clock, None),
            mig_condition=Topic(clock, ConditionReport("Unknown", "MIGNeverAsked")),
            software=Topic(clock, node_software(NodeRuntime(), _NOT_LOOKED_AT)),
            samples=Topic(clock, ()),
            machine=Topic(clock, None),
            xids=Topic(clock, ()),
            pods=Topic(clock, MappingProxyType({})),
            requested=Topic(clock, None),
            labels=Topic(clock, None),
            parts_off=Topic(clock, frozenset()),
            restarts=Topic(clock, MappingProxyType({})),
            claims=Topic(clock, None),
        )
