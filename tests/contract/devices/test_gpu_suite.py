"""The suite for GPUs, as `make test-gpu` runs it, on a machine whose loader finds the pretended driver."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.driver_root import LIBRARIES, Driver
from support.nvml.nvidia_smi import install
from support.nvml.state import h100_node

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[3]


def suite(results: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "tests/gpu",
        "-q",
        "-p",
        "no:randomly",
        "-p",
        "no:cacheprovider",
    ]
    return subprocess.run(
        [*command, "--gpu-results", str(results), "--gpu-date", "2026-11-21"],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
        | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_it_passes_and_writes_figures(tmp_path: Path) -> None:
    driver = Driver(tmp_path / "driver", h100_node(4))
    programs = f"{install(driver.root).parent}:{os.environ['PATH']}"
    done = suite(tmp_path / "results", LD_LIBRARY_PATH=str(driver.root / LIBRARIES), PATH=programs)
    assert done.returncode == 0, done.stdout
    assert "15 passed" in done.stdout
    (file,) = (tmp_path / "results").iterdir()
    assert file.name == "pretended-4-nvidia-h100-80gb-hbm3-570-124-06.json", (
        "no kernel module: no GPU's figures"
    )
    record = json.loads(file.read_text())
    assert (record["date"], record["driver"], record["gpus"]) == (
        "2026-11-21",
        "570.124.06",
        {"NVIDIA H100 80GB HBM3": 4},
    )
    assert record["library"].startswith(str(driver.root))
    assert all(spread["median"] > 0 for spread in record["figures"].values())
    assert {"first scan, ms", "Allocate, ms", "agent's resident memory, MiB"} <= record["figures"].keys()


def test_without_a_gpu_it_says_so_and_fails(tmp_path: Path) -> None:
    driver = Driver(tmp_path / "driver", h100_node(1))
    driver.unload()
    done = suite(tmp_path / "results", LD_LIBRARY_PATH=str(driver.root / LIBRARIES))
    assert done.returncode == 2
    assert "no GPU to test with: NVML: Driver Not Loaded" in done.stdout
    assert not (tmp_path / "results").exists()
