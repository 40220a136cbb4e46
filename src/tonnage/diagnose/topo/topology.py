"""How the GPUs of a node are joined, as values: the matrix, the best sets, and a chosen set beside them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from tonnage.decide.node.preference.device_sets import GpuTopology, Joined, best_set, joined
from tonnage.diagnose.agent_silence import UNKNOWN_AGE, ReportAge, moment_of, report_age
from tonnage.diagnose.topo.contradictions import topo_doubts
from tonnage.diagnose.topo.families import (
    Boards,
    LinkFamily,
    board_of_status,
    family_of,
    numbered,
    pools_that_differ,
)
from tonnage.model.devices.claims import DRIVER
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.kubernetes.cluster import Snapshot
from tonnage.model.name_lists import listed
from tonnage.model.names import PRODUCT_LABEL
from tonnage.model.node.gpu_status import GpuStatus
from tonnage.model.reasons.facts import GpuPair, GpuSet, facts_json

SIZES = (2, 4, 8)
FASTER = (3, 2)
"""Another family counts when it is at least this many times as fast, as a fraction."""
_MOST_THOROUGH = 16


@dataclass(frozen=True, slots=True)
class GpuRow:
    """A GPU beside its row of the matrix. `numa_node` None: it has none, or it is not known."""

    index: int
    uuid: str
    product: str
    numa_node: int | None
    pci_bus_id: str
    resource: str = ""
    healthy: bool = True
    holders: tuple[str, ...] = ()
    reason: str = ""
    replicas: int = 1
    claim: str = ""
    """`driver/device` under which claims know it; empty: it is not offered as claims."""
    divided: bool = False
    """By MIG: nobody gets the whole of it, and its parts do not talk over links."""

    @property
    def usable(self) -> bool:
        """Whether a pod may be given all of it."""
        return self.healthy and not self.divided

    @property
    def why_unusable(self) -> str:
        """What is wrong with it, or that it is divided; empty where that is not known."""
        return "divided by MIG" if self.healthy and self.divided else self.reason


@dataclass(frozen=True, slots=True)
class NodeTopology:
    """A node's board with who holds what."""

    node: str
    board: GpuTopology
    family: LinkFamily
    rows: tuple[GpuRow, ...] = ()
    agent: ReportAge = UNKNOWN_AGE
    others: tuple[str, ...] = ()
    """Devices of other vendors' drivers that the node offers as claims, `driver/device`."""

    @property
    def usable(self) -> tuple[int, ...]:
        """Indices of the GPUs that a pod may be given, free or not."""
        return tuple(row.index for row in self.rows if row.usable)

    @property
    def unusable(self) -> tuple[GpuRow, ...]:
        """Those that are in no recommended set."""
        return tuple(row for row in self.rows if not row.usable)

    @property
    def free(self) -> tuple[int, ...]:
        """Indices of usable GPUs that nobody holds."""
        return tuple(row.index for row in self.rows if row.usable and not row.holders)

    @property
    def fastest_pair(self) -> str:
        """How the best two usable ones are joined; empty where there is but one."""
        board, usable = self.board, frozenset(self.usable)
        places = [place for place, device in enumerate(board.devices) if device.index in usable]
        pairs = ((board.tenths(i, j), board.ways[i][j]) for i in places for j in places if j < i)
        tenths, way = max(pairs, default=(0, ""))
        return f"{way}, {tenths / 10:g} GB/s" if way else ""

    def best(self, size: int, among: Sequence[int] | None = None) -> Joined | None:
        """The best set of that size of usable GPUs (`among`: of those only); None: there are too few."""
        usable = [index for index in self.usable if among is None or index in among]
        if len(usable) < size:
            return None
        return best_set(self.board, size, usable, thorough=len(self.rows) <= _MOST_THOROUGH)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A set beside the best of its size: of the usable GPUs, and of those that are free or in the set.

    `best` and `best_free` are None where there are too few. `unusable` are those of the set.
    """

    chosen: Joined
    best: Joined | None
    best_free: Joined | None
    unusable: tuple[GpuRow, ...] = ()

    @property
    def is_best(self) -> bool:
        """All of it is usable, and no other set of its size is better joined."""
        return not self.unusable and self.best is not None and self.chosen.worth >= self.best.worth


@dataclass(frozen=True, slots=True)
class FleetTopology:
    """Every node with GPUs, and what their families mean for pods. `silent`: nodes with GPUs and no agent.

    `others`: devices of other vendors' drivers that nodes offer as claims, by node.
    """

    nodes: tuple[NodeTopology, ...]
    notes: tuple[str, ...] = ()
    silent: tuple[str, ...] = field(default=())
    others: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def topology_of_status(status: GpuStatus, boards: Boards, agent: ReportAge = UNKNOWN_AGE) -> NodeTopology:
    """The topology of a node as its agent describes it. Only devices with an index of their own."""
    devices = numbered(status)
    board = board_of_status(devices, boards)
    rows = tuple(
        GpuRow(
            device.index or 0,
            device.uuid,
            device.product,
            device.numa_node,
            device.pci_bus_id,
            device.resource,
            device.healthy,
            tuple(dict.fromkeys(f"{h.namespace}/{h.pod}" for h in device.holders)),
            device.reason,
            status.replicas.get(device.resource, device.replicas),
            f"{status.claims.driver}/{status.claims.names[device.uuid]}"
            if status.claims is not None and device.uuid in status.claims.names
            else "",
            bool(device.parts),
        )
        for device in devices
    )
    return NodeTopology(status.node, board, family_of(board), rows, agent)


def topology_of_board(node: str, board: GpuTopology) -> NodeTopology:
    """The topology of this machine, as its driver describes it."""
    rows = tuple(
        GpuRow(d.index, d.uuid, d.product, d.numa_node, d.pci_bus_id, healthy=d.healthy, reason=d.reason)
        for d in board.devices
    )
    return NodeTopology(node, board, family_of(board), rows)


def fleet_topology(snapshot: Snapshot) -> FleetTopology:
    """Nodes whose agents describe GPUs, by name."""
    boards: Boards = {}
    there = {node.name for node in snapshot.nodes}
    stray = [name for name in sorted(snapshot.gpu) if there and name not in there]
    described = [
        node_status
        for name, node_status in sorted(snapshot.gpu.items())
        if node_status.devices and name not in stray
    ]
    now = moment_of(snapshot)
    others = _devices_of_others(snapshot)
    topologies = tuple(
        replace(
            topology_of_status(status, boards, report_age(status, now)), others=others.get(status.node, ())
        )
        for status in described
    )
    labels = {node.name: node.labels.get(PRODUCT_LABEL, "") for node in snapshot.nodes}
    rows = [
        (topology.node, resource, labels.get(topology.node, ""), topology.family)
        for topology in topologies
        for resource in {row.resource for row in topology.rows if row.resource}
    ]
    names = {topology.node for topology in topologies}
    silent = tuple(
        node.name
        for node in snapshot.nodes
        if node.name not in names and any(_is_gpu(name) and n for name, n in node.capacity.items())
    )
    doubts = [names for status in described for names in topo_doubts(status)]
    doubts += [f"{topology.node}: {words}" for topology in topologies if (words := topology.agent.words)]
    if stray:
        doubts.append(f"NodeGPUStatus of {listed(stray, 3)}: the node does not exist, so it is left out")
    return FleetTopology(topologies, (*pools_that_differ(rows), *doubts), silent, others)


def _devices_of_others(snapshot: Snapshot) -> dict[str, tuple[str, ...]]:
    """By node, in the order in which the slices of the last generation have them."""
    last: dict[tuple[str, str], int] = {}
    for part in snapshot.slices:
        pool = part.driver, part.pool
        last[pool] = max(last.get(pool, 0), part.generation)
    devices: dict[str, list[str]] = {}
    for part in sorted(snapshot.slices, key=lambda part: (part.driver, part.pool, part.name)):
        node = part.scope.name if part.scope is not None else ""
        if node and part.driver != DRIVER and part.generation == last[part.driver, part.pool]:
            devices.setdefault(node, []).extend(f"{part.driver}/{device.name}" for device in part.devices)
    return {node: tuple(names) for node, names in devices.items()}


def _is_gpu(resource: str) -> bool:
    return resource.startswith(("nvidia.com/", "amd.com/gpu", "habana.ai/gaudi"))


def comparison(topology: NodeTopology, indices: Iterable[int]) -> Comparison:
    """TOP-2: how a set compares with the best possible."""
    chosen = joined(topology.board, indices)
    size = len(chosen.indices)
    usable = sorted({*topology.free, *chosen.indices})
    unusable = tuple(row for row in topology.unusable if row.index in chosen.indices)
    return Comparison(chosen, topology.best(size), topology.best(size, usable), unusable)


def gpu_set(joined: Joined) -> GpuSet:
    """A set as a fact."""
    slowest = None
    if joined.pair is not None:
        slowest = GpuPair(tuple(joined.pair), joined.way, joined.slowest / 10)
    return GpuSet(tuple(joined.indices), slowest, joined.total / 10, tuple(joined.numa_nodes))


def joined_json(joined: Joined) -> JsonObject:
    """A set as `topo -o json` prints it."""
    return facts_json(GpuSet, asdict(gpu_set(joined)))


def node_json(topology: NodeTopology, compared: Comparison | None = None) -> JsonObject:
    """A node as `topo -o json` prints it."""
    board = topology.board
    rows: list[JsonValue] = [
        {
            "index": row.index,
            "uuid": row.uuid,
            "product": row.product,
            "numa_node": row.numa_node,
            "pci_bus_id": row.pci_bus_id,
            "resource": row.resource,
            "replicas": row.replicas,
            **({"claim": row.claim} if row.claim else {}),
            "healthy": row.healthy,
            "divided": row.divided,
            "reason": row.reason,
            "holders": [*row.holders],
        }
        for row in topology.rows
    ]
    places = range(len(board.devices))
    family = topology.family
    best = {str(size): joined_json(best) for size in SIZES if (best := topology.best(size)) is not None}
    body: JsonObject = {
        "node": topology.node,
        "agent": topology.agent.to_json(),
        "family": {
            "kind": family.kind.value,
            "links": family.links,
            "groups": [[*group] for group in family.groups],
            "told": family.summary,
        },
        "gpus": rows,
        "matrix": [[*row] for row in board.ways],
        "gb_s": [[board.tenths(i, j) / 10 for j in places] for i in places],
        "best": {**best},
        "left_out": [{"index": row.index, "reason": row.why_unusable} for row in topology.unusable],
        **({"other_devices": [*topology.others]} if topology.others else {}),
    }
    if compared is not None:
        body["set"] = {
            **joined_json(compared.chosen),
            "is_best": compared.is_best,
            "best": None if compared.best is None else joined_json(compared.best),
            "best_free": None if compared.best_free is None else joined_json(compared.best_free),
            "unhealthy": [row.index for row in compared.unusable if not row.healthy],
            "divided": [row.index for row in compared.unusable if row.divided],
        }
    return body
