"""Three layouts of a pool, and of all nodes, tried on a captured cluster of 10,000 nodes and 100,000 pods.

Who has a GPU of a node that is divided or shared anew has to move: 2,500 pods of a pool of 1,000 nodes, and
25,000 pods where all nodes change. They belong to ReplicaSets, so that default spreading applies.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.snapshot import NODES, PODS, write_cluster

_TRY = """
import json, resource, sys, time
from pathlib import Path
from tonnage.adapters.snapshots.objects import collector_paused
from tonnage.cli.cluster import read_snapshot
from tonnage.model.changes import Alternative, NodeSelection, SetMig, SetSharing
snapshot, nodes = read_snapshot(Path(sys.argv[1])), NodeSelection(sys.argv[2])
wall, cpu = time.perf_counter(), time.process_time()
from tonnage.diagnose.simulate.what_if import what_if
layouts = [SetMig(nodes, "all-1g.10gb"), SetMig(nodes, "all-balanced"), SetSharing(nodes, 4, rename=True)]
with collector_paused():
    answer = what_if(snapshot, [Alternative(str(n), (one,)) for n, one in enumerate(layouts)])
moved = [outcome.counts["displaced"] for outcome in answer.alternatives]
assert min(moved) == int(sys.argv[3]), moved
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
print(json.dumps([cpu, wall, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""
_CASES = (("1,000 of the nodes", "node-00*", 2_500), ("all nodes", "*", 25_000))


def measure(rounds: int) -> dict[str, list[float]]:
    """Seconds of a cold process after the cluster is read, and its peak memory with it."""
    figures: dict[str, list[float]] = {}
    folder = Path(tempfile.mkdtemp(prefix="tn-"))
    try:
        path = folder / "c.jsonl.gz"
        write_cluster(path, NODES, PODS)
        for told, nodes, moved in _CASES:
            runs = [_tried(path, nodes, moved) for _ in range(rounds)]
            head = f"three layouts of {told} ({NODES:,} nodes, {PODS:,} pods)"
            figures[f"{head}, s of CPU (wanted: under 10)"] = [cpu for cpu, _, _ in runs]
            figures[f"  {told}, s"] = [wall for _, wall, _ in runs]
            figures[f"  {told}: peak memory, MB (wanted: under 700)"] = [peak for _, _, peak in runs]
    finally:
        shutil.rmtree(folder)
    return figures


def _tried(path: Path, nodes: str, moved: int) -> tuple[float, float, float]:
    command = [sys.executable, "-c", _TRY, str(path), nodes, str(moved)]
    cpu, wall, peak = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return cpu, wall, peak
