"""The performer of Actions: what it does, records, leaves undone in a dry run, and never repeats blindly."""

from __future__ import annotations

from typing import Any, cast, get_args

import pytest

from tonnage.loop.effects import ActionPorts
from tonnage.loop.performer import ActionRecord, Note, Performer, Phase, Sight
from tonnage.model.actions.action import Action
from tonnage.model.actions.cdi import RemoveSpec, WriteSpec
from tonnage.model.actions.checkpoints import AddRow, SaveCheckpoint
from tonnage.model.actions.cluster import (
    ApplyConfigMap,
    ApplyObject,
    ApplyValidation,
    CountEvent,
    CreateEvent,
    CreateNodeFeature,
    CreateNodeGpuStatus,
    CreateSlice,
    DeleteObject,
    DeleteSlice,
    EvictPod,
    PatchDriverStatus,
    PatchGpuClusterStatus,
    PatchNode,
    PatchNodeGpuStatus,
    PatchNodeStatus,
    PatchPolicyStatus,
    ReplaceNodeFeature,
    ReplaceSlice,
)
from tonnage.model.actions.devices import (
    CreateComputeInstance,
    CreateGpuInstance,
    DestroyComputeInstance,
    DestroyGpuInstance,
    MigStep,
    ResetGpu,
    SetComputeMode,
    SetMigMode,
    SetTimeSlice,
)
from tonnage.model.actions.host import RestartNode, RunHook, StartService, StopService
from tonnage.model.actions.labels import WriteLabels
from tonnage.model.actions.mps import MarkReady, StartDaemon, StopDaemon
from tonnage.model.actions.retry import LooksFirst, Retry
from tonnage.model.actions.status_files import ShowStatusFiles
from tonnage.model.devices.inventory import ComputeMode, TimeSlice
from tonnage.model.devices.mps import MpsDaemon
from tonnage.model.errors import Bug, HardwareError, Problem
from tonnage.model.mig.hooks import MigHook
from tonnage.model.mig.layouts import GpuInstance
from tonnage.model.names import ResourceName
from tonnage.ports.kubernetes import PatchType
from tonnage.wire.kinds import (
    CLUSTER_POLICY,
    CONFIG_MAP,
    DAEMON_SET,
    EVENT,
    GPU_CLUSTER,
    NODE,
    NODE_FEATURE,
    NODE_GPU_STATUS,
    NVIDIA_DRIVER,
    POD,
    RESOURCE_SLICE,
)

INSTANCE = GpuInstance(1, "1g.10gb", 0)
DAEMON = MpsDaemon(ResourceName("nvidia.com/gpu"), "/mps", 50, ())
SET_SLICE = SetTimeSlice("GPU-0", TimeSlice.LONG)
SET_MODE = SetComputeMode("GPU-0", ComputeMode.EXCLUSIVE_PROCESS)
HOOK = MigHook("/bin/hook", ("-v",), {"A": "own", "B": "own"}, "/srv")
RUN_HOOK = RunHook("apply-start", 0, HOOK, (("B", "given"),))
MIG_STEPS: tuple[Action, ...] = (
    *(SetMigMode("GPU-0", True), ResetGpu("GPU-0"), DestroyComputeInstance("GPU-0", INSTANCE, 0)),
    *(DestroyGpuInstance("GPU-0", INSTANCE), CreateGpuInstance("GPU-0", "1g.10gb", 0)),
    CreateComputeInstance("GPU-0", INSTANCE, 1),
)
ON_DISK = SaveCheckpoint("mig", b"{}")
GIVEN: dict[str, object] = {"variables": {"A": "own", "B": "given"}, "folder": "/srv", "timeout_s": 300.0}
UNIT: dict[str, object] = {"timeout_s": 90.0}
IN_NS: dict[str, object] = {"namespace": "ns"}
STATUS: dict[str, object] = {"subresource": "status"}
EVICTION = {
    "apiVersion": "policy/v1",
    "kind": "Eviction",
    "metadata": {"name": "p", "namespace": "ns"},
    "deleteOptions": {"preconditions": {"uid": "u"}},
}
APPLIED = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "c", "namespace": "ns", "annotations": {"tonnage.dev/copied-from": "o/s"}},
    "data": {"k": "v"},
}
VALIDATED: Any = {"validation": {"a": 1}}
DAEMONS: Any = {"kind": "DaemonSet", "metadata": {"name": "d", "namespace": "ns"}}
FRESH = {"apiVersion": "tonnage.dev/v1alpha1", "kind": "NodeGPUStatus", "metadata": {"name": "n"}}
EFFECTS: list[tuple[Action, tuple[object, ...], dict[str, object]]] = [
    *((step, ("apply", step), {}) for step in (*MIG_STEPS, SET_MODE, SET_SLICE)),
    (StartDaemon(DAEMON), ("start", DAEMON), {}),
    (StopDaemon(DAEMON), ("stop", DAEMON), {"over": False}),
    (StopDaemon(DAEMON, over=True), ("stop", DAEMON), {"over": True}),
    (MarkReady("/mps", True), ("show_ready", "/mps"), {"ready": True}),
    (WriteSpec("gpu.json", b"{}"), ("write", "gpu.json", b"{}"), {}),
    (RemoveSpec("gpu.json"), ("remove", "gpu.json"), {}),
    (ON_DISK, ("save", "mig", b"{}"), {"lasting": True}),
    (AddRow("ledger", b"row"), ("add", "ledger", b"row"), {}),
    (PatchNode("n", {"metadata": {}}), ("patch", NODE, "n", {"metadata": {}}), {}),
    (
        *(PatchNodeStatus("n", {"a": 1}), ("patch", NODE, "n", {"a": 1})),
        {"patch_type": PatchType.STRATEGIC, **STATUS},
    ),
    (EvictPod("ns", "p", "u"), ("create_subresource", POD, "p", "eviction", EVICTION), IN_NS),
    (CreateNodeFeature("ns", {"a": 1}), ("create", NODE_FEATURE, {"a": 1}), IN_NS),
    (ReplaceNodeFeature("ns", {"a": 1}), ("replace", NODE_FEATURE, {"a": 1}), IN_NS),
    (CreateSlice({"a": 1}), ("create", RESOURCE_SLICE, {"a": 1}), {}),
    (ReplaceSlice({"a": 1}), ("replace", RESOURCE_SLICE, {"a": 1}), {}),
    (DeleteSlice("s", "u"), ("delete", RESOURCE_SLICE, "s"), {"uid": "u"}),
    (CreateNodeGpuStatus("n"), ("create", NODE_GPU_STATUS, FRESH), {}),
    (PatchNodeGpuStatus("n", {"a": 1}), ("patch", NODE_GPU_STATUS, "n", {"a": 1}), STATUS),
    (
        *(PatchPolicyStatus("p", {"a": 1}), ("patch", CLUSTER_POLICY, "p", {"a": 1})),
        STATUS,
    ),
    (
        *(ApplyConfigMap("ns", "c", {"k": "v"}, "o/s"), ("patch", CONFIG_MAP, "c", APPLIED)),
        {"patch_type": PatchType.APPLY, **IN_NS},
    ),
    (ApplyObject.of(DAEMONS), ("patch", DAEMON_SET, "d", DAEMONS), {"patch_type": PatchType.APPLY, **IN_NS}),
    (
        *(ApplyValidation("n", {"a": 1}), ("patch", NODE_GPU_STATUS, "n", {**FRESH, "status": VALIDATED})),
        {"patch_type": PatchType.APPLY, **STATUS},
    ),
    (DeleteObject("DaemonSet", "d", "u", "ns"), ("delete", DAEMON_SET, "d"), {"uid": "u", **IN_NS}),
    (PatchGpuClusterStatus("c", {"status": {}}), ("patch", GPU_CLUSTER, "c", {"status": {}}), STATUS),
    (PatchDriverStatus("p", {"status": {}}), ("patch", NVIDIA_DRIVER, "p", {"status": {}}), STATUS),
    (CreateEvent("ns", {"a": 1}), ("create", EVENT, {"a": 1}), IN_NS),
    (CountEvent("ns", "e", {"count": 2}), ("patch", EVENT, "e", {"count": 2}), IN_NS),
    (RUN_HOOK, ("run", "/bin/hook", ("-v",)), GIVEN),
    (StopService("u"), ("run", "systemctl", ("stop", "--", "u")), UNIT),
    (StartService("u"), ("run", "systemctl", ("start", "--", "u")), UNIT),
    (RestartNode("boot"), ("run", "systemctl", ("reboot",)), UNIT),
    (WriteLabels("gfd", (("a", "b"),)), ("write", "gfd", {"a": "b"}), {}),
    (ShowStatusFiles((("/run/a", "x"),), ("/run/b",)), ("show", {"/run/a": "x"}, ("/run/b",)), {}),
]
"""An action, the method of a port with what it is given, and options."""
ALL = [action for action, *_ in EFFECTS]


def by_name(actions: list[Action]) -> list[Any]:
    return [pytest.param(action, id=type(action).__name__) for action in actions]


class Node:
    """Takes every action, in order, unless it `fails`."""

    def __init__(self, fails: str = "", *, adds: bool = True) -> None:
        self.done: list[tuple[tuple[object, ...], dict[str, object]]] = []
        self.records: list[ActionRecord] = []
        self.fails = fails
        self.adds = adds
        port = cast(Any, self)
        names = ("checkpoints", "devices", "daemons", "specs", "api", "host", "labels", "status_files")
        self.ports = ActionPorts(**dict.fromkeys(names, port))

    def __getattr__(self, name: str) -> Any:
        async def do(*arguments: object, **options: object) -> bool:
            if self.fails:
                raise HardwareError(Problem(self.fails))
            self.done.append(((name, *arguments), options))
            return self.adds

        return do

    def performer(self, *, dry_run: bool = False) -> Performer:
        return Performer(self.ports, dry_run=dry_run, record=self.records.append)


async def read() -> str:
    return "as it is"


def permission(action: Action) -> Sight | Note | None:
    """A new one of what an action of its class needs."""
    if isinstance(action, LooksFirst):
        return Sight(action.subject)
    return Note() if action.retry is Retry.NEVER else None


def test_every_action_is_tried_here() -> None:
    assert {type(action) for action, *_ in EFFECTS} == {*get_args(Action)}


@pytest.mark.parametrize(
    ("action", "effect", "options"), [pytest.param(*row, id=type(row[0]).__name__) for row in EFFECTS]
)
async def test_each_action_is_done_once_and_recorded_before_and_after(
    action: Action, effect: tuple[object, ...], options: dict[str, object]
) -> None:
    node = Node()
    assert await node.performer().perform(action, permission(action))
    assert node.done == [(effect, options)]
    assert node.records == [ActionRecord(action, Phase.BEGUN), ActionRecord(action, Phase.DONE)]


@pytest.mark.parametrize("action", by_name(ALL))
async def test_a_dry_run_records_what_it_leaves_undone(action: Action) -> None:
    node = Node()
    assert not await node.performer(dry_run=True).perform(action, permission(action))
    assert node.done == []
    assert node.records == [ActionRecord(action, Phase.WITHHELD)]


@pytest.mark.parametrize("action", by_name(ALL))
async def test_what_fails_is_recorded_with_its_reason_and_raised(action: Action) -> None:
    node = Node("it is busy")
    with pytest.raises(HardwareError, match="it is busy"):
        await node.performer().perform(action, permission(action))
    assert [record.phase for record in node.records] == [Phase.BEGUN, Phase.FAILED]
    assert "it is busy" in node.records[1].why


@pytest.mark.parametrize("action", by_name(ALL))
async def test_an_action_for_what_is_not_here_is_a_bug(action: Action) -> None:
    with pytest.raises(Bug, match="nothing here to be performed on"):
        await Performer(ActionPorts()).perform(action, permission(action))


def test_what_must_look_first_or_is_never_repeated_are_these() -> None:
    classes = {retry: {each for each in get_args(Action) if each.retry is retry} for retry in Retry}
    slices = {CreateSlice, ReplaceSlice, DeleteSlice}
    looking = {
        *(*get_args(MigStep), EvictPod, CreateNodeFeature, ReplaceNodeFeature, StopService),
        DeleteObject,
        *slices,
    }
    assert classes[Retry.LOOK_FIRST] == looking
    assert {each for each in get_args(Action) if issubclass(each, LooksFirst)} == looking
    assert classes[Retry.NEVER] == {RunHook, RestartNode}


@pytest.mark.parametrize("action", by_name([action for action in ALL if isinstance(action, LooksFirst)]))
@pytest.mark.parametrize("fails", [pytest.param("", id="it was done"), pytest.param("busy", id="it failed")])
async def test_what_looks_first_is_never_repeated_without_reading_the_world(action: Any, fails: str) -> None:
    node = Node(fails)
    performer = node.performer()
    other = (await performer.look("pod ns/other", read()))[1]
    for wrong in (None, Note(), other):
        with pytest.raises(Bug, match=f"without a new look at {action.subject}"):
            await performer.perform(action, wrong)
    seen, sight = await performer.look(action.subject, read())
    assert seen == "as it is"
    if fails:
        with pytest.raises(HardwareError):
            await performer.perform(action, sight)
    else:
        await performer.perform(action, sight)
    count = len(node.records)
    with pytest.raises(Bug, match="without a new look"):
        await performer.perform(action, sight)
    assert len(node.records) == count
    node.fails = ""
    await performer.perform(action, (await performer.look(action.subject, read()))[1])
    assert len(node.done) == 1 + (not fails)


@pytest.mark.parametrize("action", by_name([action for action in ALL if action.retry is Retry.NEVER]))
@pytest.mark.parametrize("fails", [pytest.param("", id="it was done"), pytest.param("busy", id="it failed")])
async def test_what_is_never_repeated_is_done_once_for_a_note_on_disk(action: Action, fails: str) -> None:
    node = Node()
    performer = node.performer()
    for wrong in (None, Sight("the node")):
        with pytest.raises(Bug, match="without a note on disk"):
            await performer.perform(action, wrong)
    note = await performer.note(ON_DISK)
    assert node.done == [(("save", "mig", b"{}"), {"lasting": True})]
    node.fails = fails
    if fails:
        with pytest.raises(HardwareError):
            await performer.perform(action, note)
    else:
        await performer.perform(action, note)
    node.fails = ""
    with pytest.raises(Bug, match="again for the same note"):
        await performer.perform(action, note)
    await performer.perform(action, await performer.note(ON_DISK))


async def test_without_a_note_on_disk_there_is_none() -> None:
    with pytest.raises(HardwareError):
        await Node("the disk is full").performer().note(ON_DISK)


async def test_what_is_idempotent_may_be_done_at_any_time() -> None:
    node = Node()
    for _ in range(2):
        await node.performer().perform(SET_MODE)
    assert len(node.done) == 2


async def test_a_row_that_finds_nothing_to_be_added_to_is_declined() -> None:
    node = Node(adds=False)
    assert not await node.performer().perform(AddRow("ledger", b"row"))
    assert [record.phase for record in node.records] == [Phase.BEGUN, Phase.DECLINED]


async def test_an_eviction_in_a_dry_run_of_the_api_server_says_so() -> None:
    node = Node()
    await node.performer().perform(EvictPod("ns", "p", "u", dry_run=True), Sight("pod ns/p"))
    ((*_, body), _), *_ = node.done
    assert cast(Any, body)["deleteOptions"]["dryRun"] == ["All"]


def test_what_hooks_are_given_is_in_no_record() -> None:
    assert "own" not in repr(RUN_HOOK)
