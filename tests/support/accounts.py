"""Who has which device: six accounts of one node, and where they disagree."""

from __future__ import annotations

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import grpc

from support.genuine_cluster import GenuineCluster
from support.genuine_node import NODE_NAME
from support.own_cgroup import processes_in
from tonnage.adapters.checkpoints import FolderCheckpoints
from tonnage.wire.kubelet import methods
from tonnage.wire.kubelet import podresources_v1_pb2 as wire

Slot = tuple[str, str]
"""(resource, id as kubelet has it)."""
_ENDED: Final = ("Succeeded", "Failed")
_VARIABLE: Final = b"NVIDIA_VISIBLE_DEVICES="
_PLUGINS: Final = "/var/lib/kubelet/device-plugins"


@dataclass(frozen=True, slots=True)
class Asked:
    """A pod of the node that is not over, as the API server has it; `running`: so are all its containers.

    `hidden`: an ordinary init container has devices, which kubelet's list never shows and which no running
    container need have.
    """

    devices: Mapping[str, int]
    running: bool
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class Accounts:
    """All by pod (`NAMESPACE/NAME`; a uid where no such pod is known), except `ledger`.

    `containers` has what each running container finds in its environment; `checkpoint` and `listed` are
    kubelet's, `published` is the NodeGPUStatus; `ledger` is the agent's own checkpoint. `offered` is what
    kubelet has as allocatable devices, `allocatable` the Node object.
    """

    asked: Mapping[str, Asked]
    containers: Mapping[str, Sequence[tuple[str, ...]]]
    checkpoint: Mapping[str, frozenset[Slot]]
    listed: Mapping[str, frozenset[Slot]]
    published: Mapping[str, frozenset[Slot]]
    ledger: frozenset[Slot]
    offered: frozenset[Slot]
    allocatable: Mapping[str, int]


def accounts_of(cluster: GenuineCluster) -> Accounts:
    """All of them, one after another: what changes meanwhile may look like a disagreement."""
    pods = cluster.get("pods", "-A", "--field-selector", f"spec.nodeName={NODE_NAME}").get("items", [])
    names = {pod["metadata"]["uid"]: _name(pod) for pod in pods}
    over = {pod["metadata"]["uid"] for pod in pods if pod["status"].get("phase") in _ENDED}
    running: defaultdict[str, list[tuple[str, ...]]] = defaultdict(list)
    for uid, _, devices, _ in visible_devices(cluster):
        running[names.get(uid, uid)].append(devices)
    status = cluster.get("nodegpustatus", NODE_NAME).get("status", {})
    allocatable = cluster.get("node", NODE_NAME)["status"]["allocatable"]
    return Accounts(
        asked={_name(pod): _asked(pod) for pod in pods if pod["metadata"]["uid"] not in over},
        containers=dict(running),
        checkpoint=_grouped(
            (names.get(uid, uid), slot)
            for uid, slot in _checkpoint(cluster)
            if uid not in over and uid in names
        ),
        listed=_grouped(_listed(cluster)),
        published=_grouped(_published(status)),
        ledger=_ledger(cluster.node.root.at("/var/lib/tonnage/allocations")),
        offered=offered(cluster),
        allocatable={
            name: int(count) for name, count in allocatable.items() if name.startswith("nvidia.com/")
        },
    )


def disagreements(accounts: Accounts, *, forgotten: Iterable[str] = ()) -> list[str]:
    """Where two accounts differ, in words; empty when all is well.

    `forgotten` are pods whose devices kubelet has forgotten, because its checkpoint was deleted: it alone may
    have nothing about them. What is held without a name is theirs who have it.
    """
    lost = frozenset(forgotten)
    accounts = _named(accounts, lost)
    books = {"kubelet's checkpoint": accounts.checkpoint, "kubelet's list": accounts.listed}
    said = [problem for name, book in books.items() for problem in _held_twice(name, book)]
    said += _held_twice("NodeGPUStatus", accounts.published)
    said += _shared_or_whole(accounts)
    for pod in sorted({*accounts.asked, *accounts.containers, *accounts.published, *accounts.checkpoint}):
        said += _about(pod, accounts, is_forgotten=pod in lost)
    held = frozenset(slot for slots in accounts.published.values() for slot in slots)
    said += _difference("the ledger", accounts.ledger, "NodeGPUStatus", held)
    counts = dict(Counter(resource for resource, _ in accounts.offered))
    if counts != {name: count for name, count in accounts.allocatable.items() if count}:
        said.append(f"kubelet offers {counts}, the Node says {dict(accounts.allocatable)}")
    return said


def _named(accounts: Accounts, lost: frozenset[str]) -> Accounts:
    """With what NodeGPUStatus has for nobody under the forgotten pods whose containers see it."""
    published = dict(accounts.published)
    nameless = published.pop("/", frozenset())
    for pod in sorted(lost & accounts.containers.keys()):
        named = {_uuid(slot) for slot in published.get(pod, frozenset())}
        seen = {uuid for devices in accounts.containers[pod] for uuid in devices} - named
        mine = frozenset(slot for slot in nameless if _uuid(slot) in seen)
        published[pod] = published.get(pod, frozenset()) | mine
        nameless -= mine
    return replace(accounts, published={**published, **({"/": nameless} if nameless else {})})


def _about(pod: str, accounts: Accounts, *, is_forgotten: bool) -> Iterator[str]:
    """What differs about one pod."""
    published = accounts.published.get(pod, frozenset())
    checkpoint = accounts.checkpoint.get(pod, frozenset())
    listed = accounts.listed.get(pod, frozenset())
    asked = accounts.asked.get(pod)
    if asked is None:
        if pod in accounts.containers or checkpoint or listed or published:
            yield f"{pod}: is over or gone, and has devices or containers"
        return
    if not is_forgotten:
        yield from (
            f"{pod}: {text}" for text in _difference("checkpoint", checkpoint, "NodeGPUStatus", published)
        )
        if not (listed == checkpoint or (asked.hidden and listed <= checkpoint)):
            yield f"{pod}: kubelet lists {sorted(listed)}, its checkpoint has {sorted(checkpoint)}"
    elif (checkpoint | listed) - published:
        yield f"{pod}: kubelet has {sorted((checkpoint | listed) - published)}, NodeGPUStatus has not"
    if not asked.running or (is_forgotten and asked.hidden):
        return  # kubelet asks once more for init containers that are over, if it forgot what they had
    if (counts := Counter(resource for resource, _ in published)) != Counter(asked.devices):
        yield f"{pod}: asks for {dict(asked.devices)} and has {dict(counts)}"
    visible = sorted(uuid for devices in accounts.containers.get(pod, ()) for uuid in devices)
    given = sorted(_uuid(slot) for slot in published)
    if not (visible == given or (asked.hidden and set(visible) <= set(given))):
        yield f"{pod}: its containers see {visible}, the books have {given}"


def _held_twice(name: str, book: Mapping[str, frozenset[Slot]]) -> Iterator[str]:
    owners: defaultdict[Slot, list[str]] = defaultdict(list)
    for pod, slots in book.items():
        for slot in slots:
            owners[slot].append(pod)
    yield from (f"{name}: {slot} is held by {pods}" for slot, pods in owners.items() if len(pods) > 1)


def _shared_or_whole(accounts: Accounts) -> Iterator[str]:
    """A device that containers have twice without being shared, or oftener than it is shared."""
    replicas = Counter(_uuid(slot) for slot in accounts.offered)
    seen = Counter(uuid for found in accounts.containers.values() for devices in found for uuid in devices)
    yield from (
        f"{uuid} is in {count} containers and may be in {replicas[uuid]}"
        for uuid, count in seen.items()
        if count > max(replicas[uuid], 1)
    )


def _difference(one: str, has: frozenset[Slot], other: str, got: frozenset[Slot]) -> Iterator[str]:
    if has - got:
        yield f"{one} has {sorted(has - got)}, {other} has not"
    if got - has:
        yield f"{other} has {sorted(got - has)}, {one} has not"


def devices_of(process: int) -> tuple[str, ...]:
    """The uuids in a process' environment; none when it is over."""
    try:
        variables = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    except OSError:
        return ()
    values = [value.removeprefix(_VARIABLE).decode() for value in variables if value.startswith(_VARIABLE)]
    return tuple(uuid for value in values for uuid in value.split(",") if uuid.startswith("GPU-"))


def nodes_of(process: int) -> tuple[str, ...]:
    """The device nodes of GPUs that a process of a container has; none when it is over, or not yet there.

    While the runtime sets a container up, its process still sees the node's own files; and the agent, which
    has kubelet's folder, sees every GPU.
    """
    root = Path(f"/proc/{process}/root")
    if (root / "var/lib/kubelet").exists():
        return ()
    return tuple(sorted(path.name for path in (root / "dev").glob("nvidia[0-9]*")))


def visible_devices(
    cluster: GenuineCluster, devices_of: Callable[[int], tuple[str, ...]] = devices_of
) -> Iterator[tuple[str, str, tuple[str, ...], int]]:
    """(pod uid, container id, devices, process) of every running container that has any of its own."""
    seen: set[str] = set()
    for path, process in processes_in(cluster.node.cgroup):
        pod, _, container = path.rpartition("/")
        if container in seen or not pod.rpartition("/")[2].startswith("pod"):
            continue
        if devices := devices_of(process):
            seen.add(container)
            yield pod.rpartition("/pod")[2], container, devices, process


def offered(cluster: GenuineCluster) -> frozenset[Slot]:
    """What kubelet itself has as allocatable devices; nothing when it does not answer."""
    try:
        answer = _ask(cluster, methods.POD_RESOURCES_ALLOCATABLE, wire.AllocatableResourcesRequest())
    except grpc.RpcError:
        return frozenset()
    return frozenset((entry.resource_name, slot) for entry in answer.devices for slot in entry.device_ids)


def _listed(cluster: GenuineCluster) -> Iterator[tuple[str, Slot]]:
    try:
        answer = _ask(cluster, methods.POD_RESOURCES_LIST, wire.ListPodResourcesRequest())
    except grpc.RpcError:
        return
    for pod in answer.pod_resources:
        for container in pod.containers:
            for entry in container.devices:
                yield from (
                    (f"{pod.namespace}/{pod.name}", (entry.resource_name, slot)) for slot in entry.device_ids
                )


def _ask(cluster: GenuineCluster, method: methods.Method[Any, Any], request: Any) -> Any:
    socket = cluster.node.root.at("/var/lib/kubelet/pod-resources/kubelet.sock")
    options = (("grpc.default_authority", "localhost"), ("grpc.use_local_subchannel_pool", 1))
    with grpc.insecure_channel(f"unix:{socket}", options=options) as channel:
        call = channel.unary_unary(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.response.FromString,
        )
        return call(request, timeout=5)


def _checkpoint(cluster: GenuineCluster) -> Iterator[tuple[str, Slot]]:
    """(pod uid, slot), pods that are over among them."""
    file = cluster.node.root.at(f"{_PLUGINS}/kubelet_internal_checkpoint")
    if not file.exists():
        return
    for entry in json.loads(file.read_text())["Data"]["PodDeviceEntries"] or ():
        for ids in entry["DeviceIDs"].values():
            yield from ((entry["PodUID"], (entry["ResourceName"], slot)) for slot in ids)


def _ledger(file: Path) -> frozenset[Slot]:
    return frozenset((row["resource"], row["id"]) for row in ledger_rows(file))


def ledger_rows(file: Path) -> list[Mapping[str, Any]]:
    """Of the agent's own checkpoint, and of what was added to it; none when it is not there."""
    disk = FolderCheckpoints(file.parent)
    payload = asyncio.run(disk.load(file.name))
    added = asyncio.run(disk.load_added(file.name))
    rows = [row for text in (payload or b"[]", *added) for row in json.loads(text)]
    return list({(row["resource"], row["id"]): row for row in rows}.values())


def _published(status: Mapping[str, Any]) -> Iterator[tuple[str, Slot]]:
    for device in status.get("devices", ()):
        for holder in device.get("holders", ()):
            owner = f"{holder.get('namespace', '')}/{holder.get('pod', '')}"
            yield from ((owner, (holder["resource"], slot)) for slot in holder["ids"])


def _asked(pod: Mapping[str, Any]) -> Asked:
    """What kubelet gives for it: a container takes what ordinary init containers before it had."""
    first: Counter[str] = Counter()
    for container in pod["spec"].get("initContainers", ()):
        first |= _limits(container)
    together: Counter[str] = Counter()
    for container in pod["spec"]["containers"]:
        together += _limits(container)
    statuses = pod["status"].get("containerStatuses", ())
    return Asked(
        first | together, bool(statuses) and all("running" in one["state"] for one in statuses), bool(first)
    )


def _limits(container: Mapping[str, Any]) -> Counter[str]:
    limits = container.get("resources", {}).get("limits", {})
    return Counter({name: int(count) for name, count in limits.items() if name.startswith("nvidia.com/")})


def _grouped(pairs: Iterable[tuple[str, Slot]]) -> dict[str, frozenset[Slot]]:
    book: defaultdict[str, set[Slot]] = defaultdict(set)
    for pod, slot in pairs:
        book[pod].add(slot)
    return {pod: frozenset(slots) for pod, slots in book.items()}


def _name(pod: Mapping[str, Any]) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _uuid(slot: Slot) -> str:
    return slot[1].partition("::")[0]
