"""Python's garbage collector in the agent's process."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import Any

import pytest

import tonnage.agent.main
from tonnage.cli.node import command
from tonnage.cli.options import Common


async def test_what_was_loaded_at_the_start_is_not_gone_through_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    frozen = asyncio.Event()

    async def agent(_options: Any, **_ports: Any) -> None:
        assert not frozen.is_set()
        async with asyncio.timeout(5):
            await frozen.wait()

    monkeypatch.setattr(gc, "freeze", frozen.set)
    monkeypatch.setattr(tonnage.agent.main, "run_agent", agent)
    monkeypatch.setattr(command, "_LOADED_S", 0.0)
    options: Any = None
    assert await command._run(options, Common(), standalone=True) == 0
