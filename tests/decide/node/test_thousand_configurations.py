"""A thousand configurations and layouts in a row under running containers: nothing is ever given twice."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

import pytest

from tonnage.decide.node.advertise import advertise
from tonnage.decide.node.allocate import allocate
from tonnage.decide.node.device_holds import DeviceHolds
from tonnage.decide.node.inject import inject
from tonnage.decide.node.serve import Publish, Register, RunningPluginServer, Serve, Withdraw, reconcile
from tonnage.decide.node.share import share
from tonnage.model.devices.device_nodes import DeviceNodes
from tonnage.model.devices.inventory import Device, Inventory, MigDevice
from tonnage.model.devices.sharing import (
    Allocation,
    Hold,
    NodePlan,
    PluginConfig,
    SharedPolicy,
    SharedResource,
)
from tonnage.model.names import GPU, ResourceName, parse_device_id
from tonnage.model.node.plugin_settings import ImexSettings, MigStrategy, NamePattern

FLIPS = 1000
PROFILES = ("1g.5gb", "2g.10gb", "3g.20gb", "1c.3g.20gb", "1g.5gb+me")
NAMES = (GPU, ResourceName("nvidia.com/mig-1g.5gb"), ResourceName("nvidia.com/card"))


def config(random: Random) -> PluginConfig:
    shared = tuple(
        SharedResource(
            name,
            random.choice((name, ResourceName(f"{name}.shared"), ResourceName("nvidia.com/share"))),
            random.randint(2, 4),
            random.choice((None, 1, 2, ("0", "2:1", "GPU-1"))),
        )
        for name in random.sample(NAMES, random.randint(0, 2))
    )
    return PluginConfig(
        shared=tuple({entry.offered_as: entry for entry in shared}.values()),
        fail_requests_greater_than_one=random.random() < 0.3,
        shared_policy=random.choice(tuple(SharedPolicy)),
        mig_strategy=random.choice(tuple(MigStrategy)),
        gpu_names=random.choice(((), (NamePattern("*A100*", ResourceName("nvidia.com/card")),))),
        mig_names=random.choice(((), (NamePattern("1g.*", GPU),))),
        pass_device_specs=random.random() < 0.5,
        imex=random.choice((ImexSettings(), ImexSettings((0,), required=True))),
    )


REFUSALS = ("shared-request-too-large", "replicas-of-one-device", "held-under-another-name")
"""The last one where kubelet has not heard yet that somebody took the device under another name."""


@dataclass
class Node:
    """A kubelet's view of a node: what it was told last, and who has what."""

    random: Random
    devices: list[Device] = field(default_factory=lambda: [whole(i) for i in range(4)])
    served: dict[ResourceName, RunningPluginServer] = field(default_factory=dict)
    holds: list[Hold] = field(default_factory=list)
    made: int = 0

    def disturb(self) -> None:
        """A device fails or recovers, is divided anew or joined; never one that is in use."""
        place = self.random.randrange(len(self.devices))
        device = self.devices[place]
        used = {parse_device_id(text).uuid for hold in self.holds for text in hold.ids}
        if self.random.random() < 0.3:
            self.devices[place] = replace(device, healthy=not device.healthy, reason="Xid 79")
        elif not used.intersection({device.uuid, *(mig.uuid for mig in device.migs)}):
            profiles = self.random.choices(PROFILES, k=self.random.randint(0, 3))
            self.made += 1
            migs = tuple(part(place, at, name, self.made) for at, name in enumerate(profiles))
            enabled = bool(migs) or self.random.random() < 0.3
            self.devices[place] = replace(device, migs=migs, mig_enabled=enabled)

    def end(self) -> None:
        self.holds = [hold for hold in self.holds if self.random.random() < 0.8]

    def listen(self, plan: NodePlan) -> None:
        """Follow the plan as kubelet sees it, through the steps that the agent takes."""
        advertised = advertise(plan, self.holds)
        for action in reconcile(advertised, self.served, "kubelet"):
            match action:
                case Withdraw(name):
                    del self.served[name]
                case Serve(advertisement) | Publish(advertisement):
                    known = self.served.get(advertisement.resource, RunningPluginServer(advertisement))
                    self.served[advertisement.resource] = replace(known, advertised=advertisement)
                case Register(name):
                    self.served[name] = replace(self.served[name], kubelet="kubelet")
        assert {name: served.advertised for name, served in self.served.items()} == {
            advertisement.resource: advertisement for advertisement in advertised
        }
        assert not reconcile(advertised, self.served, "kubelet"), "nothing is left to do"

    def admit(self, plan: NodePlan, running: PluginConfig) -> bool:
        """Give a container what kubelet has free, as kubelet does; whether the agent agreed."""
        if not self.served:
            return False
        name = self.random.choice(sorted(self.served))
        taken = {text for hold in self.holds if hold.resource == name for text in hold.ids}
        slots = [slot for slot in self.served[name].advertised.slots if slot.healthy and slot.id not in taken]
        resource = plan.resource(name)
        assert resource is not None
        if not slots:
            return False
        ids = [slot.id for slot in self.random.sample(slots, min(len(slots), self.random.randint(1, 2)))]
        allocation = allocate(resource, ids, DeviceHolds.of(self.holds), plan.whole_of)
        if not isinstance(allocation, Allocation):
            assert allocation.code in REFUSALS, allocation
            return False
        assert inject(allocation, running, plan.access).env["NVIDIA_VISIBLE_DEVICES"]
        self.holds.append(Hold(name, allocation.ids))
        return True


def whole(index: int) -> Device:
    return Device(
        f"GPU-{index}", index, ("NVIDIA A100", "Tesla T4")[index % 2], 1, minor=index, mig_enabled=False
    )


def part(gpu: int, place: int, profile: str, number: int) -> MigDevice:
    return MigDevice(f"MIG-{gpu}-{place}-{number}", place, profile, place, 0, 1)


def nobody_shares_unasked(node: Node, whole_of: dict[str, str]) -> None:
    """Containers have a device in common only as replicas of one resource; a whole one has no parts."""
    uses: dict[str, set[tuple[str, bool]]] = {}
    exclusive: set[str] = set()
    wholes: set[str] = set()
    for hold in node.holds:
        for text in hold.ids:
            device = parse_device_id(text)
            uses.setdefault(device.uuid, set()).add((hold.resource, device.replica is not None))
            if device.replica is None:
                assert device.uuid not in exclusive, "one exclusive device, two containers"
                exclusive.add(device.uuid)
            wholes.add(device.uuid)
    assert all(len(use) == 1 for use in uses.values()), uses
    assert not {whole_of[uuid] for uuid in uses if uuid in whole_of} & wholes, "a device and a part of it"


@pytest.mark.parametrize("seed", range(3))
def test_a_thousand_flips_in_a_row(seed: int) -> None:
    random = Random(seed)
    node = Node(random)
    channels = frozenset({"/dev/nvidia-caps-imex-channels/channel0"})
    whole_of: dict[str, str] = {}
    running, admitted = PluginConfig(), 0
    for _ in range(FLIPS):
        node.disturb()
        node.end()
        if random.random() < 0.7:
            running = config(random)
        capabilities = {
            name: number
            for device in node.devices
            for number, mig in enumerate(device.migs)
            for name in (
                f"gpu{device.minor}/gi{mig.gpu_instance}/access",
                f"gpu{device.minor}/gi{mig.gpu_instance}/ci{mig.compute_instance}/access",
            )
        }
        nodes = DeviceNodes(channels if random.random() < 0.8 else frozenset(), capabilities=capabilities)
        plan = share(Inventory(tuple(node.devices), nodes=nodes), running)
        whole_of |= plan.whole_of
        slots = [slot for resource in plan.resources for slot in resource.slots]
        assert len({slot.id for slot in slots}) == len(slots)
        node.listen(plan)
        for _ in range(random.randint(0, 3)):
            admitted += node.admit(plan, running)
            if random.random() < 0.5:
                node.listen(plan)
        node.listen(plan)
        nobody_shares_unasked(node, whole_of)
    assert admitted > FLIPS / 10, "the test must get somewhere"
