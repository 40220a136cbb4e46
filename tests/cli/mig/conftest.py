"""What tests of this room share."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.mig_configs import CONFIGS, holder, part


@pytest.fixture
def captured(tmp_path: Path) -> str:
    """A node with a divided GPU, on which two pods run, and a whole one."""
    parts = [part("1g.10gb", start, f"MIG-{start}") for start in range(7)]
    holders = [holder("chat", "MIG-2"), holder("eyes", "MIG-5", "MIG-6")]
    product = {"product": "NVIDIA A100-SXM4-80GB", "memoryMiB": 81920}
    devices = [
        {"uuid": "GPU-0", "index": 0, **product, "migDevices": parts, "holders": holders},
        {"uuid": "GPU-1", "index": 1, **product},
    ]
    status = {"apiVersion": "tonnage.dev/v1alpha1", "kind": "NodeGPUStatus", "metadata": {"name": "a100-0"}}
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"kind": "List", "items": [{**status, "status": {"devices": devices}}]}))
    return str(file)


@pytest.fixture
def configs(tmp_path: Path) -> str:
    file = tmp_path / "mig-parted.yaml"
    file.write_text(CONFIGS)
    return str(file)
