"""Kernel modules beside the driver's: GPUDirect Storage and GDRCopy, as a policy asks for them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from controller.driver_bench import DRIVERS, DriverBench
from tonnage.wire.kinds import CLUSTER_POLICY

STORAGE: dict[str, Any] = {
    "enabled": True,
    "repository": "registry.example.com/nvidia",
    "image": "nvidia-fs",
    "version": "2.29.4",
    "imagePullSecrets": ["of-storage"],
    "env": [{"name": "A", "value": "1"}],
}


async def pod_spec(bench: DriverBench) -> Any:
    [daemons] = await bench.sets()
    return daemons.spec.template["spec"]


async def modules(bench: DriverBench) -> dict[str, str]:
    """The images by the names of containers beside the driver's."""
    spec = await pod_spec(bench)
    return {container["name"]: container["image"] for container in spec["containers"][1:]}


async def test_they_are_built_beside_the_driver_where_the_policy_asks(bench: DriverBench) -> None:
    """Each from the image of the node's system, and the driver's ready file says so."""
    await bench.machine("a")
    await bench.drivers("595.91.07")
    bench.start(DRIVERS)
    await bench.clock.advance(10)
    assert await modules(bench) == {}
    both: Any = {"spec": {"gds": STORAGE, "gdrcopy": {"enabled": True}}}
    await bench.api.patch(CLUSTER_POLICY, "cluster-policy", both)
    await bench.clock.advance(300)
    assert await modules(bench) == {
        "nvidia-fs-ctr": "registry.example.com/nvidia/nvidia-fs:2.29.4-ubuntu22.04",
        "nvidia-gdrcopy-ctr": "nvcr.io/nvidia/cloud-native/gdrdrv:v2.6-ubuntu22.04",
    }
    spec = await pod_spec(bench)
    driver, storage = spec["containers"][:2]
    told = {variable["name"]: variable.get("value") for variable in driver["env"]}
    assert (told["GDS_ENABLED"], told["GDRCOPY_ENABLED"]) == ("true", "true")
    assert storage["env"] == STORAGE["env"]
    assert {"name": "of-storage"} in spec["imagePullSecrets"]
    assert await bench.running() == {"a": "nvcr.io/nvidia/driver:595.91.07-ubuntu22.04"}
    without = (await bench.condition("tonnage.dev/FieldsWithoutEffect"))["message"]
    assert "gds" not in without


async def test_beside_precompiled_drivers_none_is_built(bench: DriverBench) -> None:
    await bench.machine("a")
    await bench.drivers("595", usePrecompiled=True)
    await bench.api.patch(CLUSTER_POLICY, "cluster-policy", {"spec": {"gds": STORAGE}})
    bench.start(DRIVERS)
    await bench.clock.advance(10)
    assert await bench.sets() == []
    assert "spec.gds.enabled: NVIDIA builds this module" in (await bench.condition("Error"))["message"]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        pytest.param(
            {"repository": None, "image": None, "version": "2.30"},
            "spec.gds.image: :2.30 names no image; set image",
            id="no image",
        ),
        pytest.param(
            {"repository": "r.example.com", "image": "nvidia-fs", "version": ""},
            "spec.gds.version: the image r.example.com/nvidia-fs has neither a tag nor a digest; set version",
            id="no version",
        ),
    ],
)
async def test_an_image_that_no_node_could_pull_is_refused(
    bench: DriverBench, settings: dict[str, Any], problem: str
) -> None:
    await bench.machine("a")
    await bench.drivers("595.91.07")
    await bench.api.patch(CLUSTER_POLICY, "cluster-policy", {"spec": {"gds": {"enabled": True, **settings}}})
    bench.start(DRIVERS)
    await bench.clock.advance(10)
    assert await bench.sets() == []
    assert problem in (await bench.condition("Error"))["message"]


async def test_an_nvidia_driver_has_sections_of_its_own_and_its_arguments_follow(bench: DriverBench) -> None:
    await bench.machine("a")
    await bench.drivers("1", useNvidiaDriverCRD=True)
    await bench.api.patch(CLUSTER_POLICY, "cluster-policy", {"spec": {"gdrcopy": {"enabled": True}}})
    image: Any = {"image": "driver", "version": "595.91.07", "repository": "r.example.com"}
    await bench.driver("mine", **image, gds=STORAGE, args=["--verbose"])
    bench.start(DRIVERS)
    await bench.clock.advance(10)
    assert list(await modules(bench)) == ["nvidia-fs-ctr"]
    assert (await pod_spec(bench))["containers"][0]["args"] == ["init", "--verbose"]


def looks(words: str, root: Path) -> bool:
    """Whether a probe's command succeeds on a node whose folders lie below another."""
    command = words.replace("/run", f"{root}/run").replace("/sys", f"{root}/sys")
    environment = {"PATH": f"{root}/bin:{os.environ['PATH']}"}
    return subprocess.run(["sh", "-c", command], env=environment, check=False, timeout=60).returncode == 0


def load_modules(root: Path) -> None:
    for module in ("nvidia_fs", "gdrdrv"):
        (root / "sys/module" / module).mkdir(parents=True)
    (root / "bin").mkdir()
    (root / "bin/nvidia-driver").write_text("#!/bin/sh\ntest $1 = probe_nvidia_peermem\n")
    (root / "bin/nvidia-driver").chmod(0o755)


async def test_each_keeps_the_status_file_of_nvidia_s_validator(bench: DriverBench, tmp_path: Path) -> None:
    """The probes are run: they write once the module is there."""
    await bench.machine("a")
    await bench.drivers("595.91.07", rdma={"enabled": True})
    both: Any = {"spec": {"gds": STORAGE, "gdrcopy": {"enabled": True}}}
    await bench.api.patch(CLUSTER_POLICY, "cluster-policy", both)
    bench.start(DRIVERS)
    await bench.clock.advance(10)
    containers = (await pod_spec(bench))["containers"][1:]
    probes = [container["startupProbe"]["exec"]["command"] for container in containers]
    assert probes == [container["livenessProbe"]["exec"]["command"] for container in containers]
    assert [looks(words, tmp_path) for _, _, words in probes] == [False] * 3
    assert not (tmp_path / "run").exists()
    load_modules(tmp_path)
    assert [looks(words, tmp_path) for _, _, words in probes] == [True] * 3
    files = {str(file).removeprefix(str(tmp_path)) for file in (tmp_path / "run").rglob("*-ready")}
    ready = ("nvidia-peermem-ready", "nvidia-fs-ready", "gdrcopy-ready")
    assert files == {f"/run/nvidia/validations/{name}" for name in ready}
    assert files == {container["lifecycle"]["preStop"]["exec"]["command"][-1] for container in containers}
