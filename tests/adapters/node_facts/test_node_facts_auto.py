"""`tonnage doctor` judges by what `deviceListStrategy: auto` came to, as the agent keeps it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.sick_node import SickNode
from tonnage.adapters.checkpoints import FolderCheckpoints
from tonnage.adapters.node_facts.files import NodeFiles
from tonnage.adapters.node_facts.plugin import plugin_facts
from tonnage.agent.plugin.device_list import CHECKPOINT

AUTO = "flags: {plugin: {deviceListStrategy: auto}}"


@pytest.fixture
def node() -> Iterator[SickNode]:
    folder = Path(tempfile.mkdtemp(prefix="tn-", dir="/tmp"))
    with ExitStack() as ends:
        yield SickNode(folder, ends)
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("kept", "strategy"), [(b"cdi-cri", "cdi-cri"), (b"envvar", "envvar"), (b"?", "envvar"), (None, "envvar")]
)
async def test_auto_is_what_it_came_to(node: SickNode, kept: bytes | None, strategy: str) -> None:
    node.configure(AUTO)
    if kept is not None:
        await FolderCheckpoints(node.root / "var/lib/tonnage").save(CHECKPOINT, kept)
    config = plugin_facts(NodeFiles(node.root), []).config
    assert config is not None
    assert [each.value for each in config.device_list] == [strategy]
