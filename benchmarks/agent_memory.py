"""The memory of a whole agent: bare, with the page of device metrics, with labels, and as driver for claims.

Each is a process on a node of 8 GPUs shared by 4, beside an API server, scraped for a while; pods have half
of them. The driver for claims has the other half, has registered at kubelet, and has prepared a claim.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from benchmarks.claims import allocated_claim
from benchmarks.plugin_sides import Node, Start, bench_node, made_node, running, tonnage
from support.claim_kubelet import ClaimKubelet, eventually
from tonnage.adapters.kubernetes.client import connect
from tonnage.wire import kinds

NODE: Final = "bench"
GPUS, SHARERS = 8, 4
SETTLE_S = 4.0
"""Until labels and status are published."""
CLAIMS: Final = ("--claims",)
LABELS: Final = ("--labels", "direct")


def measure_memory(port: int, scraped: Callable[[int], None]) -> dict[str, list[float]]:
    """Resident megabytes. `scraped` asks the agent of that process for its page at `port`, many times."""
    page = ("--exporter-address", f"127.0.0.1:{port}")
    figures: dict[str, list[float]] = {}
    for name, flags in (
        ("without the page", ()),
        ("with the page (wanted: under 80)", page),
        ("with the page and labels", (*page, *LABELS)),
        ("with the page, labels and the driver for claims (wanted: 90 at most)", (*page, *LABELS, *CLAIMS)),
    ):
        with bench_node() as kubeconfig, made_node(GPUS, SHARERS) as node:
            kubelet = _offer_claims(node) if "--claims" in flags else None
            node.kubelet.holders = {"nvidia.com/gpu": node.ids[: len(node.ids) // 2]}
            with running("tonnage", _started_with(kubeconfig, flags), node) as agent:
                time.sleep(SETTLE_S)
                if kubelet is not None:
                    asyncio.run(_prepared(kubelet, Path(kubeconfig)))
                if flags:
                    scraped(agent.process.pid)
                figures[f"whole agent {name}: resident memory, MB"] = [agent.resident_mb()]
    *_, without, full = (values[0] for values in figures.values())
    figures["the driver for claims adds: resident memory, MB (wanted: 10 at most)"] = [full - without]
    return figures


def _started_with(kubeconfig: str, flags: Sequence[str]) -> Start:
    return lambda node: tonnage(node, "--kubeconfig", kubeconfig, *flags)


def _offer_claims(node: Node) -> ClaimKubelet:
    """Half of the GPUs are for claims from now on."""
    with node.config.open("a") as file:
        file.write(f"claims: {{devices: {[*range(GPUS // 2, GPUS)]}}}\n")
    return ClaimKubelet(node.root)


async def _prepared(kubelet: ClaimKubelet, kubeconfig: Path) -> None:
    """Register the driver as kubelet does, and have a claim prepared."""
    await kubelet.register()
    async with connect(kubeconfig) as api:

        async def published() -> bool:
            return bool((await api.list(kinds.RESOURCE_SLICE)).items)

        await eventually(published)
        claim = await allocated_claim(api, "claim", NODE, GPUS - 1, namespace="default")
    answer = (await kubelet.prepare(claim))[claim.uid]
    if answer.error:
        raise RuntimeError(answer.error)
