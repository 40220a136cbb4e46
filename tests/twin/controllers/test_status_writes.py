"""What controllers say of a pod stands behind what was said before."""

from __future__ import annotations

from typing import Any

from tonnage.loop.status_writes import tell_of_pod
from tonnage.model.json import JsonObject
from tonnage.wire.kinds import POD

Cluster = Any


async def test_new_conditions_of_a_pod_stand_behind_the_others(cluster: Cluster) -> None:
    await cluster.apply(POD, "train", cluster.template())
    for name, status in (("PodScheduled", "True"), ("DisruptionTarget", "True"), ("PodScheduled", "False")):
        [pod] = await cluster.all(POD)
        condition: JsonObject = {"type": name, "status": status}
        await tell_of_pod(cluster.api, pod, {"conditions": [condition]})
    [pod] = await cluster.all(POD)
    told = [(one.type, one.status) for one in pod.status.conditions]
    assert told == [("PodScheduled", "False"), ("DisruptionTarget", "True")]
