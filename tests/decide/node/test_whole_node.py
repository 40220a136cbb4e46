"""Health, configuration, ledger and allocation as one: none is given twice, or withheld for another."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from support.ledger_rows import noted
from tonnage.agent.holds.ledger_file import ledger_bytes, ledger_of
from tonnage.decide.node.advertise import advertise
from tonnage.decide.node.allocate import allocate
from tonnage.decide.node.device_holds import DeviceHolds
from tonnage.decide.node.health.checkpoint import health_from_json, health_json
from tonnage.decide.node.health.device_health import offered_inventory, state_after_scan, unreadable
from tonnage.decide.node.health.faults import HealthState, interrupted
from tonnage.decide.node.health.xids import classes_of, state_after_event
from tonnage.decide.node.inject import inject
from tonnage.decide.node.ledger import Evidence, Ledger, gather, holds_of, settle
from tonnage.decide.node.preference.prefer import prefer
from tonnage.decide.node.share import share
from tonnage.model.devices.health import FaultClass, HealthPolicy
from tonnage.model.devices.inventory import Device, Inventory, MigDevice, RawEvent, RawEventKind, Vitals
from tonnage.model.devices.sharing import (
    Advertisement,
    Allocation,
    DeviceSlot,
    Hold,
    NodePlan,
    PluginConfig,
    SharedPolicy,
    SharedResource,
)
from tonnage.model.names import GPU, ResourceName, parse_device_id
from tonnage.model.node.plugin_settings import MigStrategy

SHARED, SMALL = ResourceName("nvidia.com/gpu.shared"), ResourceName("nvidia.com/mig-1g.5gb")
CONFIGS = (
    PluginConfig(),
    PluginConfig(mig_strategy=MigStrategy.MIXED),
    PluginConfig((SharedResource(GPU, SHARED, 2, ("0",)),), mig_strategy=MigStrategy.MIXED),
    PluginConfig((SharedResource(GPU, GPU, 3),), shared_policy=SharedPolicy.SPREAD),
    PluginConfig(
        (SharedResource(SMALL, SMALL, 2),),
        mig_strategy=MigStrategy.MIXED,
        fail_requests_greater_than_one=True,
    ),
)
MIGS = (MigDevice("MIG-0", 0, "1g.5gb", 1, 0, 1), MigDevice("MIG-1", 1, "1g.5gb", 2, 0, 1))
DEVICES = (
    Device("GPU-0", 0, "NVIDIA A100", 40960, mig_enabled=False),
    Device("GPU-1", 1, "NVIDIA A100", 40960, mig_enabled=False),
    Device("GPU-2", 2, "NVIDIA A100", 40960, mig_enabled=True, migs=MIGS),
)
POLICY = HealthPolicy()
XIDS = (13, 31, 48, 62, 74, 79, 95, 999)
UUIDS = st.sampled_from([device.uuid for device in DEVICES])
FOR_THEMSELVES = ("shared-request-too-large", "replicas-of-one-device")
"""Refusals that say nothing of a device's state."""
LONG_S = 100_000.0


class WholeNode(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.config = PluginConfig()
        self.lost: set[str] = set()
        self.hurt: set[str] = set()
        """Devices that something has happened to, since they were known to be well."""
        self.readable = True
        self.boot = 1
        self.now = 0.0
        self.health = HealthState()
        self.offered = Inventory()
        self.ledger: Ledger = ()
        self.evidence = Evidence()
        self.order = 1
        self.pods = 0
        self.running: dict[int, Hold] = {}
        self.told: list[tuple[Advertisement, ...]] = []
        self.look()

    @property
    def holds(self) -> tuple[Hold, ...]:
        return holds_of(self.evidence, self.ledger)

    @property
    def plan(self) -> NodePlan:
        return share(self.offered, self.config)

    def scanned(self) -> Inventory:
        devices = tuple(
            replace(device, healthy=False, reason="GPU is lost") if device.uuid in self.lost else device
            for device in DEVICES
        )
        vitals = tuple(Vitals(device.uuid, uncorrected_errors=0) for device in devices if device.healthy)
        return Inventory(devices, vitals=vitals, incarnation=str(self.boot))

    @rule(seconds=st.sampled_from([0.0, 1.0, 10.0, 400.0]))
    def look(self, seconds: float = 0.0) -> None:
        self.now += seconds
        if self.readable:
            self.health = state_after_scan(self.health, self.scanned(), POLICY, now=self.now)
            self.offered = offered_inventory(self.scanned(), self.health)
        else:
            self.health = interrupted(self.health)
            self.offered = unreadable(self.offered, "the driver does not answer")
        self.told.append(advertise(self.plan, self.holds))

    @rule(config=st.sampled_from(CONFIGS))
    def configure(self, config: PluginConfig) -> None:
        self.config = config
        self.told.append(advertise(self.plan, self.holds))

    @rule(uuid=UUIDS, code=st.sampled_from(XIDS), part=st.sampled_from([None, 1, 2, 9]))
    def strike(self, uuid: str, code: int, part: int | None) -> None:
        event = RawEvent(RawEventKind.XID, uuid, code, part, part and 0)
        self.health = state_after_event(self.health, event, self.scanned(), POLICY, now=self.now)
        if not all(each.harmless for each in classes_of(code, POLICY)):
            self.hurt.add(uuid)
        self.look()

    @rule(uuid=UUIDS)
    def lose(self, uuid: str) -> None:
        self.lost.add(uuid)
        self.hurt.add(uuid)
        self.look()

    @rule()
    def recover(self) -> None:
        self.lost.clear()
        self.look()

    @rule(readable=st.booleans())
    def the_driver_goes_or_comes(self, readable: bool) -> None:
        self.readable = readable
        self.look()

    @precondition(lambda self: self.hurt)
    @rule()
    def the_node_boots_and_all_goes_well_for_long(self) -> None:
        """Whoever needs no replacement is well then; containers are over."""
        self.boot += 1
        self.readable = True
        self.running.clear()
        self.recover()
        self.look(LONG_S)
        self.look(LONG_S)
        self.hurt = {fault.device for fault in self.health.faults if fault.needs is FaultClass.REPLACE}
        self.ask_kubelet(answers=True)

    @rule()
    def the_agent_restarts(self) -> None:
        memory = json.loads(json.dumps(health_json(self.health, epoch=1e9)))
        self.health = health_from_json(memory, epoch=1e9, now=self.now)
        self.ledger = ledger_of(ledger_bytes(self.ledger, str(self.boot)), str(self.boot), self.now)
        self.evidence, self.order = Evidence(), 1
        self.ask_kubelet(answers=False)
        self.look()

    @rule(answers=st.booleans())
    def ask_kubelet(self, answers: bool) -> None:
        """Its list when it answers; its checkpoint can always be read."""
        held = tuple(self.running.values())
        order, self.order = self.order, self.order + 1
        self.evidence = gather(self.evidence, held if answers else None, held, order=order, settled=answers)
        self.ledger = settle(self.ledger, self.evidence, now=self.now)

    @rule(data=st.data(), late=st.integers(0, 3), size=st.integers(1, 2))
    def admit(self, data: st.DataObject, late: int, size: int) -> None:
        """kubelet gives a pod what is free after the list that it heard, perhaps not the last one."""
        self.told.append(advertise(self.plan, self.holds))
        lists = self.told[-1 - late] if late < len(self.told) else self.told[-1]
        if not lists:
            return
        list_of = data.draw(st.sampled_from(lists))
        taken = {
            slot for hold in self.running.values() if hold.resource == list_of.resource for slot in hold.ids
        }
        free = [slot.id for slot in list_of.slots if slot.healthy and slot.id not in taken]
        resource = self.plan.resource(list_of.resource)
        if len(free) < size or resource is None:
            return
        if data.draw(st.booleans()):  # to prefer is only a wish
            free = data.draw(st.permutations(free))[:size]
        ids = prefer(resource, free, (), size, policy=self.config.shared_policy)
        assert set(ids) <= set(free)
        assert len(ids) == size
        answer = allocate(resource, ids, DeviceHolds.of(self.holds), self.plan.whole_of)
        if not isinstance(answer, Allocation):
            assert late or answer.code in FOR_THEMSELVES, answer
            return
        assert not {self._whole(slot) for slot in answer.ids} & self.lost
        assert inject(answer, self.config, self.plan.access).env["NVIDIA_VISIBLE_DEVICES"]
        self.ledger = noted(self.ledger, answer, order=self.order, now=self.now)
        self.pods += 1
        self.running[self.pods] = Hold(resource.name, answer.ids, "ml", f"pod-{self.pods}", "main")

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        del self.running[data.draw(st.sampled_from(sorted(self.running)))]

    @staticmethod
    def _whole(slot: str) -> str:
        uuid = parse_device_id(slot).uuid
        return "GPU-2" if uuid.startswith("MIG-") else uuid

    @invariant()
    def no_device_is_given_twice(self) -> None:
        whole_of = {mig.uuid: "GPU-2" for mig in MIGS}
        for uuid, uses in DeviceHolds.of(self.running.values()).uses(whole_of).items():
            parts = {use.part for use in uses}
            assert len(uses) == 1 or (len(parts) == len(uses) and "" not in parts), (uuid, uses)
        given = [slot for hold in self.running.values() for slot in hold.ids]
        exclusive = [slot for slot in given if parse_device_id(slot).replica is None]
        assert len(set(exclusive)) == len(exclusive)
        assert len({(hold.resource, slot) for hold in self.running.values() for slot in hold.ids}) == len(
            given
        )

    @invariant()
    def nobody_is_withheld_for_anothers_fault(self) -> None:
        """Whom nothing has happened to, and nobody has or may have, is offered wherever it is listed."""
        if not self.readable:
            return
        busy = {self._whole(slot) for hold in self.holds for slot in hold.ids}
        for slot in self._shown():
            if self._whole(slot.id) not in busy | self.hurt:
                assert slot.healthy, slot

    @invariant()
    def nobody_who_is_lost_is_offered(self) -> None:
        assert not [slot for slot in self._shown() if slot.healthy and self._whole(slot.id) in self.lost]
        assert self.readable or not [slot for slot in self._shown() if slot.healthy]

    def _shown(self) -> Iterator[DeviceSlot]:
        for advertisement in advertise(self.plan, self.holds):
            yield from advertisement.slots


TestWholeNode = WholeNode.TestCase
TestWholeNode.settings = settings(stateful_step_count=40)
