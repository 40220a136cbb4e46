"""The layers one after another: each judged as far as those that it stands on allow."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from tonnage.diagnose.doctor.containers.cdi_specs import judge_cdi
from tonnage.diagnose.doctor.containers.runtime import judge_runtime
from tonnage.diagnose.doctor.containers.workload import judge_workload
from tonnage.diagnose.doctor.finding import DoctorReport, Judgement, State
from tonnage.diagnose.doctor.host.device_nodes import judge_device_nodes
from tonnage.diagnose.doctor.host.driver import for_containers, judge_driver, loaded
from tonnage.diagnose.doctor.host.hardware import judge_hardware
from tonnage.diagnose.doctor.host.libraries import judge_libraries
from tonnage.diagnose.doctor.kubernetes.kubelet import judge_kubelet
from tonnage.diagnose.doctor.kubernetes.labels import judge_labels
from tonnage.diagnose.doctor.kubernetes.plugin import judge_plugin
from tonnage.model.devices.sharing import PluginConfig
from tonnage.model.layer import NodeLayer
from tonnage.model.node.facts import NodeFacts

_PRETENDED: Final = "the devices are pretended"
_NO_BUS: Final = "doctor cannot tell whether there is a GPU"
_UNSEEN: Final = "doctor could not read it"
_IN_A_POD: Final = "this is a pod's own file system: mount the host's / in it and give --root"


def examine(
    facts: NodeFacts, layers: Iterable[NodeLayer] = tuple(NodeLayer), workload: str = ""
) -> DoctorReport:
    """A judgement of each of `layers`, in their order; `workload` is a pod or container to look at alone."""
    examination = _Examination(facts, workload)
    chosen = set(layers)
    judged = {layer: examination.judged(layer, judge) for layer, judge in examination.judges()}
    return DoctorReport(facts.node, tuple(judged[layer] for layer in NodeLayer if layer in chosen))


@dataclass(slots=True)
class _Examination:
    facts: NodeFacts
    workload: str
    failed: Judgement | None = None
    """The first layer that fails."""

    def judges(self) -> tuple[tuple[NodeLayer, Callable[[], Judgement]], ...]:
        return (
            (NodeLayer.HARDWARE, self._hardware),
            (NodeLayer.DRIVER, self._driver),
            (NodeLayer.DEVICE_NODES, self._device_nodes),
            (NodeLayer.LIBRARIES, self._libraries),
            (NodeLayer.RUNTIME, self._runtime),
            (NodeLayer.CDI, self._cdi),
            (NodeLayer.KUBELET, self._kubelet),
            (NodeLayer.PLUGIN, self._plugin),
            (NodeLayer.LABELS, self._labels),
            (NodeLayer.WORKLOAD, self._workload),
        )

    def judged(self, layer: NodeLayer, judge: Callable[[], Judgement]) -> Judgement:
        judgement = judge().on(self.facts.node)
        if judgement.state is State.FAILS and self.failed is None:
            self.failed = judgement
        return judgement

    @property
    def _pretended(self) -> bool:
        return self.facts.answer.pretended

    @property
    def _contained(self) -> bool:
        """Whether what lies below the root is a pod's: of the host it has /sys and parts of /proc."""
        return self.facts.kubelet is not None and self.facts.kubelet.contained

    @property
    def _gpus(self) -> bool:
        """Whether there are GPUs of NVIDIA to offer, as far as it is known."""
        if self._pretended:
            return bool(self.facts.answer.inventory and self.facts.answer.inventory.devices)
        return bool(for_containers(self.facts))

    def _not(self, layer: NodeLayer, why: str) -> Judgement:
        return Judgement(layer, because=why)

    def _missing(self, layer: NodeLayer, name: str) -> Judgement:
        return self._not(layer, self.facts.troubles.get(name, _UNSEEN))

    def _below(self, layer: NodeLayer) -> Judgement | None:
        """Why a layer that stands on NVIDIA's loaded driver cannot be judged, if it cannot."""
        hardware = self.facts.hardware
        if self._pretended:
            return self._not(layer, _PRETENDED)
        if hardware is None or hardware.gpus is None:
            return None if loaded(self.facts) else self._not(layer, _NO_BUS)
        if not self._gpus:
            return self._not(layer, "there is no NVIDIA GPU for containers")
        return None if loaded(self.facts) else self._not(layer, "the driver is not loaded")

    def _hardware(self) -> Judgement:
        if self._pretended:
            return self._not(NodeLayer.HARDWARE, _PRETENDED)
        facts = self.facts.hardware
        return judge_hardware(facts) if facts is not None else self._missing(NodeLayer.HARDWARE, "hardware")

    def _driver(self) -> Judgement:
        if self._pretended:
            return self._not(NodeLayer.DRIVER, _PRETENDED)
        hardware, facts = self.facts.hardware, self.facts.driver
        if facts is None:
            return self._missing(NodeLayer.DRIVER, "driver")
        if hardware is not None and hardware.gpus == ():
            return self._not(NodeLayer.DRIVER, "there is no GPU")
        if (hardware is None or hardware.gpus is None) and not facts.modules:
            return self._not(NodeLayer.DRIVER, _NO_BUS)
        return judge_driver(self.facts, facts)

    def _device_nodes(self) -> Judgement:
        facts = self.facts.device_nodes
        below = self._below(NodeLayer.DEVICE_NODES)
        if below is not None:
            return below
        if self._contained:
            return self._not(NodeLayer.DEVICE_NODES, _IN_A_POD)
        if facts is None:
            return self._missing(NodeLayer.DEVICE_NODES, "device_nodes")
        return judge_device_nodes(facts, self.facts.answer.inventory)

    def _libraries(self) -> Judgement:
        facts = self.facts.libraries
        below = self._below(NodeLayer.LIBRARIES)
        if below is not None:
            return below
        if facts is None:
            return self._missing(NodeLayer.LIBRARIES, "libraries")
        if self._contained and not facts.files:
            return self._not(NodeLayer.LIBRARIES, _IN_A_POD)
        version = self.facts.driver.version if self.facts.driver is not None else ""
        return judge_libraries(facts, version, self.facts.answer, sound=self.failed is None)

    def _runtime(self) -> Judgement:
        facts = self.facts.runtime
        if facts is None:
            return self._missing(NodeLayer.RUNTIME, "runtime")
        return judge_runtime(self.facts, facts, gpus=self._gpus and not self._pretended)

    def _cdi(self) -> Judgement:
        facts, answer = self.facts.cdi, self.facts.answer
        if facts is None:
            return self._missing(NodeLayer.CDI, "cdi")
        if self._contained and not facts.specs:
            return self._not(NodeLayer.CDI, _IN_A_POD)
        driver = self.facts.driver
        version = driver.version if driver is not None and not self._pretended else ""
        return judge_cdi(facts, version, answer.inventory, self._config())

    def _kubelet(self) -> Judgement:
        facts = self.facts.kubelet
        return (
            judge_kubelet(facts, self.facts.plugin)
            if facts is not None
            else self._missing(NodeLayer.KUBELET, "kubelet")
        )

    def _plugin(self) -> Judgement:
        facts = self.facts.plugin
        if facts is None:
            return self._missing(NodeLayer.PLUGIN, "plugin")
        return judge_plugin(self.facts, facts, gpus=self._gpus, sound=self.failed is None)

    def _labels(self) -> Judgement:
        cluster, inventory = self.facts.cluster, self.facts.answer.inventory
        if cluster is None:
            return self._not(
                NodeLayer.LABELS,
                f"the Node object was not read: {self.facts.troubles.get('cluster', _UNSEEN)}",
            )
        if inventory is None:
            return self._not(NodeLayer.LABELS, "the driver does not report its GPUs")
        return judge_labels(cluster.labels, inventory, self._config(), self.facts.machine)

    def _workload(self) -> Judgement:
        facts = self.facts.workload
        if facts is None:
            return self._missing(NodeLayer.WORKLOAD, "workload")
        if self._contained and not facts.containers:
            return self._not(NodeLayer.WORKLOAD, _IN_A_POD)
        cluster = self.facts.cluster
        claims = cluster.claims if cluster is not None else None
        return judge_workload(facts, self.facts.answer, self.workload, claims)

    def _config(self) -> PluginConfig | None:
        return self.facts.plugin.config if self.facts.plugin is not None else None
