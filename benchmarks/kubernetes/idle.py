"""What an idle agent asks of the API server, on a fleet of 100 nodes: counted in the server's audit log."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from collections import Counter
from pathlib import Path
from typing import Final

from tonnage.adapters.clock import SystemClock
from tonnage.cli.locations.binaries import find_binaries
from tonnage.cli.up.genuine import GenuineCluster
from tonnage.documents.scenario import parse_scenario
from tonnage.twin.apiserver.kubeconfig import kubeconfig_text

NODES: Final = 100
SETTLE_S: Final = 60.0
WINDOW_S: Final = 480.0
"""Twice the time after which a watch is renewed."""
_FLEET: Final = f"name: idle\ngroups: [{{name: t4, nodes: {NODES}, gpu: {{model: T4}}}}]\n"
_POLICY: Final = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["ResponseStarted", "ResponseComplete", "Panic"],
    "rules": [{"level": "Metadata"}],
}


def measure(_rounds: int) -> dict[str, list[float]]:
    """Requests of one agent in an hour, by verb and resource, from a window of eight minutes."""
    counts = asyncio.run(_requests())
    hourly = 3600 / WINDOW_S / NODES
    total = {f"idle agent, {NODES} nodes: API requests an hour": [sum(counts.values()) * hourly]}
    return total | {f"  of these {what}": [count * hourly] for what, count in counts.most_common()}


async def _requests() -> Counter[str]:
    with tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as name:
        folder = Path(name)
        policy, log = folder / "policy.json", folder / "audit.log"
        policy.write_text(json.dumps(_POLICY))
        (folder / "run").mkdir()
        cluster = GenuineCluster(
            parse_scenario(_FLEET, source="idle"),
            SystemClock(),
            folder=folder / "control-plane",
            runtime_dir=folder / "run",
            binaries=find_binaries(os.environ).folder,
        )
        try:
            endpoint = await cluster.serve(f"--audit-policy-file={policy}", f"--audit-log-path={log}")
            kubeconfig = folder / "kubeconfig"
            kubeconfig.write_text(kubeconfig_text(endpoint))
            await cluster.populate(kubeconfig)
            await asyncio.sleep(SETTLE_S)
            start = log.stat().st_size
            await asyncio.sleep(WINDOW_S)
            return _counted(log, start)
        finally:
            await cluster.stop()


def _counted(log: Path, start: int) -> Counter[str]:
    """Requests by agents after this byte of the log."""
    counts: Counter[str] = Counter()
    with log.open("rb") as file:
        file.seek(start)
        for line in file:
            event = json.loads(line)
            if event["userAgent"].startswith("tonnage-agent/"):
                reference = event["objectRef"]
                part = f"/{reference['subresource']}" if "subresource" in reference else ""
                counts[f"{event['verb']} {reference['resource']}{part}"] += 1
    return counts
