"""Does a device plugin run, is it registered, and does it offer all there is?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from tonnage.diagnose.doctor.finding import (
    DoctorCode,
    Finding,
    Judgement,
    counted,
    error,
    listed,
    note,
    warning,
)
from tonnage.diagnose.doctor.kubelet import up
from tonnage.model.layer import NodeLayer
from tonnage.model.node.facts import ClusterFacts, KubeletFacts, NodeFacts, PluginFacts

_LAYER: Final = NodeLayer.PLUGIN
_FOLDER: Final = "/var/lib/kubelet/device-plugins"
_NVIDIA: Final = "nvidia.com/"
_MOMENT_S: Final = 10.0
"""How long a plugin may take to notice a kubelet that has just started."""
_NEVER: Final = float("inf")
"""No time of a registration is told: nothing is said of it."""
_SAMPLE: Final = re.compile(r"^(tonnage_agent_[a-z_]+)(?:\{([^}\n]{0,2000})\})? (\S+)$", re.MULTILINE)
_LABEL: Final = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')
_PARTS: Final = re.compile(r"(?:; |\n\s*)(?=why: |remedy: |in force: )")
_REJECTED: Final = "UnexpectedAdmissionError"
_LOGS: Final = "kubectl logs -n tonnage-system -l app.kubernetes.io/name=tonnage-agent --tail=50"

Samples = Mapping[tuple[str, frozenset[tuple[str, str]]], float]


def judge_plugin(facts: NodeFacts, plugin: PluginFacts, *, gpus: bool, sound: bool) -> Judgement:
    """`gpus`: there are GPUs to offer; `sound`: nothing below fails. kubelet's faults are its layer's."""
    samples = samples_of(plugin.metrics.text) if plugin.metrics is not None else {}
    others = [process for process in plugin.processes if process.name != "tonnage"]
    findings = [*_running(plugin, others=bool(others), gpus=gpus), *_answers(plugin)]
    if plugin.running or others:
        findings += _registered(facts.kubelet, plugin, samples, sound=gpus and sound)
    if plugin.running and others:
        findings.append(_two(plugin))
    findings += [*_config(plugin, facts, samples), *_state(plugin)]
    findings += [*_offered(facts.cluster, samples), *_refused(facts.cluster), *_counted(samples)]
    if plugin.running is None and not others:
        return Judgement(_LAYER, tuple(findings), because=f"whether the agent runs: {plugin.lock_trouble}")
    return Judgement(_LAYER, tuple(findings), _summary(facts, plugin, [each.name for each in others]))


def _summary(facts: NodeFacts, plugin: PluginFacts, others: list[str]) -> str:
    registered = facts.kubelet.registered if facts.kubelet is not None else None
    offered = [f"{name}: {number}" for name, number in sorted((registered or {}).items()) if number]
    who = "agent runs" if plugin.running else (others[0] if others else "no plugin runs")
    said = [who, listed(offered, 3) if offered else "nothing registered"]
    return ", ".join([*said, f"config {plugin.config_source}"] if plugin.config_source else said)


def samples_of(text: str) -> Samples:
    """The agent's metrics by name and labels.

    >>> samples_of('tonnage_agent_ready 1.0')
    {('tonnage_agent_ready', frozenset()): 1.0}
    """
    found: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    for name, labels, value in _SAMPLE.findall(text):
        try:
            found[name, frozenset(_LABEL.findall(labels))] = float(value)
        except ValueError:
            continue
    return found


def _running(plugin: PluginFacts, *, others: bool, gpus: bool) -> Iterator[Finding]:
    if plugin.running is False and not others and gpus:
        yield error(
            DoctorCode.AGENT_NOT_RUNNING,
            _LAYER,
            "no device plugin runs on this node",
            where="/var/lib/tonnage/agent.lock",
            why="nobody holds the agent's lock, and no other plugin is among the processes: the node offers"
            " no GPU",
            remedy="kubectl get pods -n tonnage-system -o wide --field-selector spec.nodeName=$(hostname);"
            " does the node have the label nvidia.com/gpu.present=true?",
        )


def _answers(plugin: PluginFacts) -> Iterator[Finding]:
    if plugin.ready is not None and plugin.ready.status != 200:
        lines = [line.strip() for line in plugin.ready.text.splitlines() if line.strip()]
        yield error(
            DoctorCode.AGENT_NOT_READY,
            _LAYER,
            f"the agent is not ready: {lines[0][:300] if lines else plugin.ready.status}",
            where=f"http://{plugin.address}/readyz",
            why="; ".join(lines[1:4])[:500],
            remedy=_LOGS,
        )
    elif plugin.running and plugin.address and plugin.ready is None:
        yield warning(
            DoctorCode.AGENT_NOT_READY,
            _LAYER,
            "the agent runs and does not answer",
            where=f"http://{plugin.address}/readyz",
            why="it starts or ends just now, hangs, or that is not its address (--agent-address)",
            remedy=_LOGS,
        )


def _registered(
    kubelet: KubeletFacts | None, plugin: PluginFacts, samples: Samples, *, sound: bool
) -> Iterator[Finding]:
    """KUB-5: a kubelet that starts forgets plugins and removes their sockets."""
    if kubelet is None or not up(kubelet) or kubelet.socket is None:
        return
    if kubelet.now - kubelet.socket.made < _MOMENT_S or any(
        each.sees_kubelet is False for each in plugin.processes
    ):
        return
    sockets = {socket.name.rpartition("/")[2] for socket in kubelet.plugins}
    known = [
        name for name, number in (kubelet.registered or {}).items() if number and name.startswith(_NVIDIA)
    ]
    lost = sorted(name for name in known if f"nvidia-{name.removeprefix(_NVIDIA)}.sock" not in sockets)
    offered = {
        dict(labels).get("resource", "") for name, labels in samples if name == "tonnage_agent_devices"
    }
    registrations = {
        dict(labels).get("resource", ""): at
        for (name, labels), at in samples.items()
        if name == "tonnage_agent_last_registration_timestamp_seconds"
    }
    late = sorted(each for each in offered if registrations.get(each, _NEVER) < kubelet.socket.made - 1)
    names = lost or late
    if not names and (sockets or not sound):
        return
    yield error(
        DoctorCode.NOT_REGISTERED,
        _LAYER,
        f"not registered with the kubelet that runs: {listed(names)}"
        if names
        else "the plugin runs and has registered nothing",
        where=_FOLDER,
        why="kubelet was restarted, which removes the sockets of plugins, and nobody has registered since"
        if names
        else "its socket is not in kubelet's folder",
        remedy=f"kubectl delete pod {_pods_of(plugin)} --field-selector spec.nodeName=$(hostname)"
        " (pods that run keep their GPUs)",
    )


def _pods_of(plugin: PluginFacts) -> str:
    """Options of kubectl that name the plugin's pods."""
    if any(process.name == "nvidia-device-plugin" for process in plugin.processes):
        return "-n gpu-operator -l app=nvidia-device-plugin-daemonset"
    return "-n tonnage-system -l app.kubernetes.io/name=tonnage-agent"


def _two(plugin: PluginFacts) -> Finding:
    names = sorted({process.name for process in plugin.processes})
    return error(
        DoctorCode.TWO_PLUGINS,
        _LAYER,
        f"two device plugins run: {listed(names)}",
        where=listed([f"/proc/{process.pid}" for process in plugin.processes]),
        why="both register nvidia.com/gpu; kubelet takes the last, and GPUs are given out twice",
        remedy="kubectl delete daemonset -n kube-system nvidia-device-plugin-daemonset"
        " (with the GPU operator: devicePlugin.enabled=false)",
    )


def _state(plugin: PluginFacts) -> Iterator[Finding]:
    if plugin.damaged:
        yield warning(
            DoctorCode.AGENT_STATE,
            _LAYER,
            f"the agent's state on disk is damaged: {listed(plugin.damaged)}",
            where=listed(plugin.damaged),
            why="its checksum does not fit: a full or faulty disk. The agent sets it aside and learns anew",
            remedy=f"dmesg | grep -i 'i/o error'; then rm {' '.join(plugin.damaged)}",
        )


def _config(plugin: PluginFacts, facts: NodeFacts, samples: Samples) -> Iterator[Finding]:
    if plugin.config_trouble:
        unreadable = plugin.config_trouble.startswith("permission denied")
        yield (note if unreadable else warning)(
            DoctorCode.CONFIG_UNREADABLE,
            _LAYER,
            "the configuration that the agent ran last cannot be read",
            where="/var/lib/tonnage/device-plugin-config",
            why=plugin.config_trouble,
            remedy="run doctor as root" if unreadable else "rm it: the agent takes the ConfigMap's again",
        )
    conditions = facts.cluster.conditions if facts.cluster is not None else {}
    status, message = conditions.get("GPUConfigApplied", ("", ""))
    if status == "False":
        head, *rest = _PARTS.split(message)
        yield error(
            DoctorCode.CONFIG_REFUSED,
            _LAYER,
            f"the node does not run the configuration that it is told to: {head[:300]}",
            where=f"condition GPUConfigApplied of node {facts.node}",
            why="; ".join(line.strip() for line in rest)[:500],
            remedy="correct the ConfigMap; the agent takes it within a second",
        )
    elif not status and samples.get(("tonnage_agent_config_refused", frozenset())):
        yield error(
            DoctorCode.CONFIG_REFUSED,
            _LAYER,
            "the node does not run the configuration that it is told to",
            where=f"http://{plugin.address}/metrics",
            why=f"the agent refuses it and keeps {plugin.config_source or 'the last good one'}",
            remedy=f"{_LOGS} | grep refused",
        )


def _counted(samples: Samples) -> Iterator[Finding]:
    """KUB-4 where nobody may look at pods: a count that never goes back, so it is no fault of now."""
    for (name, labels), number in sorted(samples.items(), key=str):
        said = dict(labels)
        if name == "tonnage_agent_allocations_total" and said.get("result") == "refused" and number:
            yield note(
                DoctorCode.POD_REFUSED,
                _LAYER,
                f"{said.get('resource', '')}: {counted(int(number), 'request')} refused since the"
                " agent started",
                where="the agent's metrics",
                why="such pods are Failed with UnexpectedAdmissionError: mostly two of a shared resource",
                remedy="kubectl get pods -A --field-selector status.phase=Failed",
            )


def _offered(cluster: ClusterFacts | None, samples: Samples) -> Iterator[Finding]:
    """KUB-2: fewer are allocatable than there are."""
    capacity = cluster.capacity if cluster is not None else {}
    allocatable = cluster.allocatable if cluster is not None else {}
    said: dict[str, tuple[int, int]] = {
        name: (allocatable.get(name, 0), number)
        for name, number in capacity.items()
        if name.startswith(_NVIDIA) and allocatable.get(name, 0)
    }
    for (name, labels), number in samples.items():
        facts = dict(labels)
        if name == "tonnage_agent_devices" and facts.get("state") == "unhealthy" and number:
            resource = facts.get("resource", "")
            total = int(
                samples.get((name, labels - {("state", "unhealthy")} | {("state", "advertised")}), number)
            )
            said[resource] = (total - int(number), total)
    for resource, (good, total) in sorted(said.items()):
        if good < total:
            yield error(
                DoctorCode.NOT_ALLOCATABLE,
                _LAYER,
                f"{resource}: {total} are there, {good} allocatable",
                where="the Node's capacity and allocatable"
                if resource in capacity
                else "the agent's metrics",
                why=f"{counted(total - good, 'device')} of the plugin's list unhealthy; pods that run there"
                " go on, new ones are not placed",
                remedy="kubectl get nodes -o custom-columns='N:.metadata.name,G:.status.conditions"
                '[?(@.type=="GPUsHealthy")].message\'',
            )


def _refused(cluster: ClusterFacts | None) -> Iterator[Finding]:
    """KUB-4: pods that kubelet refused because the plugin did."""
    for pod in cluster.pods if cluster is not None else ():
        if pod.reason != _REJECTED or "Allocate failed" not in pod.message:
            continue
        shared = "maximum request size for shared resources" in pod.message
        yield warning(
            DoctorCode.POD_REFUSED,
            _LAYER,
            f"pod {pod.namespace}/{pod.name} was refused: {pod.message[:300]}",
            where=f"pod {pod.namespace}/{pod.name}, reason {_REJECTED}",
            why="of a shared resource a container may have one (failRequestsGreaterThanOne): two replicas"
            " may be of one GPU"
            if shared
            else "kubelet does not try again: the pod stays Failed",
            remedy=f"ask for 1 instead; kubectl delete pod -n {pod.namespace} {pod.name}"
            if shared
            else f"kubectl delete pod -n {pod.namespace} {pod.name}, so that its owner makes another",
        )
