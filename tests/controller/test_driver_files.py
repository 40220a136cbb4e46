"""Files of driver containers out of ConfigMaps and Secrets, and what happens where one is gone."""

from __future__ import annotations

from typing import Any

import pytest

from controller.driver_bench import DRIVERS, DriverBench
from tonnage.wire.kinds import CONFIG_MAP, POD

IMAGE = "nvcr.io/nvidia/driver:%s-ubuntu22.04"


async def files(bench: DriverBench, name: str) -> dict[str, str]:
    """What stands at which path of the driver's container: the ConfigMap or Secret and its key."""
    [daemons] = [daemons for daemons in await bench.sets() if daemons.metadata.name == name]
    spec: Any = daemons.spec.template["spec"]
    sources: dict[str, tuple[str, set[str]]] = {}
    for volume in spec["volumes"]:
        source = volume.get("configMap") or volume.get("secret")
        if source:
            paths = {item["key"]: item["path"] for item in source["items"]}
            assert all(key == path for key, path in paths.items())
            sources[volume["name"]] = source.get("name") or source["secretName"], set(paths)
    placed = {}
    for mount in spec["containers"][0]["volumeMounts"]:
        if mount["name"] in sources:
            of, keys = sources[mount["name"]]
            assert mount["subPath"] in keys
            assert mount["readOnly"]
            placed[mount["mountPath"]] = f"{of}/{mount['subPath']}"
    return placed


SECTIONS: dict[str, Any] = {
    "repoConfig": {"configMapName": "repos"},
    "certConfig": {"name": "authorities"},
    "kernelModuleConfig": {"name": "modules"},
    "virtualTopology": {"config": "topology"},
    "licensingConfig": {"secretName": "licence", "nlsEnabled": True},
}
EVERYWHERE = {
    "/drivers/nvidia.conf": "modules/nvidia.conf",
    "/drivers/gridd.conf": "licence/gridd.conf",
    "/drivers/ClientConfigToken/client_configuration_token.tok": "licence/client_configuration_token.tok",
    "/etc/nvidia/nvidia-topologyd.conf": "topology/nvidia-topologyd.conf",
}


async def driver_pods(bench: DriverBench) -> list[str]:
    """Their uids."""
    selector = "app=nvidia-driver-daemonset"
    pods = await bench.api.list(POD, namespace="gpu-operator", label_selector=selector)
    return [pod.metadata.uid for pod in pods.items]


async def change(bench: DriverBench, name: str, key: str, text: str) -> None:
    """Another text of a ConfigMap's key."""
    await bench.api.patch(CONFIG_MAP, name, {"data": {key: text}}, namespace="gpu-operator")


async def config_maps(bench: DriverBench) -> None:
    await bench.configs("repos", **{"b.list": "deb b", "a.list": "deb a"})
    await bench.configs("authorities", **{"ca.pem": "one"})
    await bench.configs("modules", **{"nvidia.conf": "NVreg_EnableGpuFirmware=0"})


@pytest.mark.parametrize(
    ("system", "version", "repositories", "authorities"),
    [
        ("ubuntu", "22.04", "/etc/apt/sources.list.d", "/usr/local/share/ca-certificates"),
        ("rhel", "9.4", "/etc/yum.repos.d", "/etc/pki/ca-trust/extracted/pem"),
        ("sl-micro", "6.0", "/etc/zypp/repos.d", "/etc/pki/trust/anchors"),
    ],
)
async def test_every_key_is_a_file_where_the_system_looks(
    bench: DriverBench, system: str, version: str, repositories: str, authorities: str
) -> None:
    await config_maps(bench)
    await bench.machine("a", system=system, version=version)
    await bench.drivers("595.91.07", **SECTIONS)
    bench.start(DRIVERS)
    await bench.clock.advance(10)
    tag = f"{system}{'9' if system == 'rhel' else version}"
    assert await files(bench, f"nvidia-driver-daemonset-{tag}") == {
        **EVERYWHERE,
        f"{repositories}/a.list": "repos/a.list",
        f"{repositories}/b.list": "repos/b.list",
        f"{authorities}/ca.pem": "authorities/ca.pem",
    }


async def test_precompiled_drivers_download_nothing(bench: DriverBench) -> None:
    await config_maps(bench)
    await bench.machine("a")
    await bench.drivers("595", usePrecompiled=True, **SECTIONS)
    bench.start(DRIVERS)
    await bench.clock.advance(10)
    [daemons] = await bench.sets()
    assert await files(bench, daemons.metadata.name) == EVERYWHERE


async def test_an_nvidia_driver_names_them_otherwise(bench: DriverBench) -> None:
    await config_maps(bench)
    await bench.machine("a")
    await bench.drivers("1", useNvidiaDriverCRD=True)
    sections: Any = {
        "repoConfig": {"name": "repos"},
        "virtualTopologyConfig": {"name": "topology"},
        "licensingConfig": {"name": "licence"},
    }
    await bench.driver("mine", image="driver", version="595.91.07", repository="r.example.com", **sections)
    bench.start(DRIVERS)
    await bench.clock.advance(10)
    [daemons] = await bench.sets()
    assert await files(bench, daemons.metadata.name) == {
        "/etc/apt/sources.list.d/a.list": "repos/a.list",
        "/etc/apt/sources.list.d/b.list": "repos/b.list",
        "/drivers/gridd.conf": "licence/gridd.conf",
        "/drivers/ClientConfigToken/client_configuration_token.tok": "licence/client_configuration_token.tok",
        "/etc/nvidia/nvidia-topologyd.conf": "topology/nvidia-topologyd.conf",
    }


async def test_a_config_map_that_is_gone_leaves_drivers_as_they_are(bench: DriverBench) -> None:
    await bench.machine("a")
    await bench.drivers("595.71.05")
    bench.start(DRIVERS)
    await bench.clock.advance(10)
    assert await bench.running() == {"a": IMAGE % "595.71.05"}
    await bench.drivers("595.91.07", repoConfig={"configMapName": "repos"})
    await bench.clock.advance(30)
    assert await bench.running() == {"a": IMAGE % "595.71.05"}
    message = (await bench.condition("Error"))["message"]
    assert (
        "spec.driver.repoConfig.configMapName: the ConfigMap repos in gpu-operator does not exist;"
        " make it, or leave the section out; drivers stay as they are"
    ) in message
    await bench.configs("repos", **{"a.list": "deb a"})
    await bench.clock.advance(300)
    assert await bench.running() == {"a": IMAGE % "595.91.07"}
    await bench.api.delete(CONFIG_MAP, "repos", namespace="gpu-operator")
    await bench.clock.advance(30)
    assert await bench.running() == {"a": IMAGE % "595.91.07"}
    assert "the ConfigMap repos in gpu-operator does not exist" in (await bench.condition("Error"))["message"]


async def test_another_parameter_of_the_module_is_an_upgrade_and_another_authority_is_none(
    bench: DriverBench,
) -> None:
    await config_maps(bench)
    await bench.machine("a")
    await bench.drivers("595.91.07", **SECTIONS)
    bench.start(DRIVERS)
    await bench.clock.advance(10)
    before = await driver_pods(bench)
    await change(bench, "authorities", "ca.pem", "two")
    await bench.clock.advance(300)
    assert await driver_pods(bench) == before
    await change(bench, "modules", "nvidia.conf", "NVreg_EnableGpuFirmware=1")
    await bench.clock.advance(300)
    assert len(after := await driver_pods(bench)) == 1
    assert after != before


async def test_a_system_whose_folders_nobody_knows_gets_no_container(bench: DriverBench) -> None:
    await config_maps(bench)
    await bench.machine("a", system="amzn", version="2023")
    await bench.drivers("595.91.07", repoConfig={"configMapName": "repos"})
    bench.start(DRIVERS)
    await bench.clock.advance(10)
    assert await bench.sets() == []
    message = (await bench.condition("tonnage.dev/DriverPreflight"))["message"]
    assert "a: where amzn2023 looks for the files of driver.repoConfig is not known" in message
