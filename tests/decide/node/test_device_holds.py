"""One place says who holds a device, whatever gave it out; a claim's hold counts like a device plugin's."""

from __future__ import annotations

import pytest

from tonnage.agent.holds.ledger_file import ledger_bytes, ledger_of
from tonnage.decide.node.advertise import advertise
from tonnage.decide.node.allocate import allocate
from tonnage.decide.node.device_holds import DeviceHolds, Use
from tonnage.decide.node.ledger import UNSEEN_S, Evidence, IdOwner, LedgerEntry, holds_of, settle
from tonnage.decide.node.mig.change import GpuShape, MigChange
from tonnage.decide.node.mig.gpu_users import in_the_way
from tonnage.decide.node.mig.transitions import restart_obstacle
from tonnage.decide.node.mps.daemons import daemons_of
from tonnage.decide.node.mps.steps import DaemonState, next_steps
from tonnage.decide.node.share import share
from tonnage.model.actions.mps import StopDaemon
from tonnage.model.devices.inventory import Device, Inventory
from tonnage.model.devices.sharing import Hold, HoldKind, PluginConfig, SharedResource
from tonnage.model.mig.layouts import ComputeInstance, DividedGpu, GpuInstance
from tonnage.model.names import GPU, ResourceName
from tonnage.model.node.plugin_settings import SharingKind
from tonnage.model.reasons.facts import MigUser
from tonnage.model.reasons.reason import Reason

OWNER = IdOwner(namespace="ml", pod="train")
CLAIM = Hold("ml/two-gpus", ("GPU-0",), "ml", "train", "main", kind=HoldKind.CLAIM)
PLUGIN = Hold("nvidia.com/other", ("GPU-0",), "ml", "train", "main")
NODE = Inventory(tuple(Device(f"GPU-{i}", i, "T4", 15360) for i in range(2)))
KINDS = pytest.mark.parametrize(
    ("hold", "words"),
    [
        pytest.param(PLUGIN, "nvidia.com/other by ml/train", id="of a device plugin"),
        pytest.param(CLAIM, "claim ml/two-gpus by ml/train", id="of a claim"),
    ],
)


@KINDS
def test_sharing_offers_no_device_that_is_held_under_another_name(hold: Hold, words: str) -> None:
    (shown,) = advertise(share(NODE, PluginConfig()), [hold])
    assert [(slot.healthy, slot.reason) for slot in shown.slots] == [(False, f"held as {words}"), (True, "")]


@KINDS
def test_the_plugin_gives_no_device_that_is_held_under_another_name(hold: Hold, words: str) -> None:
    (resource,) = share(NODE, PluginConfig()).resources
    refusal = allocate(resource, ["GPU-0"], DeviceHolds.of([hold]))
    assert isinstance(refusal, Reason)
    assert f"device GPU-0 is held as {words}" in refusal.message


@KINDS
def test_mig_waits_for_who_holds_what_it_must_destroy(hold: Hold, words: str) -> None:
    gone = GpuInstance(1, "1g.10gb", 0, computes=(ComputeInstance(0, 1, "GPU-0"),))
    gpu = DividedGpu("GPU-9", 0, "A100", enabled=True, pending=True, instances=(gone,))
    change = MigChange("x", (GpuShape("GPU-9", True),), (GpuShape("GPU-9", True),), {})
    assert in_the_way(change, [gpu], DeviceHolds.of([hold])) == (MigUser("GPU-0", ("ml", "train")),)
    obstacle = restart_obstacle(change, "1", DeviceHolds.of([hold]))
    assert obstacle is not None
    assert "used by ml/train" in obstacle.message
    assert words


def test_mps_keeps_a_daemon_while_its_resource_is_held() -> None:
    shared = ResourceName("nvidia.com/gpu.shared")
    config = PluginConfig((SharedResource(GPU, shared, 2),), sharing_kind=SharingKind.MPS, mps_root="/mps")
    (daemon,) = daemons_of(share(NODE, config), NODE, config)
    standing = {shared: DaemonState(daemon, alive=True, ready=True)}
    held = DeviceHolds.of([Hold(shared, ("GPU-0::0",))]).resources
    assert StopDaemon(daemon) not in next_steps((), standing, held, now=1.0)
    assert StopDaemon(daemon) in next_steps((), standing, DeviceHolds.of([]).resources, now=1.0)


def test_uses_are_by_the_physical_device_and_name_the_part() -> None:
    held = DeviceHolds.of([Hold("r", ("MIG-1", "GPU-2::0", "GPU-2::1"))])
    assert {uuid: set(uses) for uuid, uses in held.uses({"MIG-1": "GPU-0"}).items()} == {
        "GPU-0": {Use("r", False, "MIG-1")},
        "GPU-2": {Use("r", True)},
    }
    assert [hold.ids for hold in held.with_devices({"GPU-2"})] == [("MIG-1", "GPU-2::0", "GPU-2::1")]
    assert not list(held.with_devices({"GPU-0"}))


def test_kubelets_books_say_nothing_about_an_entry_of_a_claim() -> None:
    claim = LedgerEntry("ml/two-gpus", "GPU-0", 1, 0.0, owner=OWNER, kind=HoldKind.CLAIM)
    answer = LedgerEntry(GPU, "GPU-1", 1, 0.0)
    nothing = Evidence(order=9, final=True, kubelet="k")
    ledger = settle((claim, answer), nothing, now=UNSEEN_S + 1)
    assert ledger == (claim,), "the device plugin's was never taken"
    assert holds_of(nothing, ledger) == (Hold("ml/two-gpus", ("GPU-0",), "ml", "train", kind=HoldKind.CLAIM),)
    assert not claim.is_open, "no word of kubelet's is awaited"


def test_the_kind_is_on_disk_and_a_row_without_one_is_a_device_plugins() -> None:
    claim = LedgerEntry("ml/two-gpus", "GPU-0", 0, 1.0, owner=OWNER, kind=HoldKind.CLAIM)
    answer = LedgerEntry(GPU, "GPU-1", 0, 1.0)
    content = ledger_bytes((claim, answer), "boot")
    assert content.count(b'"kind"') == 1, "rows of a device plugin are as earlier agents write and read them"
    assert ledger_of(content, "boot", 1.0) == (claim, answer)
