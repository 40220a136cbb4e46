"""Nodes for claims."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.claim_node import ClaimNode
from tonnage.model.kubernetes.feature_gates import PARTITIONS, SHARES, TAINTS


@pytest.fixture
def scene() -> Iterator[ClaimNode]:
    root = Path(tempfile.mkdtemp(prefix="tn-", dir="/tmp"))
    yield ClaimNode(root)
    shutil.rmtree(root)


@pytest.fixture
def gated(scene: ClaimNode) -> ClaimNode:
    """The same with a server that has every gate for devices on."""
    return ClaimNode(scene.root, PARTITIONS, TAINTS, SHARES)
