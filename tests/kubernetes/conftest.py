"""One genuine cluster for all tests that need a real node: it takes ten seconds to start."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.genuine_cluster import GenuineCluster, genuine_cluster
from support.images import busybox_archive


@pytest.fixture(scope="session")
def cluster() -> Iterator[GenuineCluster]:
    """Leave it as you found it: no pods of yours, all processes running."""
    with tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as folder:
        busybox_archive(Path(folder))
        with genuine_cluster(Path(folder), images=[Path(folder, "busybox.tar")]) as cluster:
            yield cluster
