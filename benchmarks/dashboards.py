"""How long each panel takes over 1,000 GPUs: a genuine Prometheus with an hour of their metrics, each 30 s.

The hour is written as OpenMetrics text and becomes blocks by `promtool tsdb create-blocks-from`; the genuine
programs evaluate the recording rules over it. Each query of each dashboard is asked for an hour, step 60 s.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, TextIO

import yaml

from benchmarks.prometheus_server import Server, page_server, promtool, serving
from tonnage.diagnose.monitoring.rules import RECORDINGS, rules_file
from tonnage.documents.exporter_counters import default_counters
from tonnage.model.catalog.dashboards import dashboards
from tonnage.model.node.telemetry import CounterType

NODES: Final = 125
GPUS: Final = 8
HOUR_S: Final = 3600
INTERVAL_S: Final = 30
STEP_S: Final = 60
RUNS: Final = 10
SCRAPES: Final = 20
"""At a sixth of the interval, before memory is looked at."""
_OF_DEVICES: Final = (
    ("tonnage_gpu_info", 'product="NVIDIA H100 80GB HBM3",sharing="none",mig_mode="disabled"'),
    ("tonnage_gpu_health", 'state="healthy"'),
    ("tonnage_gpu_sharing_replicas", 'resource="nvidia.com/gpu",mode="none"'),
    ("tonnage_gpu_driver_stall_seconds", ""),
    ("tonnage_exporter_reading_age_seconds", ""),
)
_OF_NODES: Final = (
    *("tonnage_gpu_resource_allocatable", "tonnage_gpu_resource_held", "tonnage_cluster_resource_capacity"),
    *("tonnage_cluster_resource_allocatable", "tonnage_cluster_resource_requested"),
)


def measure(rounds: int) -> dict[str, list[float]]:
    """Seconds of each panel's slowest query, the slowest panel named first; how large it all is."""
    del rounds  # a median of ten is asked for
    with tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as name:
        folder, end_s = Path(name), int(time.time()) // STEP_S * STEP_S - STEP_S
        series = _blocks(folder, end_s)
        with serving(folder) as server:
            _record(folder, server, end_s)
        with serving(folder) as server:
            taken = {panel: _ask(server, expr, end_s) for panel, expr in _queries()}
            memory_mib = server.memory_mib()
        head_series, head_mib = _scraped(folder)
    ordered = sorted(taken.items(), key=lambda pair: -statistics.median(pair[1]))
    figures = {f"{panel} over {NODES * GPUS:,} GPUs, s": runs for panel, runs in ordered}
    return {
        "worst panel: " + next(iter(figures)): ordered[0][1],
        **figures,
        f"series of {NODES * GPUS:,} GPUs": [float(series)],
        "memory of Prometheus after all panels, of blocks alone, MiB": [memory_mib],
        f"series that it scrapes of {NODES * GPUS:,} GPUs": [head_series],
        "memory of Prometheus that scrapes them, MiB": [head_mib],
    }


def _scraped(folder: Path) -> tuple[float, float]:
    """Series and memory of a Prometheus that has scraped every node's page for a while."""
    pages = {f"/{node}": _page(node) for node in range(NODES)}
    with (
        page_server(pages) as address,
        serving(folder, pages=[f"{address}{path}" for path in pages]) as server,
    ):
        time.sleep(SCRAPES * INTERVAL_S / 6)
        return server.head_series(), server.memory_mib()


def _page(node: int) -> str:
    """What an exporter of the node shows."""
    lines = []
    for name, rows in _families():
        lines += [f"{name}{{{row.rstrip(',')}}} 1" for row in rows if f'node="node-{node}"' in row]
    return "\n".join(lines) + "\n"


def _queries() -> Iterator[tuple[str, str]]:
    """What each panel asks, with everything chosen."""
    for board in dashboards():
        for panel in board.panels:
            for number, query in enumerate(panel.queries):
                expr = query.expr.replace("$__rate_interval", "2m")
                for variable in ("node", "gpu", "namespace"):
                    expr = expr.replace(f"${variable}", ".*")
                yield f"{board.name}: {panel.title} ({number + 1})", expr


def _ask(server: Server, expr: str, end_s: int) -> list[float]:
    """Seconds of each run."""
    runs = []
    for _ in range(RUNS):
        began = time.perf_counter()
        server.query_range(expr, end_s - HOUR_S, end_s, STEP_S)
        runs.append(time.perf_counter() - began)
    return runs


def _blocks(folder: Path, end_s: int) -> int:
    """Write the hour and make blocks of it; how many series it has."""
    text = folder / "hour.om"
    with text.open("w") as file:
        series = sum(_family(file, name, rows, end_s) for name, rows in _families())
        file.write("# EOF\n")
    promtool("tsdb", "create-blocks-from", "openmetrics", str(text), str(folder / "data"))
    text.unlink()
    return series


def _record(folder: Path, server: Server, end_s: int) -> None:
    """Evaluate the recording rules over the hour."""
    rules = {"groups": [group for group in _groups() if group["name"] == RECORDINGS]}
    (folder / "recordings.yaml").write_text(yaml.safe_dump(rules))
    times = (f"--start={end_s - HOUR_S}", f"--end={end_s}", f"--eval-interval={STEP_S}s")
    promtool(
        *("tsdb", "create-blocks-from", "rules", *times, f"--url={server.url}"),
        *(f"--output-dir={folder / 'data'}", str(folder / "recordings.yaml")),
    )


def _groups() -> list[Mapping[str, object]]:
    groups = rules_file()["groups"]
    assert isinstance(groups, list)
    return [group for group in groups if isinstance(group, dict)]


def _families() -> Iterator[tuple[str, list[str]]]:
    """Each metric with the labels of its series."""
    devices = [_device(node, gpu) for node in range(NODES) for gpu in range(GPUS)]
    for counter in default_counters():
        if counter.type is not CounterType.LABEL:
            extra = ',err_code="0",err_msg="No Error"' if "XID" in counter.name else ""
            yield counter.name, [f"{device}{extra}" for device in devices]
    for name, labels in _OF_DEVICES:
        yield name, [f"{_place(node, gpu)},{labels}" for node in range(NODES) for gpu in range(GPUS)]
    for name in _OF_NODES:
        yield name, [f'node="node-{node}",resource="nvidia.com/gpu"' for node in range(NODES)]
    mode = 'mode="exclusive",product="NVIDIA-H100-80GB-HBM3"'
    yield (
        "tonnage_cluster_resource_info",
        [f'node="node-{node}",resource="nvidia.com/gpu",{mode}' for node in range(NODES)],
    )


def _place(node: int, gpu: int) -> str:
    return f'gpu="{gpu}",UUID="GPU-{node:08x}-0000-4000-8000-{gpu:012x}",node="node-{node}"'


def _device(node: int, gpu: int) -> str:
    """Labels as a page and a scrape give them; pods hold three of four GPUs."""
    pod = f',container="main",namespace="team-{node % 20}",pod="job-{node}-{gpu}"' if gpu % 4 else ""
    return (
        f'{_place(node, gpu)},pci_bus_id="00000000:{gpu:02x}:00.0",device="nvidia{gpu}",'
        f'modelName="NVIDIA H100 80GB HBM3",Hostname="node-{node}",DCGM_FI_DRIVER_VERSION="570.124.06",'
        f'instance="192.0.2.{node}:9400",job="tonnage-exporter"{pod}'
    )


def _family(file: TextIO, name: str, rows: list[str], end_s: int) -> int:
    """Write the samples of a metric; values wander, as those of devices do."""
    file.write(f"# TYPE {name} gauge\n")
    moments = range(end_s - HOUR_S - 2 * INTERVAL_S, end_s + 1, INTERVAL_S)
    for number, labels in enumerate(rows):
        head = f"{name}{{{labels.rstrip(',')}}}"
        file.writelines(f"{head} {(number * 7 + moment // INTERVAL_S) % 97} {moment}\n" for moment in moments)
    return len(rows)
