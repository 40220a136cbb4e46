"""A session on an embedded cluster that runs: what needs one, and what is read from it without a file."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from golden.sessions import Command, Session
from support.forked_cli import warm_tonnage

_LINES: Final = (
    "up --detach",
    "up --detach",
    "status",
    "status -o wide",
    "version",
    "topo",
    "explain node a100-0",
    "explain pod nothing",
    "lint labs/pending-pod/train-as-submitted.yaml --kubeconfig {kubeconfig}",
    "explain -f labs/pending-pod/train-corrected.yaml",
    "simulate --set-mig a100-0=all-1g.5gb",
    "mig plan --node a100-0 --layout all-balanced",
    "hardware a100-0",
    "hardware a100-0 -o json",
    "hardware a100-9",
    "hardware a100-0 --gpu 9 --health lost",
    "lab run absent --kubeconfig {kubeconfig}",
    "snapshot --output {state}/cluster.jsonl",
    "status --snapshot {state}/cluster.jsonl",
    "down",
    "down",
)
_UNREPORTED: Final = r"exclusive +- "
"""An agent's report of what it advertises comes a moment after kubelet has the devices."""


@contextmanager
def live_session() -> Iterator[Session]:
    """On a cluster of its own, which its last command ends."""
    with tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as state, warm_tonnage() as program:
        known = {"kubeconfig": f"{state}/kubeconfig", "state": state}
        lines = [line.format(**known).split() for line in _LINES]
        try:
            yield Session(
                "live",
                Path(__file__).resolve().parents[2],
                tuple(Command(tuple(words), passing=_UNREPORTED) for words in lines),
                hidden={
                    r"/tmp/tn-[^/\s]+": "{state}",
                    r"127\.0\.0\.1:\d+": "127.0.0.1:{port}",
                    r"tonnage-agent-[0-9a-z]{5}": "tonnage-agent-{suffix}",
                    r"\bprocess \d+": "process {number}",
                },
                environment={"TONNAGE_STATE": state, "KUBECONFIG": f"{state}/kubeconfig"},
                program=program,
            )
        finally:
            subprocess.run(
                [program, "down", "--state", state], stdout=subprocess.DEVNULL, check=True, timeout=300
            )
