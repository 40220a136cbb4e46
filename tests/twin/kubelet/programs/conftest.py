"""A node whose containers run pretended programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.program_node import Node


@pytest.fixture
async def node(tmp_path: Path) -> Any:
    one = Node(tmp_path)
    yield one
    await one.runtime.shutdown()
