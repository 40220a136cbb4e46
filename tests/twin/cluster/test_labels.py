"""The agents of a twin keep their nodes' labels, which people practise selectors on."""

from __future__ import annotations

from support.fleet import Fleet
from tonnage.model.names import AGENTS_LABELS, CONFIG_LABEL
from tonnage.wire.kinds import NODE


async def labels_of(fleet: Fleet, node: str = "t4-0") -> dict[str, str]:
    return (await fleet.api.get(NODE, node)).metadata.labels


async def test_labels_follow_the_configuration(fleet: Fleet) -> None:
    async def published() -> bool:
        return AGENTS_LABELS in (await fleet.api.get(NODE, "t4-0")).metadata.annotations

    await fleet.until(published)
    before = await labels_of(fleet)
    assert (await fleet.api.get(NODE, "t4-0")).metadata.annotations[
        AGENTS_LABELS
    ] == "nvidia.com/gfd.timestamp"
    assert AGENTS_LABELS not in (await fleet.api.get(NODE, "cpu-0")).metadata.annotations

    await fleet.kubectl("label", "node", "t4-0", f"{CONFIG_LABEL}=shared")

    async def shared() -> bool:
        return (await labels_of(fleet))["nvidia.com/gpu.replicas"] == "4"

    await fleet.until(shared)
    assert (await labels_of(fleet))["nvidia.com/gpu.sharing-strategy"] == "time-slicing"
    chosen = ("get", "nodes", "-o", "name", "-l", "nvidia.com/gpu.sharing-strategy=time-slicing")
    assert await fleet.kubectl(*chosen) == "node/t4-0\n"

    await fleet.kubectl("label", "node", "t4-0", f"{CONFIG_LABEL}-")

    async def as_before() -> bool:
        return await labels_of(fleet) == before

    await fleet.until(as_before)
