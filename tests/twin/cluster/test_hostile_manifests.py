"""Manifests that try to reach the machine on which the twin runs, each against a twin that runs."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support.fleet import Fleet, running_fleet
from tonnage.model.json import JsonObject
from tonnage.twin.platform import agent_daemon_set
from tonnage.wire.kinds import CONFIG_MAP, DAEMON_SET, NODE

SCENARIO = """
name: attacked
groups:
- {name: a100, nodes: 1, gpu: {model: A100-40, count: 1}}
configs: {default: {version: v1, flags: {migStrategy: mixed}}}
"""
PARTED = (
    "version: v1\nmig-configs: {halves: [{devices: all, mig-enabled: true, mig-devices: {3g.20gb: 2}}]}\n"
)
CLIENTS = "version: v1\nsystemd-services: [dbus.service]\n"
SYSTEM = "tonnage-system"


@pytest.fixture
async def fleet(caplog: pytest.LogCaptureFixture) -> AsyncIterator[Fleet]:
    caplog.set_level(logging.INFO, "tonnage")
    async with running_fleet(SCENARIO) as fleet:
        await fleet.until(lambda: _advertises(fleet))
        yield fleet


async def _advertises(fleet: Fleet) -> bool:
    nodes = (await fleet.api.list(NODE)).items
    return len(nodes) == 1 and await fleet.allocatable(node="a100-0") == 1


async def agents(fleet: Fleet, *args: str, **variables: str) -> None:
    """Tell the agents something else than the twin did."""
    daemon_set: Any = agent_daemon_set(fleet.kubeconfig)
    (container,) = daemon_set["spec"]["template"]["spec"]["containers"]
    container["args"] += args
    container["env"] = [one for one in container["env"] if one["name"] not in variables]
    container["env"] += [{"name": name, "value": value} for name, value in variables.items()]
    await fleet.api.patch(DAEMON_SET, "tonnage-agent", daemon_set, namespace=SYSTEM)


async def log_with(fleet: Fleet, *words: str) -> str:
    """The log of an agent's container, once all of that is in it."""
    runtime, log = fleet.cluster.nodes["a100-0"].runtime, ""

    async def told() -> bool:
        nonlocal log
        for pod in runtime.pods():
            for container in runtime.containers(pod):
                log = b"".join(line.text for line in container.log.since(0)).decode()
                if all(word in log for word in words):
                    return True
        return False

    await fleet.until(told)
    return log


async def test_hooks_of_a_config_map_are_told_of_and_not_run(fleet: Fleet, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    hook = {"command": "/bin/sh", "args": ["-c", f"touch {mark}"]}
    data = {
        "config.yaml": PARTED,
        "hooks.yaml": json.dumps({"version": "v1", "hooks": {"apply-start": [hook], "apply-exit": [hook]}}),
        "clients.yaml": CLIENTS,
    }
    body: JsonObject = {"metadata": {"name": "default-mig-parted-config"}, "data": {**data}}
    await fleet.api.create(CONFIG_MAP, body, namespace=SYSTEM)
    await agents(fleet, "--mig-host-root=/", "--mig-reboot", "--mig-evict")
    await fleet.api.patch(NODE, "a100-0", {"metadata": {"labels": {"nvidia.com/mig.config": "halves"}}})
    log = await log_with(
        fleet,
        f"/bin/sh -c 'touch {mark}'",
        "command=systemctl stop -- dbus.service",
        "command=systemctl start -- dbus.service",
    )
    assert "would run on the host" in log
    assert not mark.exists()


async def test_an_agent_is_told_of_no_other_kubeconfig(fleet: Fleet, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": f"touch {mark}"}}
    other = tmp_path / "config"
    other.write_text(json.dumps({"users": [{"name": "me", "user": user}]}))
    await agents(fleet, KUBECONFIG=str(other))
    await log_with(fleet, "error: KUBECONFIG cannot be")
    assert not mark.exists()


def _names(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir()]


async def test_devices_are_read_below_the_nodes_folder(fleet: Fleet, tmp_path: Path) -> None:
    secret = tmp_path / "secret.yaml"
    secret.write_text("password: hunter2\n")
    await agents(fleet, f"--devices=scenario:/../../../../../..{secret}")
    log = await log_with(fleet, str(fleet.cluster.nodes["a100-0"].root))
    assert "hunter2" not in log
    assert _names(tmp_path) == ["secret.yaml"]


async def test_labels_go_to_the_log_and_not_to_the_terminal(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    await agents(fleet, "--labels=nfd-file", "--output-file=")
    await log_with(fleet, "nvidia.com/gpu.product=")
    assert "nvidia.com" not in capsys.readouterr().out
