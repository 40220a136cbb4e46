"""MIG layouts as the cluster asks for them: label, ConfigMap, state and reason."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tonnage.agent.main import run_agent
from tonnage.agent.options import AgentOptions
from tonnage.model.errors import ConfigError
from tonnage.wire.kinds import CONFIG_MAP, NODE

WHERE = "tonnage-system/mig-parted-config"
PARTED = """
version: v1
mig-configs:
  halves:
  - {devices: all, mig-enabled: true, mig-devices: {3g.40gb: 2}}
  all-balanced:
  - {devices: all, mig-enabled: true, mig-devices: {7g.80gb: 1}}
"""


@pytest.fixture
def divisible(tmp_path: Path) -> Path:
    file = tmp_path / "divisible.yaml"
    file.write_text("devices: [{uuid: GPU-0, model: A100-80, mig: [7g.80gb]}]\n")
    return file


@asynccontextmanager
async def agent_of(
    root: Path, hardware: Path, cluster: Any, clock: Any, where: str = WHERE, host: Path | None = None
) -> AsyncIterator[None]:
    options = AgentOptions("node-1", f"scenario:{hardware}", root, mig_config_map=where, mig_host_root=host)
    task = asyncio.create_task(run_agent(options, api=cluster, clock=clock))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def asks(cluster: Any, config: str) -> None:
    before = cluster.objects.get((NODE.plural, "", "node-1"), {}).get("metadata", {}).get("labels", {})
    cluster.put(NODE, "node-1", metadata={"labels": {**before, "nvidia.com/mig.config": config}})


def says(cluster: Any) -> tuple[str, str]:
    """(state, reason) on the Node."""
    meta = cluster.objects[NODE.plural, "", "node-1"]["metadata"]
    reason = meta.get("annotations", {}).get("nvidia.com/mig.config.state.reason") or ""
    return meta.get("labels", {}).get("nvidia.com/mig.config.state", ""), reason


def applied(cluster: Any) -> str:
    """The reason of the condition; empty for none."""
    reason: str = cluster.conditions("node-1").get("MIGConfigApplied", {}).get("reason", "")
    return reason


async def test_mig_3_a_label_divides_and_says_so(
    tmp_path: Path, divisible: Path, cluster: Any, clock: Any
) -> None:
    cluster.put(CONFIG_MAP, "mig-parted-config", "tonnage-system", data={"config.yaml": PARTED})
    asks(cluster, "halves")
    async with agent_of(tmp_path, divisible, cluster, clock):
        await cluster.until(lambda: says(cluster) == ("success", ""))
        assert made(divisible) == ["3g.40gb", "3g.40gb"]
        await cluster.until(lambda: "MIGConfigApplied" in cluster.conditions("node-1"))
        await cluster.until(lambda: cluster.conditions("node-1")["MIGConfigApplied"]["status"] == "True")
        asks(cluster, "all-balanced")  # the ConfigMap has one of that name
        await cluster.until(lambda: made(divisible) == ["7g.80gb"])
        await cluster.until(lambda: says(cluster) == ("success", ""))
        asks(cluster, "all-1g.10gb")  # and none of this one
        await cluster.until(lambda: made(divisible) == ["1g.10gb"] * 7)
        asks(cluster, "thirds")
        await cluster.until(lambda: says(cluster)[0] == "failed")
        assert says(cluster)[1] == (
            f"no MIG configuration 'thirds' in ConfigMap {WHERE}: it has all-balanced, halves"
        )
        cluster.put(CONFIG_MAP, "mig-parted-config", "tonnage-system", data={"config.yaml": "version: v2"})
        await cluster.until(lambda: "version" in says(cluster)[1])


async def test_a_node_that_asks_no_more_is_said_nothing_of(
    tmp_path: Path, divisible: Path, cluster: Any, clock: Any
) -> None:
    asks(cluster, "thirds")
    async with agent_of(tmp_path, divisible, cluster, clock):
        await cluster.until(lambda: says(cluster)[0] == "failed")
        await cluster.until(lambda: applied(cluster) == "MIGConfigFailed")
        cluster.put(NODE, "node-1", metadata=_unasked(cluster))
        await cluster.until(lambda: says(cluster) == ("", ""))
        await cluster.until(lambda: applied(cluster) == "NothingAsked")
        asks(cluster, "all-balanced")
        await cluster.until(lambda: says(cluster)[0] == "success")
        await cluster.until(lambda: applied(cluster) == "MIGConfigApplied")
    cluster.put(NODE, "node-1", metadata=_unasked(cluster))
    async with agent_of(tmp_path, divisible, cluster, clock):  # not while the last one was away, either
        await cluster.until(lambda: says(cluster) == ("", ""))
        await cluster.until(lambda: applied(cluster) == "NothingAsked")
    assert made(divisible) == ["1g.10gb", "1g.10gb", "2g.20gb", "3g.40gb"], "the layout stays"


async def test_an_empty_label_asks_for_nothing_either(
    tmp_path: Path, divisible: Path, cluster: Any, clock: Any
) -> None:
    asks(cluster, "all-balanced")
    async with agent_of(tmp_path, divisible, cluster, clock):
        await cluster.until(lambda: says(cluster)[0] == "success")
        asks(cluster, "")
        await cluster.until(lambda: says(cluster) == ("", ""))
        await cluster.until(lambda: applied(cluster) == "NothingAsked")


async def test_a_layout_for_another_board_says_so(
    tmp_path: Path, divisible: Path, cluster: Any, clock: Any
) -> None:
    """As with NVIDIA's manager it is a success, but not a silent one."""
    other = '[{device-filter: "0x233010DE", devices: all, mig-enabled: true, mig-devices: {1g.10gb: 7}}]'
    text = f"version: v1\nmig-configs: {{other: {other}}}"
    cluster.put(CONFIG_MAP, "mig-parted-config", "tonnage-system", data={"config.yaml": text})
    asks(cluster, "other")
    async with agent_of(tmp_path, divisible, cluster, clock):
        await cluster.until(lambda: says(cluster)[0] == "success")
        assert says(cluster)[1] == "no entry of it matches a GPU of this node"
        assert made(divisible) == []


async def test_a_file_that_cannot_be_read_is_told_in_one_line(
    tmp_path: Path, divisible: Path, cluster: Any, clock: Any
) -> None:
    text = "version: v1\nmig-configs: {halves: [{devices: all, mig-enbled: true, zz: 1}]}"
    cluster.put(CONFIG_MAP, "mig-parted-config", "tonnage-system", data={"config.yaml": text})
    asks(cluster, "halves")
    async with agent_of(tmp_path, divisible, cluster, clock):
        await cluster.until(lambda: says(cluster)[0] == "failed")
        assert "unknown field mig-enbled: use mig-enabled if you meant that; " in says(cluster)[1]
        assert "\n" not in says(cluster)[1]


def _unasked(cluster: Any) -> dict[str, Any]:
    meta = cluster.objects[NODE.plural, "", "node-1"]["metadata"]
    return {**meta, "labels": {k: v for k, v in meta["labels"].items() if k != "nvidia.com/mig.config"}}


HOOK = (
    "version: v1\nhooks: {{{}: [{{command: /bin/sh, args: [-c, 'echo $MIG_PARTED_SELECTED_CONFIG >> {}']}}]}}"
)


async def test_mig_4_hooks_run_where_they_may_and_are_refused_elsewhere(
    tmp_path: Path, divisible: Path, cluster: Any, clock: Any
) -> None:
    ran = tmp_path / "ran"
    hook = HOOK.format("pre-apply-config", ran)
    cluster.put(
        CONFIG_MAP, "mig-parted-config", "tonnage-system", data={"a.yaml": PARTED, "hooks.yaml": hook}
    )
    asks(cluster, "halves")
    async with agent_of(tmp_path, divisible, cluster, clock):
        await cluster.until(lambda: says(cluster)[0] == "failed")
        assert "has hooks or clients, but this agent may not run programs of its host" in says(cluster)[1]
        assert made(divisible) == []
    async with agent_of(tmp_path, divisible, cluster, clock, host=Path("/")):
        await cluster.until(lambda: says(cluster) == ("success", ""))
        assert ran.read_text() == "halves\n"
        wrong = HOOK.format("pre-aply", ran)
        cluster.put(
            CONFIG_MAP, "mig-parted-config", "tonnage-system", data={"a.yaml": PARTED, "hooks.yaml": wrong}
        )
        await cluster.until(lambda: "unknown hook pre-aply" in says(cluster)[1])


async def test_mig_4_without_a_config_map_the_generated_layouts_are_made(
    tmp_path: Path, divisible: Path, cluster: Any, clock: Any
) -> None:
    asks(cluster, "all-balanced")
    async with agent_of(tmp_path, divisible, cluster, clock):
        await cluster.until(lambda: says(cluster) == ("success", ""))
        assert made(divisible) == ["1g.10gb", "1g.10gb", "2g.20gb", "3g.40gb"]


async def test_a_config_map_that_may_not_be_read_is_said(
    tmp_path: Path, divisible: Path, cluster: Any, clock: Any
) -> None:
    cluster.forbidden = {CONFIG_MAP.plural}
    asks(cluster, "halves")
    async with agent_of(tmp_path, divisible, cluster, clock):
        await cluster.until(
            lambda: says(cluster) == ("failed", f"ConfigMap {WHERE} is forbidden to this agent")
        )


@pytest.mark.parametrize(
    ("where", "label"), [(WHERE, None), ("", "all-balanced")], ids=["nobody asks", "it is not told to"]
)
async def test_without_being_asked_and_told_it_leaves_mig_alone(
    where: str, label: str | None, tmp_path: Path, divisible: Path, cluster: Any, clock: Any
) -> None:
    cluster.put(NODE, "node-1", metadata={"labels": {"nvidia.com/mig.config": label} if label else {}})
    async with agent_of(tmp_path, divisible, cluster, clock, where):
        await cluster.until(lambda: cluster.conditions("node-1"))
        assert says(cluster) == ("", "")
        watched = [(kind, name) for kind, name, _ in cluster.watchers]
        assert (CONFIG_MAP.plural, "mig-parted-config") not in watched
        assert made(divisible) == []
        assert "MIGConfigApplied" not in cluster.conditions("node-1")


async def test_a_config_map_that_is_none_is_refused(tmp_path: Path, cluster: Any, clock: Any) -> None:
    options = AgentOptions("node-1", "scenario:x", tmp_path, mig_config_map="nowhere")
    with pytest.raises(ConfigError, match="--mig-config-map"):
        await run_agent(options, api=cluster, clock=clock)


def made(hardware: Path) -> list[str]:
    """Profiles of the instances that were made, empty while nothing was changed."""
    file = hardware.with_name(f"{hardware.name}.mig")
    if not file.exists():
        return []
    return sorted(row[1] for row in json.loads(file.read_text())["GPU-0"]["instances"])
