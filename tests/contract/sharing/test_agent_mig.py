"""MIG through the unmodified bindings over a pretended driver: what kubelet is told and given."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import grpc.aio
import pytest

from support.driver_root import Driver
from support.nvml.state import DriverState, FakeGpu, FakeMig
from support.plugin_node import PATIENCE_S, PluginNode, plugin_node
from tonnage.wire.kubelet import deviceplugin_v1beta1_pb2 as plugin
from tonnage.wire.kubelet.methods import ALLOCATE, LIST_AND_WATCH

pytestmark = pytest.mark.long

GPU, SMALL, LARGE = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb"
ONE, TWO = FakeMig("1g", 0, gi=7, uuid="MIG-one"), FakeMig("1g", 1, gi=8, uuid="MIG-two")
BIG = FakeMig("3g", 4, gi=2, uuid="MIG-big")
PART = FakeMig("3g", 4, gi=2, slices=1, uuid="MIG-part")


def gpu(slot: int, *migs: FakeMig, enabled: bool = False) -> FakeGpu:
    return FakeGpu(slot, "A100-80", uuid=f"GPU-{slot}", mig_enabled=enabled or bool(migs), migs=migs)


@dataclass
class Agent:
    """A running agent on a driver, and the lists that a kubelet has from it."""

    node: PluginNode
    driver: Driver
    lists: dict[str, dict[str, str]] = field(default_factory=dict)
    """Health by id, by resource; those whose streams have ended are gone."""
    last: dict[str, dict[str, str]] = field(default_factory=dict)
    """The same, and the last list of those that ended."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    channels: dict[str, grpc.aio.Channel] = field(default_factory=dict)

    async def follow(self) -> None:
        """Do as kubelet does with every plugin that registers."""
        async with asyncio.TaskGroup() as group:
            while True:
                request = await self.node.registered.get()
                path = self.node.plugins / request.endpoint
                channel = grpc.aio.insecure_channel(
                    f"unix:{path}", options=(("grpc.use_local_subchannel_pool", 1),)
                )
                self.channels[request.resource_name] = channel
                group.create_task(self._listen(request.resource_name, channel))

    async def _listen(self, resource: str, channel: grpc.aio.Channel) -> None:
        with suppress(grpc.aio.AioRpcError):
            async for message in listening(channel):
                self.lists[resource] = {device.ID: device.health for device in message.devices}
                self.last[resource] = self.lists[resource]
                self.changed.set()
        self.lists.pop(resource, None)
        self.changed.set()

    async def shows(self, expected: Mapping[str, set[str]]) -> None:
        """Return once exactly these ids are offered as healthy."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                while self.offered() != expected:
                    self.changed.clear()
                    await self.changed.wait()
        except TimeoutError:
            raise AssertionError((self.offered(), expected, self.node.log[-20:])) from None

    def offered(self) -> dict[str, set[str]]:
        return {
            resource: {device for device, health in devices.items() if health == "Healthy"}
            for resource, devices in self.lists.items()
        }

    async def given(self, resource: str, *ids: str) -> plugin.ContainerAllocateResponse:
        call = self.channels[resource].unary_unary(
            ALLOCATE.path, ALLOCATE.request.SerializeToString, ALLOCATE.response.FromString
        )
        asked = plugin.AllocateRequest(container_requests=[plugin.ContainerAllocateRequest(devices_ids=ids)])
        answer = await call(asked, timeout=PATIENCE_S)
        return answer.container_responses[0]


def listening(channel: grpc.aio.Channel) -> AsyncIterator[plugin.ListAndWatchResponse]:
    method = LIST_AND_WATCH
    stream = channel.unary_stream(method.path, method.request.SerializeToString, method.response.FromString)(
        plugin.Empty()
    )
    return aiter(stream)


@asynccontextmanager
async def agent_on(*gpus: FakeGpu, flags: tuple[str, ...] = ()) -> AsyncIterator[Agent]:
    async with plugin_node() as node:
        driver = Driver(node.root, DriverState(gpus))
        agent = Agent(node, driver)
        await node.start_kubelet()
        following = asyncio.create_task(agent.follow())
        try:
            await node.start_agent("--driver-root-ctr-path", str(node.root), *flags, devices="nvml")
            yield agent
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            for channel in agent.channels.values():
                await channel.close()


@pytest.mark.parametrize(
    ("strategy", "gpus", "expected"),
    [
        pytest.param(
            "none", (gpu(0), gpu(1, ONE, TWO)), {GPU: {"GPU-0", "GPU-1"}}, id="none: whole devices alone"
        ),
        pytest.param(
            "single",
            (gpu(0, ONE, TWO), gpu(1, BIG), gpu(2)),
            {GPU: {"MIG-one", "MIG-two"}},
            id="single: the others are withheld",
        ),
        pytest.param(
            "mixed",
            (gpu(0), gpu(1, ONE, TWO, PART), gpu(2, enabled=True)),
            {GPU: {"GPU-0"}, SMALL: {"MIG-one", "MIG-two"}, "nvidia.com/mig-1c.3g.40gb": {"MIG-part"}},
            id="mixed: by profile, parts of instances too, and nothing of a GPU without parts",
        ),
    ],
)
async def test_what_kubelet_is_told(
    strategy: str, gpus: tuple[FakeGpu, ...], expected: dict[str, set[str]]
) -> None:
    async with agent_on(*gpus, flags=(f"--mig-strategy={strategy}",)) as agent:
        await agent.shows(expected)


async def test_a_container_gets_the_capabilities_of_its_mig_device() -> None:
    flags = ("--mig-strategy=mixed", "--pass-device-specs", "--device-list-strategy=envvar,cdi-cri")
    async with agent_on(gpu(0), gpu(1, ONE, TWO), flags=flags) as agent:
        await agent.shows({GPU: {"GPU-0"}, SMALL: {"MIG-one", "MIG-two"}})
        answer = await agent.given(SMALL, "MIG-two")
        assert dict(answer.envs) == {"NVIDIA_VISIBLE_DEVICES": "MIG-two"}
        assert [device.name for device in answer.cdi_devices] == ["k8s.device-plugin.nvidia.com/gpu=MIG-two"]
        control = ["nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset"]
        minors = capabilities(agent.node.root)
        wanted = [minors["gpu1/gi8/access"], minors["gpu1/gi8/ci0/access"]]
        assert [(spec.host_path, spec.container_path, spec.permissions) for spec in answer.devices] == [
            (f"/dev/{name}", f"/dev/{name}", "rw")
            for name in (*control, "nvidia1", *(f"nvidia-caps/nvidia-cap{number}" for number in wanted))
        ]


def capabilities(root: Path) -> dict[str, int]:
    text = (root / "proc/driver/nvidia-caps/mig-minors").read_text()
    return {name: int(number) for name, number in map(str.split, text.splitlines())}


async def test_devices_that_are_divided_joined_plugged_and_pulled_are_followed_without_a_restart() -> None:
    """Pains 12 and 13: NVIDIA's plugin sees none of it, and keeps resources that are gone."""
    async with agent_on(gpu(0), gpu(1), flags=("--mig-strategy=mixed",)) as agent:
        await agent.shows({GPU: {"GPU-0", "GPU-1"}})
        second = listening(agent.channels[GPU])
        assert {device.ID for device in (await anext(second)).devices} == {"GPU-0", "GPU-1"}
        agent.driver.divide(1, ONE, BIG)
        await agent.shows({GPU: {"GPU-0"}, SMALL: {"MIG-one"}, LARGE: {"MIG-big"}})
        async with asyncio.timeout(PATIENCE_S):
            while {device.ID for device in (await anext(second)).devices} != {"GPU-0"}:
                pass  # every open stream is told
        agent.driver.divide(1, ONE, TWO)
        await agent.shows({GPU: {"GPU-0"}, SMALL: {"MIG-one", "MIG-two"}})
        assert agent.last[LARGE] == {}, "a resource that is gone says so before it ends"
        agent.driver.divide(1, enabled=False)
        await agent.shows({GPU: {"GPU-0", "GPU-1"}})
        assert agent.last[SMALL] == {}
        agent.driver.plug(gpu(2))
        await agent.shows({GPU: {"GPU-0", "GPU-1", "GPU-2"}})
        agent.driver.pull(0)
        await agent.shows({GPU: {"GPU-1", "GPU-2"}})
        agent.driver.upgrade("575.51.03")
        agent.driver.plug(gpu(3))
        await agent.shows({GPU: {"GPU-1", "GPU-2", "GPU-3"}})
        assert agent.node.agent is not None
        assert agent.node.agent.returncode is None


async def test_a_whole_device_is_not_given_while_a_part_of_it_is_held() -> None:
    """Nor does a change of the strategy give out again what a container has."""
    async with agent_on(gpu(0), gpu(1, ONE), flags=("--mig-strategy=mixed",)) as agent:
        await agent.shows({GPU: {"GPU-0"}, SMALL: {"MIG-one"}})
        await agent.given(SMALL, "MIG-one")
        assert agent.node.agent is not None
        agent.node.agent.terminate()
        assert await agent.node.ends() == 0
        agent.channels.clear()
        await agent.node.start_agent("--driver-root-ctr-path", str(agent.node.root), devices="nvml")
        await agent.shows({GPU: {"GPU-0"}})
        assert agent.lists[GPU]["GPU-1"] == "Unhealthy"
