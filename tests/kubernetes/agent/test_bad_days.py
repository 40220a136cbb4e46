"""Bad days on a genuine node under load: after each, no device is held twice, none lost, all accounts agree.

How long recovery took is recorded, and shown when all tests have ended; it is never asserted.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support import bad_days
from support.accounts import accounts_of, disagreements
from support.bad_days import DEVICES, FAULTS, RECOVERY, Scene, scene_on
from support.faketime import JumpingClock
from support.genuine_cluster import GenuineCluster
from support.genuine_node import until
from support.images import BUSYBOX

pytestmark = [pytest.mark.kubernetes, pytest.mark.node]


@pytest.fixture(scope="module")
def scene(cluster: GenuineCluster) -> Iterator[Scene]:
    with (
        tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as folder,
        scene_on(cluster, Path(folder)) as scene,
    ):
        yield scene


@pytest.mark.parametrize("fault", FAULTS)
def test_after_a_fault_all_accounts_agree(
    scene: Scene, record_property: Callable[[str, object], None], fault: str
) -> None:
    _check(scene, record_property, fault, FAULTS[fault])


def test_after_a_clock_jump_all_accounts_agree(
    scene: Scene, record_property: Callable[[str, object], None], tmp_path: Path
) -> None:
    clock = JumpingClock(tmp_path)
    _check(scene, record_property, "clock", lambda scene: bad_days.clock_jumped(scene, clock))
    bad_days.agent_killed(scene)


def _check(
    scene: Scene, record: Callable[[str, object], None], name: str, fault: Callable[[Scene], float]
) -> None:
    """Let it happen, then see pods start again, the accounts agree, and nothing that ran restarted for it."""
    before, refused = scene.restarts(running=True), scene.load.refused.total()
    figures = {"readvertised_s": fault(scene), "four_pods_s": scene.goes_on_s()}
    figures["accounts_s"] = scene.all_is_well()
    figures["pods_refused"] = scene.load.refused.total() - refused
    after = scene.restarts()
    if fault is not bad_days.node_rebooted:
        assert {uid: after[uid] for uid in before if uid in after and after[uid] != before[uid]} == {}
    rounded = {key: round(value, 2) for key, value in figures.items()}
    record(RECOVERY, json.dumps({"fault": name, **rounded}))


def test_the_accounts_tell_a_device_that_nobody_gave(scene: Scene) -> None:
    """What a container really has is read from the container."""
    stolen = {"name": "NVIDIA_VISIBLE_DEVICES", "value": DEVICES[1]}
    container = {"name": "a", "image": BUSYBOX, "imagePullPolicy": "Never", "env": [stolen]}
    with scene.load.rest():
        scene.cluster.apply({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "thief"}, "spec": {
            "containers": [container], "terminationGracePeriodSeconds": 1,
        }})  # fmt: skip
        try:
            wanted = f"default/thief: its containers see ['{DEVICES[1]}'], the books have []"
            until(lambda: wanted in disagreements(accounts_of(scene.cluster), forgotten=scene.forgotten))
        finally:
            scene.cluster.kubectl("delete", "pod", "thief")
            scene.watch.report()
