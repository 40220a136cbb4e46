"""Volume claims that stop a pod before any node is looked at."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tonnage.decide.cluster.scheduling import schedule
from tonnage.model.cluster import Node, Pod, Snapshot
from tonnage.model.volumes import PodVolume, StorageClass, VolumeClaim

NODE = Node("a", allocatable={"cpu": 8000, "memory": 2**36, "pods": 110})
CLAIM = VolumeClaim("default", "data")
POD = Pod("p", uid="u", volumes=(PodVolume("v", "data"),))
SCRATCH = Pod("p", uid="u", volumes=(PodVolume("v", "p-v", ephemeral=True),))
WAITS, AT_ONCE = StorageClass("waits", waits=True, provisioner="csi"), StorageClass("at-once")


@pytest.mark.parametrize(
    ("pod", "claim", "text"),
    [
        pytest.param(POD, None, 'persistentvolumeclaim "data" not found', id="a claim that is missing"),
        pytest.param(
            SCRATCH,
            None,
            'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-v"',
            id="one that is made for the pod takes a moment",
        ),
        pytest.param(
            SCRATCH,
            replace(CLAIM, name="p-v", owner="other"),
            "PVC default/p-v was not created for pod default/p (pod is not owner)",
            id="one of that name that is not the pod's",
        ),
        pytest.param(
            POD,
            replace(CLAIM, lost=True, volume="pv"),
            'persistentvolumeclaim "data" bound to non-existent persistentvolume "pv"',
            id="one whose volume is gone",
        ),
        pytest.param(
            POD,
            replace(CLAIM, terminating=True),
            'persistentvolumeclaim "data" is being deleted',
            id="one that goes",
        ),
        pytest.param(
            POD, CLAIM, "pod has unbound immediate PersistentVolumeClaims", id="one without a class"
        ),
        pytest.param(
            POD,
            replace(CLAIM, storage_class="at-once"),
            "pod has unbound immediate PersistentVolumeClaims",
            id="one that should be bound by now",
        ),
        pytest.param(
            POD,
            replace(CLAIM, storage_class="waits", volume="pv"),
            "pod has unbound immediate PersistentVolumeClaims",
            id="one promised a volume and not bound to it",
        ),
    ],
)
def test_what_no_node_can_help(pod: Pod, claim: VolumeClaim | None, text: str) -> None:
    claims = (claim,) if claim is not None else ()
    cluster = Snapshot((NODE,), volume_claims=claims, storage_classes=(WAITS, AT_ONCE))
    assert schedule(pod, cluster).message == f"0/1 nodes are available: {text}. not found"


@pytest.mark.parametrize(
    "claim",
    [
        pytest.param(replace(CLAIM, volume="pv", bound=True), id="bound: which nodes reach it"),
        pytest.param(replace(CLAIM, storage_class="waits"), id="to be bound: where its storage can be made"),
        pytest.param(replace(CLAIM, storage_class="unheard-of"), id="of a class that was not read"),
    ],
)
def test_what_depends_on_the_node_is_unknown(claim: VolumeClaim) -> None:
    decision = schedule(POD, Snapshot((NODE,), volume_claims=(claim,), storage_classes=(WAITS,)))
    assert decision.unmodelled == ("volume v (persistentVolumeClaim)",)
    assert (decision.chosen, decision.message) == (None, "")
