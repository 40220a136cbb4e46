"""Sharing through MPS: a process of the agent, NVML's own bindings, control daemons, a kubelet's side."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import grpc
import grpc.aio
import pytest

from contract.sharing.test_agent_mig import Agent, listening
from support.driver_root import Driver
from support.looking import runs, until
from support.nvml.changes import compute_modes
from support.nvml.state import DriverState, FakeGpu
from support.plugin_node import PATIENCE_S, plugin_node
from tonnage.adapters.mps.files import end_left
from tonnage.twin.mps_control import MpsProgram

pytestmark = pytest.mark.long

GPU, SHARED = "nvidia.com/gpu", "nvidia.com/gpu.shared"
PIPE = "run/nvidia/mps/nvidia.com/gpu.shared/pipe"
EXCLUSIVE = 3


class MpsAgent(Agent):
    """An agent on two GPUs of a driver, of which the first is shared."""

    @property
    def program(self) -> MpsProgram:
        return MpsProgram(self.node.root)

    @property
    def daemon(self) -> int:
        """The process id of the daemon."""
        return int((self.node.root / PIPE / "nvidia-cuda-mps-control.pid").read_text())

    @property
    def modes(self) -> list[int]:
        return compute_modes(self.driver.file, 2)

    async def has_modes(self, modes: list[int]) -> None:
        """Return once the GPUs have these compute modes."""
        await until(lambda: self.modes == modes)

    def configure(self, **mps: object) -> None:
        """The first GPU is shared like this; without a word none is."""
        entry = {"name": "gpu", "replicas": 4, "devices": ["0"], **mps}
        document: dict[str, object] = {"version": "v1"}
        if mps:
            document |= {"sharing": {"mps": {"renameByDefault": True, "resources": [entry]}}}
        new = self.node.root / ".config.yaml"
        new.write_text(json.dumps(document))
        new.replace(self.node.root / "config.yaml")

    async def start(self) -> None:
        root = str(self.node.root)
        flags = (
            "--driver-root-ctr-path",
            root,
            "--config",
            f"{root}/config.yaml",
            "--mps-root=/run/nvidia/mps",
        )
        await self.node.start_agent(*flags, devices="nvml")

    async def refused(self, resource: str, *ids: str) -> str:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await self.given(resource, *ids)
        return caught.value.details() or ""


@asynccontextmanager
async def mps_agent(fault: str = "", **mps: object) -> AsyncIterator[MpsAgent]:
    async with plugin_node() as node:
        gpus = (FakeGpu(0, "T4", uuid="GPU-0"), FakeGpu(1, "T4", uuid="GPU-1"))
        agent = MpsAgent(node, Driver(node.root, DriverState(gpus)))
        agent.program.install()
        agent.program.fault(fault)
        agent.configure(**mps or {"replicas": 4})
        await node.start_kubelet()
        following = asyncio.create_task(agent.follow())
        try:
            await agent.start()
            yield agent
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            for channel in agent.channels.values():
                await channel.close()
            await node.close()
            end_left(node.root / PIPE)


SERVING: Mapping[str, set[str]] = {GPU: {"GPU-1"}, SHARED: {f"GPU-0::{n}" for n in range(4)}}
WITHOUT: Mapping[str, set[str]] = {GPU: {"GPU-1"}, SHARED: set()}
WHOLE: Mapping[str, set[str]] = {GPU: {"GPU-0", "GPU-1"}}


async def test_shr_4_a_client_gets_the_pipe_of_its_resources_daemon() -> None:
    async with mps_agent() as agent:
        await agent.shows(SERVING)
        answer = await agent.given(SHARED, "GPU-0::1")
        assert dict(answer.envs) == {
            "NVIDIA_VISIBLE_DEVICES": "GPU-0",
            "CUDA_MPS_PIPE_DIRECTORY": f"/mps/{SHARED}/pipe",
        }
        assert [(mount.host_path, mount.container_path, mount.read_only) for mount in answer.mounts] == [
            (f"/run/nvidia/mps/{SHARED}/pipe", f"/mps/{SHARED}/pipe", False),
            ("/run/nvidia/mps/shm", "/dev/shm", False),
        ]
        exclusive = await agent.given(GPU, "GPU-1")
        assert dict(exclusive.envs) == {"NVIDIA_VISIBLE_DEVICES": "GPU-1"}
        assert not exclusive.mounts
        assert agent.modes == [EXCLUSIVE, 0]
        assert "maximum request size for shared resources is 1; found 2" in await agent.refused(
            SHARED, "GPU-0::2", "GPU-0::3"
        )


async def test_a_daemon_that_dies_is_told_on_every_stream_and_comes_back() -> None:
    async with mps_agent() as agent:
        await agent.shows(SERVING)
        second = listening(agent.channels[SHARED])
        assert {device.health for device in (await anext(second)).devices} == {"Healthy"}
        agent.program.fault("refuse")
        os.kill(agent.daemon, signal.SIGKILL)
        async with asyncio.timeout(PATIENCE_S):
            assert {device.health for device in (await anext(second)).devices} == {"Unhealthy"}
        await agent.shows(WITHOUT)
        why = await agent.refused(SHARED, "GPU-0::1")
        assert "device GPU-0::1 is unhealthy (the MPS control daemon does not serve: " in why
        agent.program.fault()
        async with asyncio.timeout(PATIENCE_S):
            assert {device.health for device in (await anext(second)).devices} == {"Healthy"}
        await agent.shows(SERVING)
        await agent.given(SHARED, "GPU-0::1")


async def test_a_program_that_hangs_delays_nobody_else() -> None:
    async with mps_agent() as agent:
        agent.program.fault("hang")
        await agent.shows(WITHOUT)
        await agent.given(GPU, "GPU-1")
        assert "the MPS control daemon" in await agent.refused(SHARED, "GPU-0::0")
        agent.program.fault()
        await agent.shows(SERVING)


async def test_an_agent_that_ends_in_order_gives_the_gpu_back() -> None:
    async with mps_agent() as agent:
        await agent.shows(SERVING)
        daemon = agent.daemon
        assert agent.node.agent is not None
        agent.node.agent.terminate()
        assert await agent.node.ends() == 0
        assert agent.modes == [0, 0]
        assert not runs(daemon)


async def test_an_agent_that_was_killed_is_cleaned_up_after_whatever_is_wanted_then() -> None:
    async with mps_agent() as agent:
        await agent.shows(SERVING)
        assert agent.node.agent is not None
        for wanted, modes in ((True, [EXCLUSIVE, 0]), (False, [0, 0])):
            agent.node.agent.kill()
            await agent.node.ends()
            await agent.shows({})  # its streams have ended
            assert agent.modes == [EXCLUSIVE, 0]
            agent.configure(**({"replicas": 4} if wanted else {}))
            await agent.start()
            await agent.shows(SERVING if wanted else WHOLE)
            await agent.has_modes(modes)


async def test_an_agent_that_is_killed_while_its_daemon_starts_leaves_no_gpu_exclusive() -> None:
    async with mps_agent(replicas=4, fault="deaf") as agent:
        await agent.has_modes([EXCLUSIVE, 0])
        assert agent.node.agent is not None
        agent.node.agent.kill()
        await agent.node.ends()
        agent.configure()
        agent.program.fault()
        await agent.start()
        await agent.shows(WHOLE)
        await agent.has_modes([0, 0])


async def test_shr_4_more_clients_than_a_server_has_are_refused_and_change_nothing() -> None:
    async with mps_agent() as agent:
        await agent.shows(SERVING)
        agent.configure(replicas=49)
        said = await agent.node.says("configuration refused")
        assert "invalid device maximum allowed replicas exceeded: 49 > 48" in " ".join(
            agent.node.log[agent.node.log.index(said) :]
        )
        await agent.given(SHARED, "GPU-0::0")
