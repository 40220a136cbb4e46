"""How long a capture takes to redact some thousand pods, a few with messages that quote their values."""

from __future__ import annotations

import json
import time
from typing import Any, Final

from benchmarks.snapshot import pod_of
from tonnage.adapters.snapshots.kinds import CAPTURED
from tonnage.adapters.snapshots.redact import Level, Redactor

PODS: Final = 3000
_AILING: Final = (30, 3)
"""One pod in so many has a container that does not start."""
_MESSAGE: Final = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create: "
    'unable to start container process: exec: "--token={}": executable file not found in $PATH: unknown'
)
_BACK_OFF: Final = "back-off 5m0s restarting failed container=main pod=app-{}_team(uid)"


def measure(rounds: int) -> dict[str, list[float]]:
    """Seconds of CPU by how many pods ail, half of them with a message that quotes a value."""
    (pod_kind,) = (kind for kind in CAPTURED if kind.kind == "Pod")
    figures: dict[str, list[float]] = {}
    for ailing in _AILING:
        pods = [_wordy_pod(number, ailing) for number in range(PODS)]
        for level in Level:
            figures[f"redact {PODS:,} pods ({level.value}), 1 in {ailing} ailing, s of CPU"] = taken = []
            for _ in range(rounds):
                redactor, started = Redactor(level, b"k" * 32), time.process_time()
                for pod in pods:
                    redactor.redacted(pod, pod_kind)
                taken.append(time.process_time() - started)
    return figures


def _wordy_pod(number: int, ailing: int) -> dict[str, Any]:
    """A pod with variables, a command line and annotations of its own."""
    pod = pod_of(number, number % 150, number % 500)
    (container,) = pod["spec"]["containers"]
    container["env"] = [{"name": f"V{i}", "value": f"value-{number}-{i}/path?x={i}"} for i in range(20)]
    container["args"] = ["--model", "/models/llama", "--port=8080", f"--token=abc{number}"]
    applied = json.dumps({"spec": pod["spec"]})
    pod["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": applied}
    if number % ailing == 0:
        words = _MESSAGE if number // ailing % 2 else _BACK_OFF
        (status,) = pod["status"]["containerStatuses"]
        status["state"] = {"waiting": {"reason": "CrashLoopBackOff", "message": words.format(number)}}
    return pod
