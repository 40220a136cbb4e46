"""A node whose health is looked at again and again, by a clock of its own."""

from __future__ import annotations

from dataclasses import replace

from tonnage.decide.node.health.device_health import offered_inventory, state_after_scan
from tonnage.decide.node.health.faults import HealthState
from tonnage.decide.node.health.xids import state_after_event
from tonnage.model.devices.health import HealthPolicy
from tonnage.model.devices.inventory import Device, Inventory, MigDevice, RawEvent, RawEventKind, Vitals
from tonnage.model.devices.links import Link

POLICY = HealthPolicy(steady_s=5, recover_after_s=300)

DAY_S = 86_400


def mig(uuid: str, gi: int, ci: int = 0) -> MigDevice:
    return MigDevice(uuid, gi, "1g.10gb", gi, ci, 9728)


def xid(code: int, uuid: str = "a", gi: int | None = None, ci: int | None = None) -> RawEvent:
    return RawEvent(RawEventKind.XID, uuid, code, gi, ci)


class Node:
    """Two devices, `b` divided, and what is remembered of them while time goes by."""

    def __init__(self, policy: HealthPolicy = POLICY) -> None:
        self.policy = policy
        self.now = 1000.0
        self.state = HealthState()
        migs = (mig("b-1", 1), mig("b-2", 2), mig("b-2x", 2, 1))
        self.devices = {
            "a": Device("a", 0, "x", 1),
            "b": Device("b", 1, "x", 1, mig_enabled=True, migs=migs),
        }
        self.vitals = {"a": Vitals("a", uncorrected_errors=0), "b": Vitals("b")}
        self.links: tuple[Link, ...] = ()
        self.incarnation = "boot-1"
        self.look()

    @property
    def scanned(self) -> Inventory:
        vitals = tuple(self.vitals.values())
        return Inventory(
            tuple(self.devices.values()), links=self.links, vitals=vitals, incarnation=self.incarnation
        )

    def look(self, after: float = 0.0) -> None:
        self.now += after
        self.state = state_after_scan(self.state, self.scanned, self.policy, now=self.now)

    def looks(self, seconds: float) -> None:
        """Look every second for so long."""
        for _ in range(round(seconds)):
            self.look(1)

    def strike(self, event: RawEvent) -> None:
        self.state = state_after_event(self.state, event, self.scanned, self.policy, now=self.now)

    def change(self, uuid: str, **facts: object) -> None:
        self.devices[uuid] = replace(self.devices[uuid], **facts)  # type: ignore[arg-type]

    def tell(self, **vitals: object) -> None:
        """What `a` says of itself from now on."""
        self.vitals["a"] = replace(self.vitals["a"], **vitals)  # type: ignore[arg-type]

    @property
    def reasons(self) -> dict[str, str]:
        """Why what is unhealthy is: devices and MIG devices by uuid."""
        found: dict[str, str] = {}
        for device in offered_inventory(self.scanned, self.state).devices:
            parts: tuple[Device | MigDevice, ...] = (device, *device.migs)
            found |= {each.uuid: each.reason for each in parts if not each.healthy}
        return found
