"""What the agent sees of the node's container runtime: its files, and whether specs can be written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tonnage.adapters.container_runtime import RuntimeFiles
from tonnage.model.node.runtime_config import NodeRuntime, RuntimeKind

ON = 'version = 2\n[plugins."io.containerd.grpc.v1.cri"]\nenable_cdi = true\n'


def configured(root: Path, text: str) -> None:
    (root / "etc/containerd").mkdir(parents=True)
    (root / "etc/containerd/config.toml").write_text(text)


async def test_a_node_without_files_says_nothing_and_can_have_specs(tmp_path: Path) -> None:
    assert await RuntimeFiles(tmp_path).look() == NodeRuntime()


async def test_the_configuration_is_that_of_the_host_though_only_the_drivers_root_shows_it(
    tmp_path: Path,
) -> None:
    configured(tmp_path / "host", ON)
    (config,) = (await RuntimeFiles(tmp_path / "pod", tmp_path / "host").look()).configs
    assert (config.kind, config.cdi) == (RuntimeKind.CONTAINERD, True)
    assert config.cdi_where == "/etc/containerd/config.toml:3"
    configured(tmp_path / "pod", "version = 2\n")
    (config,) = (await RuntimeFiles(tmp_path / "pod", tmp_path / "host").look()).configs
    assert config.cdi is None


async def test_a_change_of_a_file_is_another_look(tmp_path: Path) -> None:
    configured(tmp_path, "version = 2\n")
    files = RuntimeFiles(tmp_path)
    before = await files.look()
    assert await files.look() == before
    (tmp_path / "etc/containerd/config.toml").write_text(ON)
    assert await files.look() != before


async def test_a_folder_of_specs_that_is_in_the_way_is_said(tmp_path: Path) -> None:
    (tmp_path / "var/run").mkdir(parents=True)
    (tmp_path / "var/run/cdi").write_text("")
    assert "is not a folder" in (await RuntimeFiles(tmp_path).look()).unwritable


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
async def test_a_folder_that_may_not_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "var").mkdir(mode=0o555)
    assert "read-only" in (await RuntimeFiles(tmp_path).look()).unwritable


async def test_a_read_only_file_system_is_said_to_root_too() -> None:
    """As the agent's own container is, where nobody mounts the host's folder."""
    assert "read-only" in (await RuntimeFiles(Path("/proc/self")).look()).unwritable
