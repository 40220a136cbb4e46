"""`tonnage-load` inside a pretended container: what the twin's model says of the container's workload."""

from __future__ import annotations

import re
from typing import Final

from tonnage.twin.kubelet.containers.runtime_port import ContainerContext

_P95: Final = re.compile(r"--p95=(?P<ms>[0-9]{1,6})ms")
_P95_S: Final = 0.05
_USAGE: Final = "usage: tonnage-load [--p95=MILLISECONDSms]\n"
_NONE: Final = "this pod has no annotation tonnage.dev/pretended-load with requests to answer\n"


async def tonnage_load(context: ContainerContext) -> int:
    """Throughput and latency of the services that share the container's GPU, and how they should share."""
    matches = [_P95.fullmatch(word) for word in context.argv[1:]]
    if len(matches) > 1 or None in matches:
        context.stdio.write_error(_USAGE.encode())
        return 2
    latency_s = next((int(match["ms"]) / 1000 for match in matches if match), _P95_S)
    report = context.load_report(latency_s)
    context.stdio.write((report or _NONE).encode())
    return 0 if report else 1
