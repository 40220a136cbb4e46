"""Which driver goes back to which image."""

from __future__ import annotations

import json

from tonnage.decide.cluster.operate.drivers.rollback import rollbacks
from tonnage.model.drivers.daemon_set import StandingDaemonSet
from tonnage.model.drivers.policy import DriverOwner, DriverOwnerKind

POLICY = DriverOwner(DriverOwnerKind.CLUSTER_POLICY, "cluster-policy", "u1")
DRIVER = DriverOwner(DriverOwnerKind.NVIDIA_DRIVER, "pool", "u2")


def note(version: str) -> str:
    return json.dumps({"repository": "nvcr.io/nvidia", "image": "driver", "version": version})


def standing(owner: DriverOwner, current: str, previous: str) -> StandingDaemonSet:
    return StandingDaemonSet("d", "u", "x", current, previous, f"{owner.kind} {owner.uid}")


def test_a_cluster_policy_names_the_image_before() -> None:
    [change] = rollbacks([POLICY], [standing(POLICY, note("595.91.07"), note("580.95.05"))])
    assert change.patch == {
        "spec": {"driver": {"repository": "nvcr.io/nvidia", "image": "driver", "version": "580.95.05"}}
    }


def test_an_nvidiadriver_has_the_fields_at_its_spec() -> None:
    [change] = rollbacks([POLICY, DRIVER], [standing(DRIVER, note("2"), '{"version": "1"}')])
    assert change.patch == {"spec": {"repository": None, "image": None, "version": "1"}}


def test_without_another_image_there_is_no_way_back() -> None:
    sets = [
        standing(POLICY, note("1"), ""),
        standing(POLICY, note("1"), note("1")),
        standing(POLICY, note("1"), "{"),
        standing(POLICY, note("1"), '{"version": 1}'),
        standing(DRIVER, note("2"), note("1")),
    ]
    assert rollbacks([POLICY], sets) == []
