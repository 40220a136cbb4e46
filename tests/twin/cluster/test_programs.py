"""What the documents type with kubectl about GPUs in containers and on nodes answers, and ends (RUN-5)."""

from __future__ import annotations

import json

from support.fleet import Fleet

_GPU_POD = {
    "name": "cuda-test",
    "image": "nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda12.5.0",
    "resources": {"limits": {"nvidia.com/gpu": "1"}},
}


async def run_to_its_end(fleet: Fleet, name: str, *words: str) -> str:
    await fleet.kubectl("run", name, "--restart=Never", *words)
    await fleet.until_phase(name, "Succeeded")
    return await fleet.kubectl("logs", name)


async def test_a_container_with_a_gpu_and_a_node_are_looked_at(fleet: Fleet) -> None:
    overrides = f"--overrides={json.dumps({'spec': {'containers': [_GPU_POD]}})}"
    image = f"--image={_GPU_POD['image']}"
    # The overrides' container has no command, so the words after -- are not used: the sample runs.
    assert "Test PASSED" in await run_to_its_end(fleet, "cuda-test", image, overrides, "--", "./vectoradd")

    await fleet.kubectl("debug", "node/t4-0", "--image=ubuntu", "--profile=general", "--", "lspci")
    await fleet.kubectl(
        *("debug", "node/t4-0", "--image=ubuntu", "--profile=general", "--"),
        *("chroot", "/host", "nvidia-smi", "topo", "-m"),
    )

    async def outputs() -> list[str]:
        names = await fleet.kubectl("get", "pods", "-o", "name", "--field-selector=status.phase=Succeeded")
        return [await fleet.kubectl("logs", name) for name in names.split() if "debugger" in name]

    async def both() -> bool:
        return len(await outputs()) == 2

    await fleet.until(both)
    said = "".join(await outputs())
    assert said.count("3D controller: NVIDIA Corporation [Tesla T4]") == 2
    assert "\nGPU1\tNODE\t X \tN/A\t0\t" in said
