"""What `tonnage runtime` writes, as a genuine containerd reads it."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.genuine_cluster import GenuineCluster
from support.genuine_node import NODE_NAME
from tonnage.cli.binaries import NODE, find_binaries
from tonnage.cli.main import run

pytestmark = pytest.mark.kubernetes

ROOT = Path(__file__).resolve().parents[2]
RUNTIME_V3 = "io.containerd.cri.v1.runtime"
VERSION = "containerd://2.2.9"
OFF = f"[plugins.'{RUNTIME_V3}']\nenable_cdi = false\ndrain_exec_sync_io_timeout = '7s'\n"
OFF_V2 = OFF.replace(RUNTIME_V3, "io.containerd.grpc.v1.cri")
LAYOUTS = {
    "version 3, edited": ("version = 3\n" + OFF, "edit"),
    "version 3 with drop-ins": ("version = 3\nimports = ['conf.d/*.toml']\n" + OFF, "create"),
    "version 2, edited": ("version = 2\n" + OFF_V2, "edit"),
    "version 2 with drop-ins": ("version = 2\nimports = ['conf.d/*.toml']\n" + OFF_V2, "create"),
}


def runtime_plugin(dump: str) -> Any:
    return tomllib.loads(dump)["plugins"][RUNTIME_V3]


def dumped(main: Path) -> Any:
    """What containerd makes of its files."""
    containerd = find_binaries(os.environ, programs=NODE).path("containerd")
    words = [str(containerd), "--config", str(main), "config", "dump"]
    return runtime_plugin(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


@pytest.mark.parametrize(("text", "action"), LAYOUTS.values(), ids=LAYOUTS)
def test_containerd_has_cdi_after_apply_and_what_it_had_after_undo(
    tmp_path: Path, text: str, action: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main = tmp_path / "config.toml"
    main.write_text(text)
    words = ("--config", str(main), "--runtime", VERSION, "-o", "json")
    before = dumped(main)
    assert before["enable_cdi"] is False
    assert run(["runtime", "apply", *words], "tonnage") == 0
    assert [edit["action"] for edit in json.loads(capsys.readouterr().out)["edits"]] == [action]
    assert dumped(main) == before | {"enable_cdi": True}
    assert run(["runtime", "plan", *words], "tonnage") == 0
    assert run(["runtime", "apply", *words, "--nvidia-runtime", "/bin/true"], "tonnage") == 0
    handler = dumped(main)["containerd"]["runtimes"]["nvidia"]
    assert (handler["runtime_type"], handler["options"]["BinaryName"]) == (
        "io.containerd.runc.v2",
        "/bin/true",
    )
    assert run(["runtime", "undo", *words], "tonnage") == 0
    assert dumped(main) == before
    assert main.read_text() == text


def test_a_drop_in_of_another_version_has_no_effect(tmp_path: Path) -> None:
    """Why a mixture is refused."""
    main = tmp_path / "config.toml"
    main.write_text("version = 3\nimports = ['conf.d/*.toml']\n" + OFF)
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d/a.toml").write_text("version = 2\n" + OFF_V2.replace("false", "true"))
    assert dumped(main)["enable_cdi"] is False
    assert run(["runtime", "plan", "--config", str(main), "--runtime", VERSION], "tonnage") == 1


@pytest.mark.node
def test_a_pod_with_the_hosts_files_looks_at_its_node(cluster: GenuineCluster, agent_version: str) -> None:
    """The pod of the how-to."""
    pod: Any = yaml.safe_load((ROOT / "docs/how-to/look-at-a-runtime.yaml").read_text())
    pod["metadata"]["namespace"] = "default"
    pod["spec"]["nodeName"] = NODE_NAME
    image = {"image": f"tonnage/agent:{agent_version}", "imagePullPolicy": "Never"}
    pod["spec"]["containers"][0] |= image
    name = f"pod/{pod['metadata']['name']}"
    cluster.apply(pod)
    try:
        cluster.kubectl("wait", name, "--for=jsonpath={.status.phase}=Succeeded", "--timeout=60s")
        said = cluster.kubectl("logs", name)
    finally:
        cluster.kubectl("delete", name, "--now")
    said_by = VERSION.replace("://", " ")
    assert said == f"{said_by} has CDI by default, and /etc/containerd.toml does not say otherwise\n"


@pytest.mark.node
def test_on_a_node_the_runtime_that_runs_is_found_asked_changed_and_given_back(
    cluster: GenuineCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    node = cluster.node
    file = node.root.at("etc/containerd.toml")
    given = file.read_bytes()
    header = f'[plugins."{RUNTIME_V3}"]\n'.encode()
    file.write_bytes(given.replace(header, header + b"  enable_cdi = false\n"))

    def runtime(verb: str) -> Any:
        status = run(
            ["runtime", verb, "--root", f"/proc/{node.pid('containerd')}/root", "-o", "json"], "tonnage"
        )
        return {**json.loads(capsys.readouterr().out), "status": status}

    def has_cdi() -> bool:
        dump = node.run("containerd", "--config", "/etc/containerd.toml", "config", "dump")
        return bool(runtime_plugin(dump.stdout.decode())["enable_cdi"])

    try:
        found = runtime("plan")
        assert (found["status"], found["standing"]) == (1, "change"), found
        assert found["runtime"]["toldBy"] == "the runtime itself"
        assert found["runtime"]["files"] == ["/etc/containerd.toml"]
        assert found["cdi"]["state"] == "off"
        assert runtime("apply")["status"] == 0
        assert has_cdi()
        node.restart("containerd")
        assert runtime("plan")["standing"] == "nothing"
        assert runtime("undo")["status"] == 0
        assert not has_cdi()
    finally:
        file.write_bytes(given)
        node.restart("containerd")
