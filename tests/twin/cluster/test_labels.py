"""The agents of a twin label their nodes when they are told to, and everything else stays as it was."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from support.fleet import Fleet
from tonnage.agent.labels.sinks import OWNED
from tonnage.diagnose.status import fleet as rows_of
from tonnage.reading.cluster import snapshot_from
from tonnage.wire.kinds import DAEMON_SET, NODE, NODE_GPU_STATUS, POD


async def status(fleet: Fleet) -> list[dict[str, Any]]:
    """The rows of `tonnage status`, without how much memory is in use at this moment."""
    objects = [obj for kind in (NODE, POD, NODE_GPU_STATUS) for obj in (await fleet.api.list(kind)).items]
    rows = [asdict(row) for row in rows_of(snapshot_from(objects))]
    for row in rows:
        del row["used_mib"]
        for device in row["devices"]:
            del device["used_mib"]
    return rows


async def test_nodes_are_labelled_and_status_is_the_same(fleet: Fleet) -> None:
    async def settled() -> bool:
        rows = await status(fleet)
        told = [row for row in rows if row["allocatable"] and row["devices"]]
        return bool(told) and not any(row["troubles"] for row in rows)

    await fleet.until(settled)
    before = await status(fleet)
    (agents,) = (await fleet.api.list(DAEMON_SET)).items
    await fleet.kubectl(
        *("-n", agents.metadata.namespace, "set", "env", f"daemonset/{agents.metadata.name}"),
        "TONNAGE_LABELS=direct",
    )

    async def labelled() -> bool:
        return OWNED in (await fleet.api.get(NODE, "t4-0")).metadata.annotations

    await fleet.until(labelled)
    meta = (await fleet.api.get(NODE, "t4-0")).metadata
    assert (
        meta.labels.items()
        >= {
            "nvidia.com/gpu.product": "Tesla-T4",
            "nvidia.com/gpu.count": "2",
            "nvidia.com/gpu.replicas": "1",
            "nvidia.com/cuda.driver.major": "570",
            "tonnage.dev/gpu.Tesla-T4.count": "2",
        }.items()
    )
    assert OWNED not in (await fleet.api.get(NODE, "cpu-0")).metadata.annotations

    async def same() -> bool:
        return await status(fleet) == before

    await fleet.until(same)
