"""nvidia-smi in pretended containers shows what was injected (RUN-2, SHR-2)."""

from __future__ import annotations

import asyncio

import pytest

from support.program_node import HARDWARE, TWO, Node
from tonnage.twin.devices.scenario import ScenarioBackend
from tonnage.twin.kubelet.containers.runtime_port import (
    ExecError,
)


async def test_without_injected_devices_there_is_no_nvidia_smi(node: Node) -> None:
    """RUN-2."""
    with pytest.raises(ExecError, match="executable file not found"):
        await node.run("nvidia-smi")
    assert (await node.run("bash", "-c", "nvidia-smi"))[0] == 127


async def test_the_documents_query_shows_the_injected_devices_only(node: Node) -> None:
    """SHR-2, task 3."""
    asked = ("nvidia-smi", "--query-gpu=gpu_name,gpu_uuid,memory.total", "--format=csv,noheader")
    assert await node.run(*asked, visible=TWO) == (
        0,
        "NVIDIA A100-SXM4-40GB, GPU-6a1f, 40960 MiB\nTesla T4, GPU-77c2, 15360 MiB\n",
        "",
    )


async def test_a_query_with_header_and_units(node: Node) -> None:
    asked = ("nvidia-smi", "--query-gpu=utilization.gpu,utilization.memory,memory.used", "--format=csv")
    assert (await node.run(*asked, visible="GPU-6a1f"))[1] == (
        "utilization.gpu [%], utilization.memory [%], memory.used [MiB]\n40 %, 0 %, 1024 MiB\n"
    )


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param("index,count", "0, 2\n1, 2\n", id="index and count are the container's own"),
        pytest.param("memory.free", "39936\n15360\n", id="free memory"),
        pytest.param("temperature.gpu,driver_version", "51, 570.124.06\n35, 570.124.06\n", id="temperature"),
        pytest.param("mig.mode.current", "Disabled\n[N/A]\n", id="MIG mode, where the model has one"),
        pytest.param("compute_cap", "8.0\n7.5\n", id="compute capability"),
        pytest.param("timestamp", "2026/01/01 00:00:00.000\n2026/01/01 00:00:00.000\n", id="time"),
    ],
)
async def test_fields_without_units(node: Node, fields: str, expected: str) -> None:
    asked = ("nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits")
    assert (await node.run(*asked, visible=TWO))[:2] == (0, expected)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        pytest.param(
            ("--query-gpu=nme", "--format=csv"), 'Field "nme" is not a valid field to query.', id="field"
        ),
        pytest.param(("--query-gpu=name",), '"--format=" switch is missing', id="no format"),
        pytest.param(("--colour",), "Invalid combination of input arguments", id="no such option"),
    ],
)
async def test_wrong_arguments(node: Node, argv: tuple[str, ...], words: str) -> None:
    code, out, _ = await node.run("nvidia-smi", *argv, visible=TWO)
    assert code == 2
    assert words in out


async def test_the_list(node: Node) -> None:
    assert (await node.run("/usr/bin/nvidia-smi", "-L", visible="GPU-77c2"))[1] == (
        "GPU 0: Tesla T4 (UUID: GPU-77c2)\n"
    )


async def test_the_table_is_aligned(node: Node) -> None:
    code, out, _ = await node.run("nvidia-smi", visible=TWO)
    lines = out.splitlines()[1:]
    assert code == 0
    assert {len(line) for line in lines if line} == {91}
    assert "NVIDIA A100-SXM4-40GB" in out
    assert "1024MiB /  40960MiB" in out


async def test_a_changed_uuid_or_a_lost_device_is_seen_at_once(node: Node) -> None:
    hardware = node.root / "hardware.yaml"
    hardware.write_text(HARDWARE.replace("GPU-6a1f", "GPU-new"))
    lost = (
        "Unable to determine the device handle for GPU GPU-6a1f: GPU is lost.  Reboot the system to recover"
    )
    code, out, _ = await node.run("nvidia-smi", visible="GPU-6a1f")
    assert code == 15
    assert lost in out
    hardware.write_text(HARDWARE.replace("model: A100-40,", "model: A100-40, health: lost,"))
    assert lost in (await node.run("nvidia-smi", "-L", visible="GPU-6a1f"))[1]


async def test_without_a_driver_it_says_so(node: Node) -> None:
    (node.root / "hardware.yaml").unlink()
    code, out, _ = await node.run("nvidia-smi", visible=TWO)
    assert code == 9
    assert "couldn't communicate with the NVIDIA driver" in out


async def test_of_a_divided_gpu_a_container_sees_its_own_mig_devices(node: Node) -> None:
    """SCH-7."""
    divided = HARDWARE.replace("memoryUsedMib", "mig: [1g.5gb, 1g.5gb, 3g.20gb], memoryUsedMib")
    (node.root / "hardware.yaml").write_text(divided)
    async with asyncio.timeout(30):
        inventory = await ScenarioBackend(node.root / "hardware.yaml", node.clock).scan()
    mine = inventory.devices[0].migs[1].uuid
    assert await node.run("nvidia-smi", "-L", visible=mine) == (
        0,
        f"GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-6a1f)\n  MIG 1g.5gb          Device  0: (UUID: {mine})\n",
        "",
    )
    asked = ("nvidia-smi", "--query-gpu=mig.mode.current,utilization.gpu", "--format=csv,noheader")
    assert (await node.run(*asked, visible=mine))[1] == "Enabled, [N/A]\n"


# What the documents type (RUN-5)


async def test_the_matrix_of_links_names_the_containers_own_gpus(node: Node) -> None:
    links = "links: [{gpus: [0, 1], nvlinks: 12, path: PIX}, {gpus: [1, 2], path: SYS}]\n"
    (node.root / "hardware.yaml").write_text(HARDWARE.replace("GPU-0000,", "GPU-0000, numa: 1,") + links)
    lines = (await node.run("nvidia-smi", "topo", "-m", visible=TWO))[1].splitlines()
    assert lines[1].split("\t")[:3] == ["GPU0", " X ", "NV12"]
    lines = (await node.run("nvidia-smi", "topo", "-m", visible="GPU-77c2,GPU-0000"))[1].splitlines()
    assert lines[0].split("\t")[:4] == ["", "GPU0", "GPU1", "CPU Affinity"]
    assert lines[2].split("\t") == ["GPU1", "SYS", " X ", "N/A", "1", "", "N/A"]
    assert (await node.run("nvidia-smi", "topo", "-m", visible="none,GPU-gone"))[0] == 15


async def test_the_report_of_a_gpu(node: Node) -> None:
    code, out, _ = await node.run("nvidia-smi", "-q", visible="GPU-6a1f")
    assert code == 0
    assert "Attached GPUs                             : 1\nGPU 00000000:01:00.0\n" in out
    assert "    Product Name                          : NVIDIA A100-SXM4-40GB\n" in out
    assert "        Used                              : 1024 MiB\n" in out
    assert {line.index(" : ") for line in out.splitlines() if " : " in line} == {41}
