"""Scenes of the crash run: what an agent is asked for, and what is wrong until that is done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, cast

from support.agent_context import context_of
from support.agent_scenes import Driver, Place, Scene, refuses_2g, refuses_resets
from support.claim_scenes import CLAIM_SCENES
from support.policy_scenes import controller_and_agent, names_default
from tonnage.adapters.checkpoints import FolderCheckpoints
from tonnage.agent.board import NodeBoard
from tonnage.agent.holds.hold_ledger import HoldLedger
from tonnage.agent.mig.eviction import PodEvictions
from tonnage.agent.plugin.holders import Holders
from tonnage.model.actions.cdi import RemoveSpec, WriteSpec
from tonnage.model.actions.checkpoints import AddRow, SaveCheckpoint
from tonnage.model.actions.cluster import (
    ApplyConfigMap,
    CountEvent,
    CreateEvent,
    CreateNodeFeature,
    CreateNodeGpuStatus,
    EvictPod,
    PatchNode,
    PatchNodeGpuStatus,
    PatchNodeStatus,
    PatchPolicyStatus,
    ReplaceNodeFeature,
)
from tonnage.model.actions.devices import (
    CreateComputeInstance,
    CreateGpuInstance,
    DestroyComputeInstance,
    DestroyGpuInstance,
    ResetGpu,
    SetComputeMode,
    SetMigMode,
)
from tonnage.model.actions.host import RestartNode, RunHook, StartService, StopService
from tonnage.model.actions.labels import WriteLabels
from tonnage.model.actions.mps import MarkReady, StartDaemon, StopDaemon
from tonnage.model.actions.status_files import ShowStatusFiles
from tonnage.model.devices.sharing import Allocation
from tonnage.model.names import GPU
from tonnage.wire.kinds import NODE, NODE_FEATURE, POD

DIVIDED: Final = "{uuid: GPU-0, model: A100-80, mig: [7g.80gb]}"
WHOLE: Final = "{uuid: GPU-0, model: A100-80, migReset: true}"
OTHER: Final = "{uuid: GPU-1, model: A100-80, mig: [1g.10gb, 2g.20gb]}"
BESIDE: Final = ("1g.10gb", "2g.20gb")
T4: Final = "{uuid: GPU-0, model: T4}"
MIG: Final = {"mig_config_map": "ns/mig"}
ON_HOST: Final = {**MIG, "mig_host_root": Path("/")}
SPEED: Final = 60
STATE: Final = "nvidia.com/mig.config.state"
SPEC: Final = "var/run/cdi/k8s.device-plugin.nvidia.com-gpu.json"
LINES: Final = "etc/kubernetes/node-feature-discovery/features.d/gfd"
SHARED: Final = (
    "version: v1\nflags: {mpsRoot: /run/nvidia/mps}\n"
    "sharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}\n"
)


def layouts(**names: str) -> str:
    """Layouts of GPU-0 in mig-parted's words."""
    rows = (
        f"  {name}: [{{devices: [0], mig-enabled: true, mig-devices: {{{parts}}}}}]"
        for name, parts in names.items()
    )
    return "\n".join(["version: v1", "mig-configs:", *rows])


def asks(layout: str, text: str = "", *devices: str, **files: str) -> Callable[[Place], None]:
    """A node that asks for a layout, of the ConfigMap with that text."""

    def prepare(place: Place) -> None:
        place.devices(*(devices or (DIVIDED, OTHER)))
        place.config("version: v1\nflags: {migStrategy: mixed}\n")
        place.boot("first")
        if text:
            place.layouts(config_yaml=text, **files)
        place.asks(layout)

    return prepare


def stands(*profiles: str, state: str = "success", other: Sequence[str] = BESIDE) -> Callable[[Place], str]:
    """What is wrong while GPU-0 has not these instances, or the node does not say so."""

    def wrong(place: Place) -> str:
        said = place.labels.get(STATE), place.condition("MIGConfigApplied")
        beside = place.made("GPU-1") or [*other]  # nothing is noted of what was never changed
        seen = place.made(), beside, place.checkpoint("mig"), said
        wanted = [*profiles], [*other], b"null", (state, str(state == "success").title())
        if seen != wanted:
            return f"there is {seen}, wanted is {wanted}"
        return "" if place.cluster.status("n") else "the node has no status"

    return wrong


def refused(place: Place) -> None:
    asks("mine", layouts(mine="3g.40gb: 1, 2g.20gb: 1"))(place)
    place.refuses = refuses_2g


def default_of_a_policy(place: Place) -> None:
    place.devices(WHOLE, WHOLE.replace("GPU-0", "GPU-1"))  # what is divided already keeps its layout
    place.config("version: v1\nflags: {migStrategy: mixed}\n")
    place.boot("first")
    names_default(place, "halves", layouts(halves="3g.40gb: 2"))


def divided_by_the_policy(place: Place) -> str:
    if place.labels.get("nvidia.com/mig.config") != "halves":
        return f"the controller asks for no layout: {place.labels}"
    return stands("3g.40gb", "3g.40gb", other=())(place)


def put_on_host(place: Place) -> None:
    hooks = ", ".join(
        f"{name}: [{{command: /hook, args: [{name}]}}]" for name in ("apply-start", "apply-exit")
    )
    place.running = {"dcgm.service"}
    clients = "version: v1\nsystemd-services: [dcgm.service]\n"
    text = layouts(halves="3g.40gb: 2")
    hook_text = f"version: v1\nhooks: {{{hooks}}}\n"
    asks("halves", text, WHOLE, OTHER, hooks_yaml=hook_text, clients_yaml=clients)(place)
    place.refuses = refuses_resets


def restarted_once(place: Place) -> str:
    """The layout stands after one restart, and what was stopped runs again."""
    wrong = stands("3g.40gb", "3g.40gb")(place)
    restarts, hooks = place.ran.count("systemctl reboot"), place.ran.count("/hook apply-exit")
    if wrong or place.running != {"dcgm.service"}:
        return wrong or "a service stands still"
    return "" if restarts == 1 and hooks else f"{restarts} restarts, {hooks} hooks in the end"


def with_node(place: Place) -> None:
    place.devices(T4)
    place.cluster.put(NODE, "n", metadata={"labels": {}})


def shares(place: Place) -> None:
    with_node(place)
    place.config(SHARED)


def unshares(place: Place) -> None:
    place.config("version: v1\n")


def served(place: Place) -> str:
    modes = Driver(place).settings().modes
    seen = [*place.daemons], [*place.ready.values()], [mode.name for mode in modes.values()]
    return "" if seen == (["nvidia.com/gpu"], [True], ["EXCLUSIVE_PROCESS"]) else f"MPS: {seen}"


def given_back(place: Place) -> str:
    seen = (
        [*place.daemons],
        [mode.name for mode in Driver(place).settings().modes.values()],
        place.checkpoint("mps"),
    )
    return "" if seen == ([], ["DEFAULT"], b'{"daemons": []}') else f"MPS: {seen}"


def injects(place: Place) -> None:
    with_node(place)
    place.config("version: v1\nflags: {plugin: {deviceListStrategy: cdi-cri}}\n")
    for name in ("nvidia0", "nvidiactl"):
        (place.root / "dev").mkdir(exist_ok=True)
        (place.root / "dev" / name).symlink_to("/dev/null")


def written(place: Place) -> str:
    return "" if (place.root / SPEC).exists() and b"GPU-0" in (place.root / SPEC).read_bytes() else "no spec"


def removed(place: Place) -> str:
    return "the spec is there" if (place.root / SPEC).exists() else ""


def plain(place: Place) -> None:
    with_node(place)
    place.config("version: v1\n")


def in_file(place: Place) -> str:
    file = place.root / LINES
    return "" if file.exists() and "nvidia.com/gpu.product=Tesla-T4\n" in file.read_text() else "no labels"


def validated(place: Place) -> str:
    there = (place.root / "run/nvidia/validations/driver-ready").exists()
    return "" if there else "the driver is not shown as ready"


def in_object(product: str) -> Callable[[Place], str]:
    def wrong(place: Place) -> str:
        feature = place.cluster.objects.get((NODE_FEATURE.plural, "ns", "nvidia-features-for-n")) or {}
        labels = feature.get("spec", {}).get("labels", {})
        return "" if labels.get("nvidia.com/gpu.product") == product else f"labels: {labels}"

    return wrong


def on_node(place: Place) -> str:
    return "" if place.labels.get("nvidia.com/gpu.product") == "Tesla-T4" else "no label"


def renamed(place: Place) -> None:
    place.devices("{uuid: GPU-9, model: A100-40}")


def flaps(health: str) -> Callable[[Place], None]:
    return lambda place: place.devices(f"{{uuid: GPU-0, model: T4, health: {health}}}")


def sick(count: int) -> Callable[[Place], str]:
    """What is wrong until the device has been said to be unhealthy so often."""

    def wrong(place: Place) -> str:
        events: list[Any] = [obj for key, obj in place.cluster.objects.items() if key[0] == "events"]
        counts = [event["count"] for event in events if event["reason"] == "DeviceUnhealthy"]
        ill = place.cluster.status("n").get("healthyCount") == 0
        return "" if ill and sum(counts) >= count else f"said {counts}"

    return wrong


def well(place: Place) -> str:
    return "" if place.cluster.status("n").get("healthyCount") == 1 else "it is not healthy again"


async def evicts(place: Place) -> None:
    context = context_of("n", place.cluster, place.clock, FolderCheckpoints(place.root))
    await PodEvictions(context).evict("ml", "train")


def with_pod(place: Place) -> None:
    place.cluster.put(POD, "train", "ml", metadata={"uid": "u"}, spec={"nodeName": "n"})


def gone(place: Place) -> str:
    return "the pod is there" if (POD.plural, "ml", "train") in place.cluster.objects else ""


class Kubelet:
    """Knows of no pod yet."""

    def identity(self) -> str:
        return "1"


async def answers(place: Place) -> None:
    """Give out two devices that nobody holds, one after another."""
    context = context_of("n", None, place.clock, FolderCheckpoints(place.root / "var/lib/tonnage"))
    board = NodeBoard.blank(place.clock)
    ledger = HoldLedger(context, board)
    holders = Holders(context, board, cast(Any, Kubelet()), ledger)
    await ledger.restore()
    lost = {*place.answered} - {slot for _, slot in board.holds.value.by_id}
    assert not lost, f"{lost} is held, and nobody knows"
    for slot in ("GPU-0", "GPU-1"):
        if (GPU, slot) not in board.holds.value.by_id:
            await holders.take([Allocation(GPU, (slot,), (slot,))])
            place.answered[slot] = "answered"


def held(place: Place) -> str:
    """What is wrong until the ledger on disk has all that was answered, and both are held."""
    text = place.checkpoint("allocations")
    added = place.root / "var/lib/tonnage/allocations.added"
    text += added.read_bytes() if added.exists() else b""
    return "" if all(slot.encode() in text for slot in ("GPU-0", "GPU-1")) else f"the ledger has {text!r}"


def nothing(_: Place) -> None: ...


SCENES: Final = (
    Scene(
        "layout by label",
        (
            *(
                SaveCheckpoint,
                PatchNode,
                PatchNodeStatus,
                CreateNodeGpuStatus,
                PatchNodeGpuStatus,
                CreateEvent,
            ),
            *(DestroyComputeInstance, DestroyGpuInstance, CreateGpuInstance, CreateComputeInstance),
        ),
        asks("halves", layouts(halves="3g.40gb: 2")),
        stands("3g.40gb", "3g.40gb"),
        options=MIG,
    ),
    Scene(
        "layout by ConfigMap",
        (SetMigMode, ResetGpu, CreateGpuInstance, SaveCheckpoint),
        asks("mine", layouts(mine=""), WHOLE, OTHER),
        stands("3g.40gb", "3g.40gb"),
        ((stands(), lambda place: place.layouts(config_yaml=layouts(mine="3g.40gb: 2"))),),
        options=MIG,
    ),
    Scene(
        "layout by default, without a ConfigMap",
        (DestroyGpuInstance, CreateGpuInstance, SaveCheckpoint, PatchNode),
        asks("all-2g.20gb"),
        stands(*["2g.20gb"] * 3, other=["2g.20gb"] * 3),
        options=MIG,
        variant=True,
    ),
    Scene(
        "layout by a ClusterPolicy's default",
        (ApplyConfigMap, PatchPolicyStatus, PatchNode, SetMigMode, CreateGpuInstance, SaveCheckpoint),
        default_of_a_policy,
        divided_by_the_policy,
        options=MIG,
        life=controller_and_agent,
    ),
    Scene(
        "rollback",
        (DestroyGpuInstance, CreateGpuInstance, CreateComputeInstance, SaveCheckpoint),
        refused,
        stands("7g.80gb", state="failed"),
        options=MIG,
    ),
    Scene(
        "reboot in between",
        (RunHook, StopService, StartService, RestartNode, SaveCheckpoint),
        put_on_host,
        restarted_once,
        options={**ON_HOST, "mig_reboot": True},
    ),
    Scene("MPS start", (SetComputeMode, StartDaemon, MarkReady, SaveCheckpoint), shares, served),
    Scene(
        "MPS stop",
        (StopDaemon, SetComputeMode),
        shares,
        given_back,
        ((served, unshares),),
    ),
    Scene("CDI write", (WriteSpec,), injects, written),
    Scene("CDI removal", (RemoveSpec,), injects, removed, ((written, lambda place: place.devices()),)),
    Scene("labels in a file", (WriteLabels,), plain, in_file, options={"labels": "nfd-file"}),
    Scene("status files", (ShowStatusFiles,), plain, validated, options={"operands": True}),
    Scene("labels on the Node", (PatchNode,), plain, on_node, options={"labels": "direct"}),
    Scene(
        "labels in a NodeFeature",
        (CreateNodeFeature, ReplaceNodeFeature),
        plain,
        in_object("NVIDIA-A100-SXM4-40GB"),
        ((in_object("Tesla-T4"), renamed),),
        options={"labels": "nfd-object", "namespace": "ns"},
    ),
    Scene(
        "an Event again",
        (CreateEvent, CountEvent),
        plain,
        sick(2),
        ((well, flaps("lost")), (sick(1), flaps("healthy")), (well, flaps("lost"))),
        variant=True,
    ),
    Scene("eviction", (EvictPod,), with_pod, gone, life=evicts),
    Scene("answer to kubelet", (SaveCheckpoint, AddRow), nothing, held, life=answers),
    *CLAIM_SCENES,
)
