"""Other programs that look at devices, or use them, in pretended containers (RUN-2, RUN-4)."""

from __future__ import annotations

import asyncio

import pytest

from support.program_node import HARDWARE, Node
from tonnage.adapters.cdi.driver_files import find_driver_files
from tonnage.twin.devices.driver_files import install_driver
from tonnage.twin.devices.scenario import ScenarioBackend


async def test_device_nodes_show_what_was_injected(node: Node) -> None:
    """RUN-4."""
    assert "nvidia" not in (await node.run("ls", "/dev"))[1]
    out = (await node.run("bash", "-c", "ls /dev | grep nvidia", visible="GPU-77c2"))[1]
    assert out.split() == ["nvidia-uvm", "nvidia-uvm-tools", "nvidia1", "nvidiactl"]
    assert (await node.run("ls", "/dev/nvidia1", visible="GPU-77c2"))[1] == "/dev/nvidia1\n"


async def test_files_that_were_mounted_with_a_device_are_there(node: Node) -> None:
    """RUN-4."""
    install_driver(node.root, "570.1")
    install_driver(node.root / "none", "../../x")
    files = find_driver_files(node.root, node.root, "570.1")
    mounts = tuple(path for file in files.libraries for path in (file.path, *file.names))
    folder = "/usr/lib/x86_64-linux-gnu"
    assert (await node.run("ls", folder, mounts=mounts))[1].split() == [
        *("libcuda.so", "libcuda.so.1", "libcuda.so.570.1"),
        *("libnvidia-ml.so.1", "libnvidia-ml.so.570.1"),
    ]
    assert (await node.run("ls", f"{folder}/libcuda.so.1", mounts=mounts))[1] == f"{folder}/libcuda.so.1\n"
    assert (await node.run("ls", "/usr", mounts=mounts))[1] == "lib\n"
    assert (await node.run("ls", "/opt/nothing", mounts=mounts))[0] == 2
    assert not (node.root / "none").exists()


async def test_the_vector_sample_needs_a_device(node: Node) -> None:
    image = "nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda12.5.0"
    container = node.start(visible="GPU-6a1f", image=image)
    async with asyncio.timeout(20):
        await container.exited.wait()
    assert container.exit_code == 0
    assert container.log.since(0)[-2].text == b"Test PASSED\n"
    code, log = await node.main(image=image)
    assert code == 1
    assert "no CUDA-capable device is detected" in log


async def test_the_documents_look_around_in_a_container_ends(node: Node) -> None:
    install_driver(node.root, "570.124.06")
    script = (
        '\n  echo "=== nvidia-smi ==="\n  nvidia-smi\n  echo ""\n'
        '  echo "=== NVIDIA device nodes ==="\n  ls -la /dev/nvidia*\n  echo ""\n'
        '  echo "=== CUDA_VISIBLE_DEVICES ==="\n  echo $CUDA_VISIBLE_DEVICES\n  echo ""\n'
        '  echo "=== NVIDIA libraries mounted ==="\n  ldconfig -p | grep nvidia | head -15\n'
    )
    container = node.start("bash", "-c", script, visible="GPU-77c2")
    async with asyncio.timeout(20):
        await container.exited.wait()
    log = b"".join(line.text for line in container.log.since(0)).decode()
    assert container.exit_code == 0
    assert "crw-rw-rw- 1 root root 195,   1 Jan  1 00:00 /dev/nvidia1\n" in log
    assert "crw-rw-rw- 1 root root 195, 255 Jan  1 00:00 /dev/nvidiactl\n" in log
    assert log.endswith("\tlibnvidia-ml.so.1 (libc6,x86-64) => /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1\n")


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        pytest.param(("ldconfig", "-p"), "libc.so.6 (libc6,x86-64)", id="the image's own libraries"),
        pytest.param(("lspci",), "02:00.0 3D controller: NVIDIA Corporation [Tesla T4] (rev a1)", id="lspci"),
        pytest.param(("lspci", "-nn"), "[A100-SXM4-40GB] [10de:20b0]", id="lspci with numbers"),
    ],
)
async def test_what_every_container_sees_of_the_machine(
    node: Node, argv: tuple[str, ...], words: str
) -> None:
    code, out, _ = await node.run(*argv)
    assert code == 0
    assert words in out
    assert "libnvidia" not in out


async def test_a_lost_gpu_reads_as_ones_on_the_bus(node: Node) -> None:
    (node.root / "hardware.yaml").write_text(
        HARDWARE.replace("model: A100-40,", "model: A100-40, health: lost,")
    )
    assert "[A100-SXM4-40GB] (rev ff)" in (await node.run("lspci"))[1]


async def test_the_bodies_of_the_benchmark_job_come_to_an_end(node: Node) -> None:
    arguments = ("-benchmark", "-numbodies=1024000", "-iterations=50")
    container = node.start("nbody", *arguments, visible="GPU-77c2")
    await node.clock.advance(6)
    log = b"".join(line.text for line in container.log.since(0)).decode()
    assert container.exit_code == 0
    assert "1024000 bodies, total time for 50 iterations: 5000.000 ms\n" in log
    code, log = await node.main("nbody", *arguments)
    assert (code, "no CUDA-capable device" in log) == (1, True)


@pytest.mark.parametrize("path", ["./vectoradd", "/cuda-samples/vectorAdd", "vectoradd"])
async def test_the_vector_sample_is_run_from_its_folder(node: Node, path: str) -> None:
    assert "Test PASSED\n" in (await node.run(path, visible="GPU-77c2"))[1]


async def test_of_a_divided_gpu_cuda_offers_one_mig_device(node: Node) -> None:
    divided = HARDWARE.replace("memoryUsedMib", "mig: [1g.5gb, 3g.20gb], memoryUsedMib")
    (node.root / "hardware.yaml").write_text(divided)
    inventory = await ScenarioBackend(node.root / "hardware.yaml", node.clock).scan()
    part = inventory.devices[0].migs[0]
    code, out, _ = await node.run("deviceQuery", visible=part.uuid)
    assert code == 0
    assert 'Device 0: "NVIDIA A100-SXM4-40GB MIG 1g.5gb"\n' in out
    assert f" {part.memory_mib} MBytes (" in out
    code, out, _ = await node.run("deviceQuery")
    assert (code, out.splitlines()[-1]) == (1, "Result = FAIL")


async def test_only_the_nodes_root_can_be_entered(node: Node) -> None:
    code, _, error = await node.run("chroot", "/host", "nvidia-smi", "-L")
    assert code == 125
    assert "not the node's root" in error
