"""Every lab that ships, on the embedded cluster; covers the cases they name.

The kubectl versions take turns. On a genuine control plane every lab runs with each.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from scripts.find_prometheus import monitoring_programs
from tonnage.cli.locations.kubectl import kubectl_binary
from tonnage.cli.locations.labs_and_scenarios import lab_names, load_lab

VERSIONS = ("1.35", "1.37")
LONGEST = frozenset(
    {
        "admission",
        "cdi-injection",
        "contention",
        "driver-preflight",
        "driver-upgrade",
        "failing-gpu",
        "mig-reconfigure",
        "mps",
        "numa",
        "operator-install",
        "pending-pod",
        "policy-refused",
        "priority",
        "repartitioned-pool",
        "restricted-user",
        "sharing-by-tier",
        "slow-placement",
        "telemetry",
        "whole-workload",
    }
)
"""Two thirds of what all labs need."""


def _turn(name: str) -> list[pytest.MarkDecorator]:
    """A lab takes five seconds of a processor: a run has some of them. On Kubernetes each runs always."""
    if name in LONGEST:
        return [pytest.mark.long, pytest.mark.sampled("long labs", share="1/3")]
    return [pytest.mark.sampled("labs")]


RUNS = [
    pytest.param(name, VERSIONS[number % len(VERSIONS)], marks=_turn(name))
    for number, name in enumerate(lab_names())
]


def test_the_longest_labs_exist() -> None:
    assert set(lab_names()) >= LONGEST


@pytest.mark.parametrize(("name", "version"), RUNS)
def test_a_lab_passes(tonnage: Path, name: str, version: str, tmp_path: Path) -> None:
    if load_lab(name).lab.servers:
        monitoring_programs()
    process = subprocess.run(
        [tonnage, "lab", "run", name, "-o", "json"],
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "TONNAGE_KUBECTL": str(kubectl_binary(version)),
            "TONNAGE_STATE": str(tmp_path),
            "GOGC": "off",  # a kubectl that lives for a moment needs no garbage collector
        },
        check=False,
        timeout=300,
    )
    assert process.stdout, process.stderr
    report = json.loads(process.stdout)
    failed = [
        step for step in (*report["steps"], *report["cleanup"]) if not step["passed"] and not step["skipped"]
    ]
    assert failed == []
    assert (process.returncode, report["passed"]) == (0, True)
