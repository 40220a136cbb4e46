"""Volume claims that stop a pod before any node is looked at."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tonnage.decide.kubernetes.scheduler.scheduling import schedule
from tonnage.model.kubernetes.cluster import Node, Pod, Snapshot
from tonnage.model.kubernetes.selectors import LabelSelector, NodeSelectorTerm, Requirement
from tonnage.model.kubernetes.volumes import (
    PodVolume,
    StorageClass,
    StorageDriver,
    StorageLeft,
    Volume,
    VolumeClaim,
)
from tonnage.reading.volumes import disks_of
from tonnage.wire import objects as w

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
            replace(CLAIM, storage_class="unheard-of"),
            "pod has unbound immediate PersistentVolumeClaims",
            id="one of a class that does not exist",
        ),
        pytest.param(
            POD,
            replace(CLAIM, volume="pv", bound=True),
            'persistentvolume "pv" not found',
            id="one bound to a volume that does not exist",
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
        pytest.param(
            BOUND,
            {"volumes": (), "missing": frozenset(("PersistentVolume",))},
            "whose volumes were not read",
            id="volumes that were not read",
        ),
        pytest.param(
            BOUND,
            {"volumes": (replace(VOLUME, driver="", source=""),)},
            "whose volume pv is of a kind that is not judged",
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
            {"complete": frozenset(("CSINode", "Node", "PersistentVolume"))},
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
            LATER,
            {
                "storage_drivers": (StorageDriver("csi", counts_storage=True),),
                "missing": frozenset(("CSIStorageCapacity",)),
            },
            "for which csi must have storage left: CSIStorageCapacity was not read",
            id="a driver that counts",
        ),
        pytest.param(
            replace(CLAIM, storage_class="unheard-of"),
            {"missing": frozenset(("StorageClass",))},
            "whose class unheard-of is unknown",
            id="a class that was not read",
        ),
    ],
)
def test_volumes_that_stay_open(claim: VolumeClaim, changes: dict[str, Any], why: str) -> None:
    decision = schedule(POD, replace(CLUSTER, volume_claims=(claim,), **changes))
    assert decision.unmodelled == (f"volume v (persistentVolumeClaim), {why}",)
    assert (decision.chosen, decision.message) == (None, "")


SMALL = VolumeClaim("default", "small", storage_class="local", size=1, modes=frozenset(("ReadWriteOnce",)))
LARGE = replace(SMALL, name="large", size=5)
FREE = Volume("free", storage_class="local", size=5, modes=SMALL.modes, source="local", available=True)
LOCAL = StorageClass("local", waits=True, provisioner="kubernetes.io/no-provisioner")
HERE = (NodeSelectorTerm((Requirement("zone", "In", ("x",)),)),)
NAMED = (NodeSelectorTerm(fields=(Requirement("metadata.name", "In", ("b",)),)),)
LABELS = LabelSelector((Requirement("tier", "In", ("fast",)),))
BOTH = Pod("p", uid="u", volumes=(PodVolume("v", "small"), PodVolume("w", "large")))


@pytest.mark.parametrize(
    ("claims", "volumes", "fits"),
    [
        pytest.param((SMALL,), (FREE,), True, id="one that is free"),
        pytest.param((SMALL,), (replace(FREE, available=False),), False, id="one that is not"),
        pytest.param((SMALL,), (replace(FREE, storage_class="x"),), False, id="of another class"),
        pytest.param((SMALL,), (replace(FREE, size=0),), False, id="too small"),
        pytest.param((SMALL,), (replace(FREE, modes=frozenset()),), False, id="of other modes"),
        pytest.param((SMALL,), (replace(FREE, block=True),), False, id="without a file system"),
        pytest.param((SMALL,), (replace(FREE, attributes_class="gold"),), False, id="of other attributes"),
        pytest.param((SMALL,), (replace(FREE, terminating=True),), False, id="that goes"),
        pytest.param((SMALL,), (replace(FREE, nodes=HERE),), False, id="that other nodes reach"),
        pytest.param((SMALL,), (replace(FREE, nodes=NAMED),), True, id="whose nodes' names do not count"),
        pytest.param((SMALL,), (replace(FREE, nodes=()),), False, id="that no node reaches"),
        pytest.param((replace(SMALL, selector=LABELS),), (FREE,), False, id="without the labels asked for"),
        pytest.param(
            (replace(SMALL, selector=LABELS),),
            (replace(FREE, labels={"tier": "fast"}),),
            True,
            id="with the labels asked for",
        ),
        pytest.param((SMALL,), (replace(FREE, claim="default/other"),), False, id="made for another claim"),
        pytest.param(
            (replace(SMALL, selector=LABELS),),
            (replace(FREE, claim="default/small", available=False),),
            True,
            id="made for the claim, whatever it asks of labels",
        ),
        pytest.param(
            (replace(SMALL, uid="new"),),
            (replace(FREE, claim="default/small", claim_uid="old"),),
            False,
            id="made for a claim of that name that is gone",
        ),
        pytest.param(
            (SMALL,),
            (FREE, replace(FREE, name="own", claim="default/small", nodes=HERE)),
            False,
            id="another is made for the claim, and elsewhere",
        ),
        pytest.param((replace(SMALL, node="a"),), (FREE,), False, id="one is being made for the claim"),
        pytest.param((LARGE, SMALL), (FREE,), False, id="one for two claims"),
        pytest.param(
            (LARGE, SMALL),
            (FREE, replace(FREE, name="tiny", size=1)),
            True,
            id="the smaller claim takes the smaller volume",
        ),
    ],
)
def test_a_volume_that_stands_ready(
    claims: tuple[VolumeClaim, ...], volumes: tuple[Volume, ...], fits: bool
) -> None:
    pod = replace(BOTH, volumes=tuple(v for v in BOTH.volumes if any(v.claim == c.name for c in claims)))
    cluster = Snapshot((NODE,), storage_classes=(LOCAL,), volume_claims=claims, volumes=volumes)
    decision = schedule(pod, cluster)
    refused = "0/1 nodes are available: 1 node(s) didn't find available persistent volumes to bind."
    assert decision.unmodelled == ()
    assert decision.chosen == "a" if fits else decision.message.startswith(refused)


ROOM = StorageLeft("waits", 10, LabelSelector((Requirement("zone", "Exists"),)))


@pytest.mark.parametrize(
    ("left", "fits"),
    [
        pytest.param((ROOM,), True, id="enough"),
        pytest.param((replace(ROOM, size=9),), False, id="less"),
        pytest.param((replace(ROOM, size=None),), False, id="nobody knows how much"),
        pytest.param((replace(ROOM, storage_class="x"),), False, id="enough of another class"),
        pytest.param((replace(ROOM, nodes=None),), False, id="for nobody"),
        pytest.param((replace(ROOM, nodes=LABELS),), False, id="for other nodes"),
        pytest.param((replace(ROOM, size=9), ROOM), True, id="enough in one of two places"),
    ],
)
def test_a_driver_that_counts_its_storage(left: tuple[StorageLeft, ...], fits: bool) -> None:
    cluster = replace(
        CLUSTER,
        nodes=(replace(NODE, labels={"zone": "z"}),),
        volume_claims=(replace(LATER, size=10),),
        storage_drivers=(StorageDriver("csi", counts_storage=True),),
        storage_left=left,
    )
    decision = schedule(POD, cluster)
    refused = "0/1 nodes are available: 1 node(s) did not have enough free storage."
    assert decision.chosen == "a" if fits else decision.message.startswith(refused)
    rated = "volume v (persistentVolumeClaim), for which nodes are rated by the storage that it would leave"
    assert schedule(POD, cluster, version="1.37").unmodelled == ((rated,) if fits else ())


ALONE = replace(BOUND, modes=frozenset(("ReadWriteOncePod",)))
IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by "
    "another pod"
)
NOBODY = "No preemption victims found for incoming pod"


@pytest.mark.parametrize(
    ("users", "priority", "suffix", "nominated"),
    [
        pytest.param((USER,), 0, f"preemption: 0/2 nodes are available: 2 {NOBODY}.", None, id="an equal"),
        pytest.param((USER,), 9, "", "a", id="one that gives way"),
        pytest.param(
            (USER, replace(USER, name="more", uid="m", node_name="b")), 9, "", "a", id="one of two gives way"
        ),
        pytest.param(
            (replace(USER, priority=9), Pod("lesser", uid="l", node_name="b")),
            5,
            f"preemption: 0/2 nodes are available: 1 {NOBODY}, 1 {IN_USE}.",
            None,
            id="one that stays, whoever else goes",
        ),
        pytest.param(
            (USER, replace(USER, name="x", namespace="other", uid="x", node_name="b")),
            9,
            "",
            "a",
            id="a claim of that name elsewhere counts when its pod goes",
        ),
    ],
)
def test_a_volume_for_one_pod_at_a_time(
    users: tuple[Pod, ...], priority: int, suffix: str, nominated: str | None
) -> None:
    nodes = (NODE, replace(NODE, name="b"))
    cluster = replace(CLUSTER, nodes=nodes, pods=users, volume_claims=(ALONE,), volume_limits={})
    decision = schedule(replace(POD, priority=priority), cluster)
    told = f" no new claims to deallocate, {suffix}" if suffix else ""
    assert decision.message == f"0/2 nodes are available: 2 {IN_USE}.{told}"
    assert decision.nominated == nominated


IMAGES: list[dict[str, Any]] = [
    {"rbd": {"monitors": monitors, "pool": "rbd", "image": image, "readOnly": True}}
    for monitors, image in ((["a", "b"], "i"), (["b", "c"], "i"), (["c"], "i"), (["a"], "j"))
]


@pytest.mark.parametrize(
    ("here", "expected", "fits"),
    [
        ({"gcePersistentDisk": {"pdName": "d"}}, {"gcePersistentDisk": {"pdName": "d"}}, False),
        ({"gcePersistentDisk": {"pdName": "d"}}, {"gcePersistentDisk": {"pdName": "e"}}, True),
        (
            {"gcePersistentDisk": {"pdName": "d", "readOnly": True}},
            {"gcePersistentDisk": {"pdName": "d", "readOnly": True}},
            True,
        ),
        ({"iscsi": {"iqn": "d", "readOnly": True}}, {"iscsi": {"iqn": "d"}}, False),
        (
            {"awsElasticBlockStore": {"volumeID": "d", "readOnly": True}},
            {"awsElasticBlockStore": {"volumeID": "d", "readOnly": True}},
            False,
        ),
        ({"azureDisk": {"diskURI": "d"}}, {"azureDisk": {"diskURI": "d"}}, True),
        ({"rbd": {**IMAGES[0]["rbd"], "readOnly": False}}, IMAGES[1], False),
        ({"rbd": {**IMAGES[0]["rbd"], "readOnly": False}}, IMAGES[2], True),
        ({"rbd": {**IMAGES[0]["rbd"], "readOnly": False}}, IMAGES[3], True),
        (IMAGES[0], IMAGES[0], True),
    ],
)
def test_a_disk_is_for_one_pod_of_a_node(here: dict[str, Any], expected: dict[str, Any], fits: bool) -> None:
    disks = [
        disks_of(w.PodSpec(volumes=[{"name": "v", **volume}], containers=[])) for volume in (here, expected)
    ]
    holder = Pod("holder", node_name="a", disks=disks[0])
    cluster = Snapshot((NODE,), (holder,))
    decision = schedule(Pod("p", disks=disks[1]), cluster, version="1.35")
    assert decision.chosen == ("a" if fits else None)
    if not fits:
        assert decision.message.startswith("0/1 nodes are available: 1 node(s) had no available disk. ")


def test_a_driver_that_may_count_a_disk_leaves_it_open() -> None:
    pod = Pod("p", disks=disks_of(w.PodSpec(volumes=[{"name": "v", "gcePersistentDisk": {"pdName": "d"}}])))
    driver = "pd.csi.storage.gke.io"
    cluster = Snapshot((NODE,), volume_limits={"a": {driver: 1}})
    [why] = schedule(pod, cluster, version="1.35").unmodelled
    assert why == f"volume v (gcePersistentDisk), which {driver} may count among those that it attaches"
