"""Volume claims that stop a pod before any node is looked at."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tonnage.decide.cluster.scheduling import schedule
from tonnage.model.cluster import Node, Pod, Snapshot
from tonnage.model.volumes import PodVolume, StorageClass, StorageDriver, Volume, VolumeClaim

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


BOUND = replace(CLAIM, volume="pv", bound=True)
VOLUME = Volume("pv", claim="default/data", driver="disks", source="csi")
LATER = replace(CLAIM, storage_class="waits")
CLUSTER = Snapshot((NODE,), storage_classes=(WAITS,), volumes=(VOLUME,), volume_limits={"a": {"disks": 2}})
USER = Pod("other", uid="o", node_name="a", volumes=POD.volumes)


@pytest.mark.parametrize(
    ("claim", "changes"),
    [
        pytest.param(BOUND, {}, id="bound, to a volume that every node reaches"),
        pytest.param(BOUND, {"attachments": {"a": {"pv": "disks"}}}, id="attached there already"),
        pytest.param(BOUND, {"attachments": {"b": {"pv": "disks", "x": "disks"}}}, id="others elsewhere"),
        pytest.param(LATER, {}, id="to be made once the pod has a node"),
        pytest.param(LATER, {"storage_drivers": (StorageDriver("csi"),)}, id="by a driver that counts not"),
        pytest.param(replace(BOUND, modes=frozenset(("ReadWriteOncePod",))), {}, id="for one pod, of none"),
        pytest.param(
            BOUND,
            {"volumes": (replace(VOLUME, driver="", source="nfs"),), "missing": frozenset(("CSIDriver",))},
            id="on a file server",
        ),
    ],
)
def test_volumes_that_the_objects_decide(claim: VolumeClaim, changes: dict[str, Any]) -> None:
    decision = schedule(POD, replace(CLUSTER, volume_claims=(claim,), **changes))
    assert (decision.chosen, decision.message, decision.unmodelled) == ("a", "", ())


def test_what_is_attached_counts_even_if_no_pod_uses_it() -> None:
    others = tuple(replace(VOLUME, name=name) for name in ("x", "y"))
    left = {"a": {"x": "disks", "y": "disks"}}
    cluster = replace(CLUSTER, volume_claims=(BOUND,), volumes=(VOLUME, *others), attachments=left)
    assert schedule(POD, cluster).message.startswith(
        "0/1 nodes are available: 1 node(s) exceed max volume count"
    )


@pytest.mark.parametrize(
    ("claim", "changes", "why"),
    [
        pytest.param(BOUND, {"volumes": ()}, "of which the volume pv is not known", id="no volume"),
        pytest.param(
            BOUND,
            {"volumes": (replace(VOLUME, driver="", source=""),)},
            "of which the volume pv is of a kind that is not judged",
            id="a volume of a driver inside Kubernetes",
        ),
        pytest.param(
            BOUND,
            {"missing": frozenset(("VolumeAttachment",))},
            "of which the driver disks is judged by VolumeAttachment, which were not read",
            id="what is attached was not read",
        ),
        pytest.param(
            BOUND,
            {"complete": frozenset(("CSINode", "Node"))},
            "of which the driver disks is judged by CSIDriver and VolumeAttachment, which were not read",
            id="a file of an older release",
        ),
        pytest.param(
            BOUND,
            {"storage_drivers": (StorageDriver("disks", must_be_there=True),)},
            "for which disks must run on the node",
            id="a driver that must be there",
        ),
        pytest.param(
            replace(BOUND, modes=frozenset(("ReadWriteOncePod",))),
            {"pods": (USER,)},
            "which one pod at a time may use, and other does",
            id="for one pod, of another",
        ),
        pytest.param(
            LATER,
            {"storage_drivers": (StorageDriver("csi", counts_storage=True),)},
            "for which csi must have storage left, which is not judged",
            id="a driver that counts",
        ),
        pytest.param(
            LATER,
            {"volumes": (Volume("free", storage_class="waits", available=True),)},
            "for which a volume of the class waits may be taken that is there",
            id="a volume that is free",
        ),
        pytest.param(
            replace(CLAIM, storage_class="unheard-of"),
            {},
            "of which the class unheard-of is not known",
            id="a class that was not read",
        ),
    ],
)
def test_volumes_that_stay_open(claim: VolumeClaim, changes: dict[str, Any], why: str) -> None:
    decision = schedule(POD, replace(CLUSTER, volume_claims=(claim,), **changes))
    assert decision.unmodelled == (f"volume v (persistentVolumeClaim), {why}",)
    assert (decision.chosen, decision.message) == (None, "")
