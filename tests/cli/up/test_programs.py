"""The agent's container on the twin takes the flags of the real one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import click
import pytest

from tonnage.adapters.clock import SystemClock
from tonnage.cli.up.pretended_options import agent_arguments_on_the_twin
from tonnage.cli.up.programs import run_node_agent
from tonnage.twin.kubelet.containers.runtime_port import ContainerContext

ROOT = Path("/nodes/a")
KUBECONFIG = Path("/state/kubeconfig")


class Stdio:
    """Keeps what is written to standard error."""

    def __init__(self) -> None:
        self.error = b""

    def write_error(self, data: bytes) -> None:
        self.error += data


def container(*argv: str, **env: str) -> ContainerContext:
    clock = SystemClock()
    parts = SimpleNamespace(
        argv=argv, clock=clock, env={"NODE_NAME": "a", **env}, node_root=ROOT, stdio=Stdio()
    )
    return cast(ContainerContext, parts)


def told(*argv: str) -> dict[str, Any]:
    return dict(agent_arguments_on_the_twin(container(*argv), KUBECONFIG))


@pytest.mark.parametrize(
    "argv", [("tonnage", "node"), ("node",), ()], ids=["as a command", "as arguments", "nothing"]
)
def test_without_flags_it_is_the_agent_of_its_node(argv: tuple[str, ...]) -> None:
    found = told(*argv)
    assert (found["node_name"], found["root"], found["metrics_address"]) == ("a", ROOT, "")
    assert found["devices"].startswith(f"scenario:{ROOT}/")


async def test_the_memory_of_mps_needs_no_mounting_here() -> None:
    words = ("/usr/bin/python3", "-sPm", "tonnage.adapters.mps.shared_memory", "/run/nvidia/mps/shm")
    assert await run_node_agent(container(*words), kubeconfig=KUBECONFIG) == 0


def test_flags_mean_the_same_with_paths_on_the_node() -> None:
    found = told(
        *(
            "tonnage",
            "node",
            "--config-map=x/y",
            "--config",
            "/etc/c.yaml",
            "--driver-root-ctr-path=/driver-root",
        ),
        *("--node-name", "b", "--metrics-address=127.0.0.1:9400", "--verbose"),
    )
    assert found["config_map"] == "x/y"
    assert found["config"] == ROOT / "etc/c.yaml"
    assert found["driver_root"] == ROOT / "driver-root"
    assert found["node_name"] == "b"
    assert found["metrics_address"] == "127.0.0.1:9400"


def test_variables_are_those_of_the_container(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIG_STRATEGY", "single")
    monkeypatch.setenv("NODE_NAME", "somewhere-else")
    found = agent_arguments_on_the_twin(
        container(CONFIG_FILE="/etc/c.yaml", PASS_DEVICE_SPECS="true"), KUBECONFIG
    )
    assert found["node_name"] == "a"
    assert found["config"] == ROOT / "etc/c.yaml"
    assert [(told.where, told.value) for told in found["overrides"]] == [("PASS_DEVICE_SPECS", True)]


@pytest.mark.parametrize("address", [":9400", "0.0.0.0:9400", "[::]:9400"])
def test_many_pods_of_one_machine_do_not_fight_for_a_port(address: str) -> None:
    assert told("tonnage", "node", f"--metrics-address={address}")["metrics_address"] == ""


async def test_a_wrong_flag_ends_the_container_with_the_reason() -> None:
    context = container("tonnage", "node", "--metric-address=:1")
    with pytest.raises(click.ClickException):
        agent_arguments_on_the_twin(context, KUBECONFIG)
    assert await run_node_agent(context, kubeconfig=KUBECONFIG) == 2
    assert b"--metric-address" in cast(Stdio, context.stdio).error


def test_what_a_cluster_at_rest_does_without_is_not_loaded() -> None:
    """Each of these takes half a megabyte to two and a half of every embedded cluster."""
    spared = ("lightkube", "re2", "tarfile", "html", "tonnage.twin.kubelet.programs.shell", "cel_expr_python")
    modules = (
        "tonnage.cli.up.embedded, tonnage.cli.up.programs, tonnage.twin.cluster, tonnage.twin.population"
    )
    code = f"import sys, {modules}; print([name for name in {spared} if name in sys.modules])"
    command = [sys.executable, "-c", code]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    assert shown == "[]\n"
