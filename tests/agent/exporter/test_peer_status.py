"""Which GPUs NVLink joins: the page over the pretended driver, against rows in dcgm-exporter's words.

dcgm-exporter d5e5f51 has a row for each GPU and each other one: its labels, `link_status` and `peer_gpu`
among those that are sorted, NVML's number as the value.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from support.agent_context import context_of
from support.driver_root import Driver
from support.nvml.bindings import fresh_bindings
from support.nvml.state import DriverState, FakeGpu, FakeMig, linked
from tonnage.adapters.checkpoints import FolderCheckpoints
from tonnage.adapters.clock import SystemClock
from tonnage.adapters.config_file import MountedConfigFile
from tonnage.adapters.vendors.nvml import NvmlBackend
from tonnage.agent.board import NodeBoard
from tonnage.agent.exporter.collectors import Collectors
from tonnage.agent.exporter.page import ExporterPage
from tonnage.agent.exporter.pod_usage import UsageMeter
from tonnage.agent.exporter.sampling import DeviceSampler
from tonnage.agent.exporter.settings import ExporterSettings
from tonnage.decide.node.device_holds import DeviceHolds
from tonnage.model.devices.sharing import Hold

FAMILY = "DCGM_EXP_P2P_STATUS"
CSV = f"{FAMILY}, counter, P2P NvLink status\nDCGM_FI_DRIVER_VERSION, label, Driver Version\n"


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    """NVLinks from GPU 0 to 1 and 2, of which that to 2 has no peer access."""
    gpus = tuple(FakeGpu(slot, "A100-80", uuid=f"GPU-{slot}") for slot in range(3))
    links = linked({(0, 1): 2, (0, 2): 1})
    state = DriverState(gpus, links=links, no_peer_access=frozenset({(0, 2)}), calls_file=tmp_path / "calls")
    made = Driver(tmp_path / "driver", state)
    with fresh_bindings():
        yield made


class Node:
    """Sampler and page over the driver."""

    def __init__(self, folder: Path, driver: Driver, csv: str = CSV) -> None:
        (folder / "counters.csv").write_text(csv)
        clock, settings = SystemClock(), ExporterSettings(hostname="node-1")
        context = context_of("node-1", None, clock, FolderCheckpoints(folder))
        self.backend = NvmlBackend(clock, root=driver.root, driver_root=driver.root)
        self.board = NodeBoard.blank(clock)
        self.collectors = Collectors(context, MountedConfigFile(folder / "counters.csv"))
        self.sampler = DeviceSampler(context, self.backend, self.collectors.fields, settings)
        meter = UsageMeter(context, self.board, self.sampler, replicas=dict)
        self._page = ExporterPage(settings, self.board, clock, self.sampler, dict, meter)

    async def family(self) -> str:
        await self.collectors.look()
        self.board.inventory.publish(await self.backend.scan())
        await self.sampler.sample()
        lines = self._page.text(self.collectors.counters).splitlines(keepends=True)
        return "".join(line for line in lines if FAMILY in line)


@pytest.fixture
async def node(tmp_path: Path, driver: Driver) -> AsyncIterator[Node]:
    made = Node(tmp_path, driver)
    yield made
    await made.backend.close()


PAGE = """\
# HELP DCGM_EXP_P2P_STATUS P2P NvLink status
# TYPE DCGM_EXP_P2P_STATUS counter
DCGM_EXP_P2P_STATUS{gpu="0",UUID="GPU-0",pci_bus_id="00000000:01:00.0",device="nvidia0",\
modelName="NVIDIA A100-SXM4-80GB",Hostname="node-1",DCGM_FI_DRIVER_VERSION="570.124.06",\
link_status="OK",peer_gpu="1",container="main",namespace="ml",pod="train"} 0
DCGM_EXP_P2P_STATUS{gpu="0",UUID="GPU-0",pci_bus_id="00000000:01:00.0",device="nvidia0",\
modelName="NVIDIA A100-SXM4-80GB",Hostname="node-1",DCGM_FI_DRIVER_VERSION="570.124.06",\
link_status="NotSupported",peer_gpu="2",container="main",namespace="ml",pod="train"} 5
DCGM_EXP_P2P_STATUS{gpu="1",UUID="GPU-1",pci_bus_id="00000000:02:00.0",device="nvidia1",\
modelName="NVIDIA A100-SXM4-80GB",Hostname="node-1",DCGM_FI_DRIVER_VERSION="570.124.06",\
link_status="OK",peer_gpu="0"} 0
DCGM_EXP_P2P_STATUS{gpu="1",UUID="GPU-1",pci_bus_id="00000000:02:00.0",device="nvidia1",\
modelName="NVIDIA A100-SXM4-80GB",Hostname="node-1",DCGM_FI_DRIVER_VERSION="570.124.06",\
link_status="NotSupported",peer_gpu="2"} 5
DCGM_EXP_P2P_STATUS{gpu="2",UUID="GPU-2",pci_bus_id="00000000:03:00.0",device="nvidia2",\
modelName="NVIDIA A100-SXM4-80GB",Hostname="node-1",DCGM_FI_DRIVER_VERSION="570.124.06",\
link_status="OK",peer_gpu="0"} 0
DCGM_EXP_P2P_STATUS{gpu="2",UUID="GPU-2",pci_bus_id="00000000:03:00.0",device="nvidia2",\
modelName="NVIDIA A100-SXM4-80GB",Hostname="node-1",DCGM_FI_DRIVER_VERSION="570.124.06",\
link_status="NotSupported",peer_gpu="1"} 5
"""


async def test_each_pair_has_a_row_each_way_with_nvmls_number(node: Node) -> None:
    node.board.holds.publish(DeviceHolds.of([Hold("nvidia.com/gpu", ("GPU-0",), "ml", "train", "main")]))
    assert await node.family() == PAGE


async def test_a_gpu_that_is_lost_is_in_no_pair(node: Node, driver: Driver) -> None:
    await node.family()
    driver.lose(1)
    family = await node.family()
    pairs = [line for line in family.splitlines() if not line.startswith("#")]
    assert [('peer_gpu="1"' in pair, 'peer_gpu="2"' in pair) for pair in pairs if 'gpu="0",U' in pair] == [
        (False, True)
    ]


async def test_a_divided_gpu_has_the_rows_of_the_whole_one(node: Node, driver: Driver) -> None:
    divided = FakeGpu(1, "A100-80", uuid="GPU-1", mig_enabled=True, migs=(FakeMig("3g", 0, gi=1),))
    driver.become(replace(driver.state.without(1).with_gpu(divided)))
    family = await node.family()
    assert ('gpu="1",UUID="GPU-1"' in family, "GPU_I_ID" in family) == (True, False)


async def test_a_page_that_does_not_ask_for_it_asks_the_driver_nothing(
    tmp_path: Path, driver: Driver
) -> None:
    node = Node(tmp_path, driver)
    await node.family()
    assert driver.calls()["nvmlDeviceGetP2PStatus"] == 3 * 2
    (tmp_path / "calls").unlink()
    await node.backend.close()
    node = Node(tmp_path, driver, "DCGM_FI_DEV_GPU_TEMP, gauge, x\n")
    assert await node.family() == ""
    assert "nvmlDeviceGetP2PStatus" not in driver.calls()
    await node.backend.close()
