"""The metrics of NVIDIA's node status exporter, out of the copies that the loops keep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from tonnage.controller.context import ControllerContext
from tonnage.controller.operator.node_loop import PolicyInForce
from tonnage.model.json_access import number
from tonnage.model.kubernetes.quantity import parse_quantity
from tonnage.model.metric_families import Metric, MetricKind
from tonnage.model.operands import DEPLOY
from tonnage.model.validation import NodeStage, Outcome
from tonnage.reading.gpu_status import validation_from
from tonnage.reading.object_parts import moment
from tonnage.wire.kinds import CLUSTER_POLICY, NODE, NODE_GPU_STATUS
from tonnage.wire.objects import Node

_PART: Final = "node-status-exporter"
_OPERATOR: Final = "gpu_operator_"
_DEVICES: Final = ("nvidia.com/gpu", "nvidia.com/mig-")
# The names and texts are NVIDIA's: gpu-operator v26.7, cmd/nvidia-validator/metrics.go.
_METRICS_READY: Final = (
    "metrics_ready_ts_seconds",
    "timestamp (in seconds) of the launch time of the GPU Operator node metrics Pod",
)
_READY: Final = {
    NodeStage.DRIVER: (
        "driver_ready",
        "1 if the driver synchronization barrier of the the local node is open, 0 otherwise",
    ),
    NodeStage.RUNTIME: (
        "toolkit_ready",
        "1 if the container-toolkit synchronization barrier on the local node is open, 0 otherwise",
    ),
    NodeStage.PLUGIN: (
        "plugin_ready",
        "1 if the device plugin synchronization barrier on the local is open, 0 otherwise",
    ),
    NodeStage.WORKLOAD: (
        "cuda_ready",
        "1 if cuda synchronization barrier on the local node is open, 0 otherwise",
    ),
}
_DRIVER: Final = (
    "driver_validation",
    "1 if the driver validation test passed on the local node, 0 otherwise",
)
_DRIVER_LAST: Final = (
    "driver_validation_last_success_ts_seconds",
    "timestamp (in seconds) of the last successful driver test validation",
)
_COUNT: Final = (
    "device_plugin_devices_total",
    (
        "number of GPU devices exposed by the DevicePlugin on the local node. "
        "-1 if failing to inspect the node spec."
    ),
)
_COUNT_LAST: Final = (
    "device_plugin_validation_last_success_ts_seconds",
    "timestamp (in seconds) of the last time GPU devices were found on the local node spec",
)
_ON_BUS: Final = (
    "nvidia_pci_devices_total",
    "number of NVIDIA devices found in the node. -1 if failing to count",
)
_ORDER: Final = (_METRICS_READY, *_READY.values(), _DRIVER, _DRIVER_LAST, _COUNT, _COUNT_LAST, _ON_BUS)


def node_status_families(
    samples: Mapping[str, Mapping[str, float]] = MappingProxyType({}),
) -> Iterator[Metric]:
    """Every metric in the order of the page, with its values by node."""
    for name, text in _ORDER:
        prefix = _OPERATOR if name == _ON_BUS[0] else f"{_OPERATOR}node_"
        values = tuple(((node,), value) for node, value in samples.get(name, {}).items())
        yield Metric(MetricKind.GAUGE, f"{prefix}{name}", text, ("node",), values)


class NodeStatusMetrics:
    """Nodes that have the operand's label, while a policy asks for the exporter.

    A barrier is open once its stage has passed. A time of success is absent until there was one.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._nodes = context.copies.of(NODE)
        self._reports = context.copies.of(NODE_GPU_STATUS)
        self._policy = PolicyInForce(context.copies.of(CLUSTER_POLICY))
        self._clock = context.clock
        self._since = context.clock.now().timestamp()
        self._driver_passed: dict[str, float] = {}
        self._devices_seen: dict[str, float] = {}

    def families(self) -> Iterator[Metric]:
        """As the copies are when they are gone through; a thread may do that, one at a time."""
        policy = self._policy()
        if policy is None or _PART not in policy.operands.parts:
            return
        nodes = [node for node in self._nodes if node.metadata.labels.get(f"{DEPLOY}{_PART}") == "true"]
        samples: dict[str, dict[str, float]] = {name: {} for name, _ in _ORDER}
        for node in sorted(nodes, key=lambda node: node.metadata.name):
            for name, value in self._of(node).items():
                samples[name][node.metadata.name] = value
        present = {node.metadata.name for node in nodes}
        for times in (self._driver_passed, self._devices_seen):
            for gone in times.keys() - present:
                del times[gone]
        yield from node_status_families(samples)

    def _of(self, node: Node) -> dict[str, float]:
        name = node.metadata.name
        report = self._reports.get(name)
        status = report.status if report is not None else {}
        validation = validation_from(status.get("validation"))
        passed = {stage: validation.of(stage).outcome is Outcome.PASSED for stage in NodeStage}
        reported = moment(str(status.get("heartbeatAt", "")))
        if passed[NodeStage.DRIVER] and reported is not None:
            self._driver_passed[name] = reported.timestamp()
        count = sum(
            int(parse_quantity(str(amount)))
            for resource, amount in node.status.capacity.items()
            if resource.startswith(_DEVICES)
        )
        if count:
            self._devices_seen[name] = self._clock.now().timestamp()
        values = {_READY[stage][0]: float(done) for stage, done in passed.items()}
        values |= {
            _METRICS_READY[0]: self._since,
            _DRIVER[0]: float(passed[NodeStage.DRIVER]),
            _COUNT[0]: float(count),
            _ON_BUS[0]: float(number(status, "host", "gpusOnBus", default=-1)),
        }
        for (metric, _), times in ((_DRIVER_LAST, self._driver_passed), (_COUNT_LAST, self._devices_seen)):
            if name in times:
                values[metric] = times[name]
        return values
