"""Our CDI spec of a host beside the one that NVIDIA's toolkit 1.20.1 made (scripts/record_toolkit_cdi.py)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from support.toolkit_root import make_toolkit_root
from tonnage.adapters.cdi.files import FolderCdi
from tonnage.adapters.clock import SystemClock
from tonnage.agent.main import backend_of
from tonnage.decide.node.cdi.spec import gpu_spec
from tonnage.model.devices.cdi import LATER_HOOKS, CdiOptions
from tonnage.model.devices.sharing import PluginConfig

RECORDED: Final = Path(__file__).parents[2] / "data/nvidia-ctk-1.20.1-cdi.json"
LEFT_OUT: Final = {"apply-cuda-memory-limits"}
"""What NVIDIA_GPU_MEMORY_LIMIT of a container asks for, which ours do not follow."""


@pytest.fixture(scope="module")
def theirs() -> Any:
    return json.loads(RECORDED.read_text())


@pytest.fixture
async def ours(tmp_path: Path) -> Any:
    root = make_toolkit_root(tmp_path)
    hook = root / "usr/bin/nvidia-cdi-hook"
    hook.write_text("\n".join(LATER_HOOKS))
    hook.chmod(0o755)
    backend = backend_of("nvml", root, root, SystemClock())
    try:
        inventory = await backend.scan()
    finally:
        await backend.close()
    files = await FolderCdi(root, root).driver_files(inventory.driver_version, PluginConfig())
    made = gpu_spec(inventory, files, CdiOptions("nvidia.com/gpu"))
    assert made.left_out == ()
    return made.document


def hooks(edits: Any) -> dict[str, list[str]]:
    """Arguments by name; several of one name together."""
    found: dict[str, list[str]] = {}
    for hook in edits.get("hooks", ()):
        assert hook["env"] == ["NVIDIA_CTK_DEBUG=false"]
        _, name, *arguments = hook["args"]
        if name not in LEFT_OUT:
            assert (hook["hookName"], hook["path"]) == ("createContainer", "/usr/bin/nvidia-cdi-hook")
            found.setdefault(name, []).extend(arguments)
    return found


def links(arguments: list[str]) -> set[str]:
    """Where links are; what leads to the same file may be written in another way."""
    return {link.partition("::")[2] for link in arguments if link != "--link"}


def test_the_spec_is_that_of_nvidias_toolkit(ours: Any, theirs: Any) -> None:
    assert (ours["cdiVersion"], ours["kind"]) == (theirs["cdiVersion"], theirs["kind"])
    devices, recorded = (
        {each["name"]: each["containerEdits"] for each in one["devices"]} for one in (ours, theirs)
    )
    assert set(devices) == set(recorded)
    for name, edits in recorded.items():
        nodes = {node["path"] for node in edits["deviceNodes"]}
        assert {node["path"] for node in devices[name]["deviceNodes"]} == nodes, name
        mine, their = hooks(devices[name]), hooks(edits)
        assert set(mine) == set(their), name
        assert links(mine.get("create-symlinks", [])) == links(their.get("create-symlinks", [])), name
    common, recorded_common = ours["containerEdits"], theirs["containerEdits"]
    assert set(common["env"]) == set(recorded_common["env"])
    assert {node["path"] for node in common["deviceNodes"]} == {
        node["path"] for node in recorded_common["deviceNodes"]
    }
    mounts = {mount["containerPath"]: mount for mount in common["mounts"]}
    assert mounts == {mount["containerPath"]: mount for mount in recorded_common["mounts"]}
    mine, their = hooks(common), hooks(recorded_common)
    assert list(mine) == list(their)
    assert links(mine.pop("create-symlinks")) == links(their.pop("create-symlinks"))
    assert mine == their
