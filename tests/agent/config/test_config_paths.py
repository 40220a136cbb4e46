"""Programs and folders that a configuration names: what a container could fill is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.configured_node import MAP, replicas, running, shared
from tonnage.model.node.plugin_settings import Override

TOOLKIT = "/usr/local/nvidia/toolkit/nvidia-ctk"


def hooked(count: int, path: str = TOOLKIT, root: str = "/") -> str:
    return f"{replicas(count)}\nflags: {{nvidiaDriverRoot: {root}, plugin: {{nvidiaCTKPath: {path}}}}}"


def node_with_toolkit(folder: Path) -> Path:
    """The folder of the hooks' program on a node where that is root's alone."""
    program = folder / "node" / TOOLKIT[1:]
    program.parent.mkdir(parents=True)
    program.touch(0o755)
    for each in (program.parent, *list(program.parents)[1:6]):
        each.chmod(0o755)
    return program.parent


async def test_a_program_for_hooks_that_a_container_can_write_is_refused_and_the_last_good_one_kept(
    tmp_path: Path, cluster: Any, clock: Any
) -> None:
    """Container runtimes run it as root, whoever may write the ConfigMap."""
    toolkit = node_with_toolkit(tmp_path)
    cluster.configs(default=hooked(4))
    async with running(tmp_path, cluster, clock) as config:
        current = await config.until(lambda c: shared(c) == 4)
        assert (current.error, current.config.cdi.hook_path) == ("", TOOLKIT)
        toolkit.chmod(0o777)
        cluster.configs(default=hooked(8))
        current = await config.until(lambda c: c.error)
        assert (shared(current), current.config.cdi.hook_path) == (4, TOOLKIT)
        assert (
            f"{MAP}[default] flags.plugin.nvidiaCTKPath: nvidiaCTKPath may not be {TOOLKIT}" in current.error
        )
        assert "/usr/local/nvidia/toolkit is writable by others than root (mode 0777)" in current.error
        assert "or give the agent --nvidia-cdi-hook-path" in current.error
        await cluster.until(lambda: any(r == "DevicePluginConfigRefused" for r, _ in cluster.events()))
        toolkit.chmod(0o755)
        cluster.label("node-1", None)
        assert shared(await config.until(lambda c: not c.error)) == 8, "it is looked at again"


async def test_a_program_out_of_the_agents_sight_is_named_by_its_flag_alone(
    tmp_path: Path, cluster: Any, clock: Any
) -> None:
    (tmp_path / "driver").mkdir()
    cluster.configs(default=replicas(2))
    said = hooked(4, root="/run/nvidia/driver")
    async with running(tmp_path, cluster, clock, driver_root=tmp_path / "driver") as config:
        await config.until(lambda c: shared(c) == 2)
        cluster.configs(default=said)
        current = await config.until(lambda c: c.error)
        assert shared(current) == 2
        assert "the agent does not see the host's files" in current.error
    own = Override(("flags", "plugin", "nvidiaCTKPath"), "/opt/x/nvidia-ctk", "--nvidia-cdi-hook-path")
    async with running(
        tmp_path / "other", cluster, clock, driver_root=tmp_path / "driver", overrides=(own,)
    ) as config:
        current = await config.until(lambda c: shared(c) == 4)
        assert (current.error, current.config.cdi.hook_path) == ("", "/opt/x/nvidia-ctk")


@pytest.mark.parametrize(
    ("flags", "field"),
    [
        ("{nvidiaDriverRoot: /usr/local/nvidia}", "nvidiaDriverRoot"),
        ("{nvidiaDevRoot: /usr/local/nvidia}", "nvidiaDevRoot"),
        ("{mpsRoot: /run/nvidia/mps}", "mpsRoot"),
    ],
)
async def test_a_root_that_others_fill_is_refused_too(
    tmp_path: Path, cluster: Any, clock: Any, flags: str, field: str
) -> None:
    """Its files and nodes would be in containers, and devices of it are what kubelet is told."""
    for name in ("usr/local/nvidia", "run/nvidia/mps"):
        (tmp_path / "node" / name).mkdir(parents=True)
        (tmp_path / "node" / name).chmod(0o777)
    cluster.configs(default=f"{replicas(4)}\nflags: {flags}")
    async with running(tmp_path, cluster, clock) as config:
        current = await config.until(lambda c: c.error)
        assert shared(current) == 1
        assert f"{field} may not be" in current.error
