"""Whatever restarts, breaks or ends: no device is ever with two pods, and none is lost for good."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import Any, cast

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from tonnage.decide.kubernetes.kubelet.device_admission import ContainerNeed
from tonnage.decide.kubernetes.kubelet.topology_manager import NumaTopology
from tonnage.twin.clock import VirtualClock
from tonnage.twin.kubelet.devices.manager import DeviceManager
from tonnage.twin.kubelet.devices.plugins import PluginEndpoint, PluginError
from tonnage.twin.kubelet.node_disk import FaultyDisk, LocalDisk
from tonnage.twin.kubelet.node_spec import NodePaths
from tonnage.wire.kubelet import deviceplugin_v1beta1_pb2 as wire

GPU = "nvidia.com/gpu"
IDS = [f"GPU-{n}" for n in range(4)]


class DirectPlugin:
    """A plugin without a wire, sometimes unwilling; every allocation that it grants is remembered."""

    resource = GPU
    prefers = True
    wants_pre_start = False

    def __init__(self) -> None:
        self.refuses = False

    async def preferred(self, available: frozenset[str], must: frozenset[str], size: int) -> frozenset[str]:
        return must | frozenset(sorted(available - must, reverse=True)[: size - len(must)])

    async def allocate(self, ids: frozenset[str]) -> wire.ContainerAllocateResponse:
        await asyncio.sleep(0)
        if self.refuses:
            raise PluginError("rpc error: code = Unknown desc = not now")
        return wire.ContainerAllocateResponse(envs={"IDS": ",".join(sorted(ids))})

    async def stop(self) -> None:
        """Nothing to close."""


class OneOwnerPerDevice(RuleBasedStateMachine):
    """Pods come, end and are forgotten; plugin and kubelet restart; devices fall ill; the disk fills up."""

    pods = Bundle("pods")

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="tn-", dir="/tmp"))
        self.loop = asyncio.new_event_loop()
        self.clock = VirtualClock()
        self.disk = FaultyDisk(LocalDisk(), self.clock)
        self.healthy = dict.fromkeys(IDS, True)
        self.owners: dict[str, frozenset[str]] = {}
        self.count = 0
        self.plugin = DirectPlugin()
        self.devices = self._fresh()
        self._register()

    def teardown(self) -> None:
        self.loop.run_until_complete(self.devices.resources.stop())
        self.loop.close()
        shutil.rmtree(self.root)

    def _fresh(self) -> DeviceManager:
        paths = NodePaths(self.root)
        paths.device_plugins.mkdir(parents=True, exist_ok=True)
        devices = DeviceManager(paths, self.disk, self.clock, NumaTopology(1), lambda: None)
        self.loop.run_until_complete(devices.start())
        return devices

    def _register(self) -> None:
        self.plugin = DirectPlugin()
        self.loop.run_until_complete(
            self.devices.resources.plugin_connected(cast(PluginEndpoint, self.plugin))
        )
        self._list()

    def _list(self) -> None:
        listed = [
            wire.Device(ID=name, health="Healthy" if healthy else "Unhealthy")
            for name, healthy in self.healthy.items()
        ]
        self.loop.run_until_complete(
            self.devices.resources.devices_listed(cast(PluginEndpoint, self.plugin), listed)
        )

    def _held(self, uid: str) -> frozenset[str]:
        held = self.devices.held(uid)
        return frozenset(device for entries in held.values() for entry in entries for device in entry.ids)

    def _admit(self, uid: str, needs: list[ContainerNeed]) -> None:
        failure = self.loop.run_until_complete(self.devices.allocate(uid, needs))
        if failure is None:
            self.owners[uid] = self._held(uid)
            wanted = [need.resources[GPU] for need in needs]
            assert len(self.owners[uid]) in {sum(wanted), max(wanted), sum(wanted[1:])}
        else:
            assert self._held(uid) == frozenset()

    @rule(target=pods, count=st.integers(1, 4))
    def pod_with_one_container(self, count: int) -> str:
        self.count += 1
        uid = f"uid-{self.count}"
        self._admit(uid, [ContainerNeed("main", {GPU: count})])
        return uid

    @rule(target=pods, first=st.integers(1, 2), then=st.integers(1, 2))
    def pod_with_init_container(self, first: int, then: int) -> str:
        self.count += 1
        uid = f"uid-{self.count}"
        self._admit(
            uid,
            [ContainerNeed("init", {GPU: first}, reusable_after=True), ContainerNeed("main", {GPU: then})],
        )
        return uid

    @rule(targets=(pods,), counts=st.lists(st.integers(1, 3), min_size=2, max_size=3))
    def pods_at_the_same_time(self, counts: list[int]) -> str:
        uids = [f"uid-{self.count + n}" for n in range(1, len(counts) + 1)]
        self.count += len(counts)

        async def all_at_once() -> list[Any]:
            return await asyncio.gather(
                *(
                    self.devices.allocate(uid, [ContainerNeed("main", {GPU: count})])
                    for uid, count in zip(uids, counts, strict=True)
                )
            )

        for uid, failure in zip(uids, self.loop.run_until_complete(all_at_once()), strict=True):
            if failure is None:
                self.owners[uid] = self._held(uid)
        return uids[0]

    @rule(uid=pods)
    def pod_ends(self, uid: str) -> None:
        self.disk.full = False
        self.loop.run_until_complete(self.devices.release(uid))
        self.owners.pop(uid, None)

    @rule()
    def kubelet_restarts(self) -> None:
        self.loop.run_until_complete(self.devices.resources.stop())
        self.devices = self._fresh()

    @rule()
    def plugin_registers(self) -> None:
        self._register()

    @rule()
    def plugin_dies(self) -> None:
        async def lose() -> None:
            self.devices.resources.plugin_lost(cast(PluginEndpoint, self.plugin))

        self.loop.run_until_complete(lose())

    @rule(device=st.sampled_from(IDS), healthy=st.booleans())
    def device_changes(self, device: str, healthy: bool) -> None:
        self.healthy[device] = healthy
        self._list()

    @rule(full=st.booleans())
    def disk_fills_or_empties(self, full: bool) -> None:
        self.disk.full = full

    @rule(refuses=st.booleans())
    def plugin_refuses_or_not(self, refuses: bool) -> None:
        self.plugin.refuses = refuses

    @invariant()
    def no_device_has_two_owners(self) -> None:
        given = [device for devices in self.owners.values() for device in devices]
        assert len(given) == len(set(given))

    @invariant()
    def every_owner_still_has_what_it_was_given(self) -> None:
        for uid, devices in self.owners.items():
            assert self._held(uid) == devices


OneOwnerPerDevice.TestCase.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
test_no_device_is_ever_given_twice = OneOwnerPerDevice.TestCase
