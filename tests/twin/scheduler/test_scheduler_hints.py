"""Which changes of the cluster wake a pod that was refused, by the plugin that did."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tonnage.decide.kubernetes.scheduler.filters import (
    claims,
    node_affinity,
    node_unschedulable,
    pod_affinity,
    ports,
    resources,
    taints,
    topology_spread,
    volume_use,
    volumes,
)
from tonnage.loop.informer import Delta
from tonnage.model.kubernetes.cluster import (
    Affinity,
    Container,
    HostPort,
    Node,
    Pod,
    PodTerm,
    SpreadConstraint,
)
from tonnage.model.kubernetes.resource_claims import PodClaim
from tonnage.model.kubernetes.selectors import LabelSelector, Requirement, Taint, Toleration
from tonnage.model.kubernetes.volumes import Disk, PodVolume
from tonnage.twin.scheduler.hints import GATES, node_helps, pod_helps
from tonnage.twin.scheduler.volume_hints import volume_helps
from tonnage.wire import claims as c
from tonnage.wire import objects as w

DB = LabelSelector((Requirement("app", "In", ("db",)),))
NODE = Node("a", {"tier": "gold", "zone": "z1", "rack": "r1"}, allocatable={"pods": 10, "gpu": 1})
SMALL = replace(NODE, allocatable={"pods": 9, "gpu": 1})
TAINTED = replace(NODE, taints=(Taint("sick", "", "NoSchedule"),))
CLOSED = replace(NODE, unschedulable=True)
ELSEWHERE = replace(NODE, labels={**NODE.labels, "zone": "z2"})
NOWHERE = replace(NODE, labels={"tier": "gold", "rack": "r1"})
DISKS = (Disk("d", "iscsi", frozenset("i")),)
POD = Pod(
    "p",
    "ns",
    "mine",
    node_selector={"tier": "gold"},
    containers=(Container(requests={"gpu": 1}),),
    affinity=Affinity(pods=(PodTerm("zone", DB),)),
    spread=(SpreadConstraint("zone", 1, hard=True, selector=DB),),
    host_ports=(HostPort(80),),
    volumes=(PodVolume("v", "data"),),
    disks=DISKS,
)
SHY = replace(POD, affinity=Affinity(anti=(PodTerm("zone", DB),)))


@pytest.mark.parametrize(
    ("plugin", "before", "after", "helps"),
    [
        (resources.NAME, None, NODE, True),
        (resources.NAME, SMALL, NODE, True),
        (resources.NAME, NODE, SMALL, False),
        (resources.NAME, None, replace(NODE, allocatable={}), False),
        (taints.NAME, TAINTED, NODE, True),
        (taints.NAME, NODE, TAINTED, False),
        (taints.NAME, None, TAINTED, False),
        (taints.NAME, NODE, replace(NODE, taints=(Taint("x", "", "PreferNoSchedule"),)), False),
        (node_affinity.NAME, replace(NODE, labels={}), NODE, True),
        (node_affinity.NAME, NODE, replace(NODE, labels={"tier": "gold", "x": "y"}), False),
        (node_affinity.NAME, None, replace(NODE, labels={}), False),
        (node_affinity.NAME, NODE, TAINTED, True),
        (node_affinity.NAME, CLOSED, NODE, True),
        (node_affinity.NAME, NODE, CLOSED, False),
        (node_unschedulable.NAME, NODE, TAINTED, False),
        (volumes.LIMITS, NODE, TAINTED, False),
        (node_unschedulable.NAME, CLOSED, NODE, True),
        (node_unschedulable.NAME, None, CLOSED, False),
        (ports.NAME, None, NODE, True),
        (ports.NAME, NODE, ELSEWHERE, False),
        (ports.NAME, NODE, TAINTED, True),
        (topology_spread.NAME, NODE, None, True),
        (topology_spread.NAME, NOWHERE, None, False),
        (topology_spread.NAME, None, NOWHERE, False),
        (topology_spread.NAME, NODE, ELSEWHERE, True),
        (topology_spread.NAME, NODE, NOWHERE, True),
        (topology_spread.NAME, NODE, TAINTED, True),
        (topology_spread.NAME, NODE, SMALL, False),
        (pod_affinity.NAME, NODE, None, False),
        (pod_affinity.NAME, None, NODE, True),
        (pod_affinity.NAME, NODE, ELSEWHERE, True),
        (pod_affinity.NAME, NODE, NOWHERE, False),
        (pod_affinity.NAME, NODE, replace(NODE, labels={**NODE.labels, "x": "y"}), False),
        (volumes.NAME, NODE, ELSEWHERE, True),
        (volume_use.NAME, None, NODE, True),
        (claims.NAME, NODE, SMALL, True),
        (claims.NAME, NODE, CLOSED, False),
    ],
)
def test_a_node_wakes_the_pods_that_it_may_help(
    plugin: str, before: Node | None, after: Node | None, helps: bool
) -> None:
    assert node_helps(frozenset((plugin,)), POD, before, after) is helps


@pytest.mark.parametrize(("after", "helps"), [(NOWHERE, True), (ELSEWHERE, True), (CLOSED, False)])
def test_a_node_that_leaves_its_domain_may_help_a_pod_that_avoids_others(after: Node, helps: bool) -> None:
    assert node_helps(frozenset((pod_affinity.NAME,)), SHY, NODE, after) is helps


OTHER = Pod("o", "ns", "theirs", node_name="a", containers=(Container(requests={"gpu": 1}),))
AS_DB = replace(OTHER, labels={"app": "db"})
WAITING = replace(AS_DB, node_name="")


@pytest.mark.parametrize(
    ("plugin", "before", "after", "helps"),
    [
        (resources.NAME, OTHER, None, True),
        (resources.NAME, None, OTHER, False),
        (resources.NAME, OTHER, AS_DB, False),
        (resources.NAME, OTHER, replace(OTHER, containers=()), True),
        (resources.NAME, replace(OTHER, overhead={"cpu": 5}), OTHER, False),
        (ports.NAME, OTHER, None, False),
        (ports.NAME, replace(OTHER, host_ports=(HostPort(80),)), None, True),
        (ports.NAME, replace(OTHER, host_ports=(HostPort(81),)), None, False),
        (topology_spread.NAME, None, OTHER, False),
        (topology_spread.NAME, None, AS_DB, True),
        (topology_spread.NAME, AS_DB, None, True),
        (topology_spread.NAME, OTHER, AS_DB, True),
        (topology_spread.NAME, WAITING, None, False),
        (topology_spread.NAME, replace(AS_DB, namespace="far"), None, False),
        (pod_affinity.NAME, None, AS_DB, True),
        (pod_affinity.NAME, None, OTHER, False),
        (pod_affinity.NAME, AS_DB, None, False),
        (pod_affinity.NAME, OTHER, AS_DB, True),
        (pod_affinity.NAME, None, replace(AS_DB, namespace="far"), False),
        (volume_use.NAME, replace(OTHER, volumes=(PodVolume("x", "data"),)), None, True),
        (volume_use.NAME, replace(OTHER, volumes=(PodVolume("x", "other"),)), None, False),
        (volume_use.NAME, replace(OTHER, namespace="far", disks=DISKS), None, False),
        (volume_use.NAME, replace(OTHER, disks=DISKS), None, True),
        (volumes.LIMITS, replace(OTHER, volumes=(PodVolume("x", "other"),)), None, True),
        (volumes.LIMITS, OTHER, None, False),
        (taints.NAME, OTHER, None, False),
        (taints.NAME, POD, replace(POD, tolerations=(Toleration("x", "Exists"),)), True),
        (taints.NAME, POD, replace(POD, labels={"a": "b"}), False),
        (node_unschedulable.NAME, POD, replace(POD, tolerations=(Toleration("x", "Exists"),)), False),
        (node_unschedulable.NAME, POD, replace(POD, tolerations=(Toleration("", "Exists"),)), True),
        (topology_spread.NAME, POD, replace(POD, labels={"app": "db"}), True),
        (topology_spread.NAME, POD, replace(POD, labels={"app": "x"}), False),
        (resources.NAME, POD, replace(POD, labels={"app": "x"}), False),
        (GATES, replace(POD, gates=("x",)), POD, True),
        (GATES, replace(POD, gates=("x", "y")), replace(POD, gates=("y",)), False),
        (claims.NAME, POD, replace(POD, claims=(PodClaim("x", made="y"),)), True),
        (claims.NAME, POD, replace(POD, labels={"app": "x"}), False),
    ],
)
def test_a_pod_wakes_the_pods_that_it_may_help(
    plugin: str, before: Pod | None, after: Pod | None, helps: bool
) -> None:
    assert pod_helps(frozenset((plugin,)), POD, before, after) is helps


@pytest.mark.parametrize(("before", "helps"), [(AS_DB, True), (OTHER, False)])
def test_the_end_of_a_pod_that_one_avoids_may_help_it(before: Pod, helps: bool) -> None:
    assert pod_helps(frozenset((pod_affinity.NAME,)), SHY, before, None) is helps


def _named(name: str, namespace: str = "") -> w.ObjectMeta:
    return w.ObjectMeta(name=name, namespace=namespace)


def _limit(count: int) -> c.CSINode:
    return c.CSINode(metadata=_named("a"), spec={"drivers": [{"name": "d", "allocatable": {"count": count}}]})


CLAIM = c.PersistentVolumeClaim(metadata=_named("data", "ns"))
LATE = c.StorageClass(metadata=_named("s"), volume_binding_mode="WaitForFirstConsumer")
NARROW = c.StorageClass(metadata=_named("s"), allowed_topologies=[{"matchLabelExpressions": []}])


@pytest.mark.parametrize(
    ("before", "after", "wakes"),
    [
        (None, CLAIM, {volumes.NAME, volumes.ZONE, volumes.LIMITS, volume_use.NAME}),
        (CLAIM, CLAIM, {volumes.NAME, volumes.ZONE}),
        (None, c.PersistentVolumeClaim(metadata=_named("data", "far")), set()),
        (None, c.PersistentVolumeClaim(metadata=_named("other", "ns")), set()),
        (CLAIM, None, set()),
        (None, c.PersistentVolume(metadata=_named("v")), {volumes.NAME, volumes.ZONE}),
        (c.PersistentVolume(metadata=_named("v")), c.PersistentVolume(metadata=_named("v")), {volumes.NAME}),
        (None, LATE, {volumes.NAME, volumes.ZONE}),
        (None, c.StorageClass(metadata=_named("s")), {volumes.NAME}),
        (LATE, LATE, set()),
        (LATE, NARROW, {volumes.NAME}),
        (None, _limit(1), {volumes.NAME, volumes.LIMITS}),
        (_limit(1), _limit(2), {volumes.LIMITS}),
        (_limit(2), _limit(1), set()),
        (None, c.CSIStorageCapacity(capacity="1Gi"), {volumes.NAME}),
        (c.CSIStorageCapacity(capacity="1Gi"), c.CSIStorageCapacity(capacity="2Gi"), {volumes.NAME}),
        (c.CSIStorageCapacity(capacity="2Gi"), c.CSIStorageCapacity(capacity="1Gi"), set()),
        (c.VolumeAttachment(), None, {volumes.LIMITS}),
        (None, c.VolumeAttachment(), set()),
        (c.CSIDriver(), c.CSIDriver(), set()),
    ],
)
def test_what_changes_around_volumes_wakes_the_pods_that_it_may_help(
    before: Any, after: Any, wakes: set[str]
) -> None:
    plugins = (volumes.NAME, volumes.ZONE, volumes.LIMITS, volume_use.NAME, resources.NAME)
    woken = {name for name in plugins if volume_helps(frozenset((name,)), POD, Delta(before, after))}
    assert woken == wakes
