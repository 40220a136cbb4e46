"""Does a device plugin run, is it registered, and does it offer all there is?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tonnage.diagnose.agent_silence import heartbeat_age
from tonnage.diagnose.doctor.finding import (
    AGENT_PODS,
    Judgement,
    NodeFinding,
    counted,
    finding,
    listed,
    unseen_kind,
)
from tonnage.diagnose.doctor.kubernetes.agent_metrics import Samples, samples_of
from tonnage.diagnose.doctor.kubernetes.claim_driver import claim_findings
from tonnage.diagnose.doctor.kubernetes.registration import registration_findings
from tonnage.model.kubernetes.cluster import Node
from tonnage.model.layer import NodeLayer
from tonnage.model.node.device_counts import DeviceCount, device_count
from tonnage.model.node.facts import ClusterFacts, NodeFacts, PluginFacts
from tonnage.model.node.gpu_status import ClaimReport
from tonnage.model.reasons.gpu.devices import GpuConfigRefused
from tonnage.model.reasons.node.plugin import (
    AgentNotReady,
    AgentNotRunning,
    AgentSilent,
    AgentStateDamaged,
    DevicesNotAllocatable,
    GpuConfigUnreadable,
    PodRefusedByPlugin,
    TwoPlugins,
)
from tonnage.model.severity import Severity

_LAYER: Final = NodeLayer.PLUGIN
_NVIDIA: Final = "nvidia.com/"
_PARTS: Final = re.compile(r"(?:; |\n\s*)(?:why: |remedy: |(?=in force: ))")
_REJECTED: Final = "UnexpectedAdmissionError"
_LOGS: Final = f"kubectl logs {AGENT_PODS} --tail=50"


def judge_plugin(facts: NodeFacts, plugin: PluginFacts, *, gpus: bool, sound: bool) -> Judgement:
    """`gpus`: there are GPUs to offer; `sound`: nothing below fails. kubelet's faults are its layer's."""
    samples = samples_of(plugin.metrics.text) if plugin.metrics is not None else {}
    others = [process for process in plugin.processes if process.name != "tonnage"]
    findings = [*_running(plugin, others=bool(others), gpus=gpus), *_answers(plugin)]
    if plugin.running or others:
        only_claims = _claims(facts.cluster) is not None  # then nothing need be registered as a resource
        due = gpus and sound and not only_claims
        findings += registration_findings(facts.kubelet, plugin, samples, sound=due)
    if plugin.running and others:
        findings.append(_two(plugin))
    findings += [*_config(plugin, facts, samples), *_state(plugin)]
    findings += [*_silent(facts.cluster, plugin), *claim_findings(_claims(facts.cluster), facts.kubelet)]
    findings += [*_offered(facts.cluster, samples), *_refused(facts.cluster), *_counted(samples)]
    if plugin.running is None and not others:
        return Judgement(_LAYER, tuple(findings), because=f"whether the agent runs: {plugin.lock_trouble}")
    summary = _summary(facts, plugin, [plugin_found.name for plugin_found in others])
    return Judgement(_LAYER, tuple(findings), summary, _unjudged(facts.cluster))


def _unjudged(cluster: ClusterFacts | None) -> str:
    """Why it is not known which pods kubelet refused."""
    if cluster is None or "Pod" not in cluster.forbidden | cluster.unlisted:
        return ""
    why = unseen_kind("Pod") if "Pod" in cluster.forbidden else "the file has no Pod"
    return f"which pods kubelet refused: {why}"


def _summary(facts: NodeFacts, plugin: PluginFacts, others: list[str]) -> str:
    registered = facts.kubelet.registered if facts.kubelet is not None else None
    offered = [
        f"{name}: {_there(facts.cluster, name, number)}"
        for name, number in sorted((registered or {}).items())
        if number
    ]
    plugin_name = "agent runs" if plugin.running else (others[0] if others else "no plugin runs")
    if (claims := _claims(facts.cluster)) is not None and not claims.why:
        fit = sum(name not in claims.unfit for name in claims.devices)
        offered.append(f"{claims.driver}: {fit} as claims")
    parts = [plugin_name, listed(offered, 3) if offered else "nothing registered"]
    return ", ".join([*parts, f"config {plugin.config_source}"] if plugin.config_source else parts)


def _claims(cluster: ClusterFacts | None) -> ClaimReport | None:
    return cluster.claims if cluster is not None else None


def _running(plugin: PluginFacts, *, others: bool, gpus: bool) -> Iterator[NodeFinding]:
    if plugin.running is False and not others and gpus:
        yield finding(
            AgentNotRunning(
                message="no device plugin runs on this node",
                remedy="kubectl get pods -n tonnage-system -o wide --field-selector"
                " spec.nodeName=$(hostname);"
                " check that the node has the label nvidia.com/gpu.present=true",
            ),
            where="/var/lib/tonnage/agent.lock",
            why="the agent does not run (its lock is free), nor does another plugin: the node offers no GPU",
        )


def _silent(cluster: ClusterFacts | None, plugin: PluginFacts) -> Iterator[NodeFinding]:
    """An agent that is known not to run needs no other sign of it."""
    if cluster is None or plugin.running is False:
        return
    age = heartbeat_age(cluster.heartbeat, cluster.read_at)
    if age.silent and age.age is not None:
        yield finding(
            AgentSilent(
                message=age.words,
                remedy=_LOGS,
                nodes=(),
                age_s=int(age.age.total_seconds()),
            ),
            where="NodeGPUStatus status.heartbeatAt",
            why="it hangs or cannot reach the API server, so the cluster uses old facts",
        )


def _answers(plugin: PluginFacts) -> Iterator[NodeFinding]:
    if plugin.ready is not None and plugin.ready.status != 200:
        lines = [line.strip() for line in plugin.ready.text.splitlines() if line.strip()]
        yield finding(
            AgentNotReady(
                message=f"the agent is not ready: {lines[0][:300] if lines else plugin.ready.status}",
                remedy=_LOGS,
                status=plugin.ready.status,
            ),
            where=f"http://{plugin.address}/readyz",
            why="; ".join(lines[1:4])[:500],
        )
    elif plugin.running and plugin.address and plugin.ready is None:
        yield finding(
            AgentNotReady(
                message="the agent runs but does not answer",
                remedy=_LOGS,
            ),
            where=f"http://{plugin.address}/readyz",
            why="it is starting or ending, hangs, or has another address (--agent-address)",
            severity=Severity.WARNING,
        )


def _two(plugin: PluginFacts) -> NodeFinding:
    names = sorted({process.name for process in plugin.processes})
    return finding(
        TwoPlugins(
            message=f"two device plugins run: {listed(names)}",
            remedy="kubectl delete daemonset -n kube-system nvidia-device-plugin-daemonset"
            " (with the GPU operator: devicePlugin.enabled=false)",
            plugins=tuple(names),
        ),
        where=listed([f"/proc/{process.pid}" for process in plugin.processes]),
        why="both register nvidia.com/gpu; kubelet takes the last, and GPUs are given out twice",
    )


def _state(plugin: PluginFacts) -> Iterator[NodeFinding]:
    if plugin.damaged:
        yield finding(
            AgentStateDamaged(
                message=f"the agent's state on disk is damaged: {listed(plugin.damaged)}",
                remedy=f"dmesg | grep -i 'i/o error'; then rm {' '.join(plugin.damaged)}",
                files=tuple(plugin.damaged),
            ),
            where=listed(plugin.damaged),
            why="its checksum does not match: the disk is full or faulty; the agent sets it aside",
        )


def _config(plugin: PluginFacts, facts: NodeFacts, samples: Samples) -> Iterator[NodeFinding]:
    if plugin.config_trouble:
        unreadable = plugin.config_trouble.startswith("permission denied")
        yield finding(
            GpuConfigUnreadable(
                message="the configuration that the agent ran last cannot be read",
                remedy="run doctor as root" if unreadable else "rm it: the agent takes the ConfigMap's again",
                problem=plugin.config_trouble,
            ),
            where="/var/lib/tonnage/device-plugin-config",
            why=plugin.config_trouble,
            severity=Severity.NOTE if unreadable else Severity.WARNING,
        )
    conditions = facts.cluster.conditions if facts.cluster is not None else {}
    # The condition before the agent's counter, which says that there is a refusal but not why.
    status, message = conditions.get("GPUConfigApplied", ("", ""))
    if status == "False":
        head, *rest = _PARTS.split(message)
        yield finding(
            GpuConfigRefused(
                subject="",
                message=f"the node does not run the configuration that it was given: {head[:300]}",
                remedy="correct the ConfigMap; the agent takes it within a second",
                problem=head,
            ),
            where=f"condition GPUConfigApplied of node {facts.node}",
            why="; ".join(line.strip() for line in rest)[:500],
        )
    elif not status and samples.get(("tonnage_agent_config_refused", frozenset())):
        yield finding(
            GpuConfigRefused(
                subject="",
                message="the node does not run the configuration that it was given",
                remedy=f"{_LOGS} | grep refused",
                problem="",
            ),
            where=f"http://{plugin.address}/metrics",
            why=f"the agent refuses it and keeps {plugin.config_source or 'the last good one'}",
        )


def _counted(samples: Samples) -> Iterator[NodeFinding]:
    """KUB-4 where nobody may look at pods: a count that never goes back, so it is no fault of now."""
    for (name, labels), number in sorted(samples.items(), key=str):
        series = dict(labels)
        resource = series.get("resource", "")
        if name == "tonnage_agent_allocations_total" and series.get("result") == "refused" and number:
            yield finding(
                PodRefusedByPlugin(
                    message=f"{resource}: {counted(int(number), 'request')} refused since the agent started",
                    remedy="kubectl get pods -A --field-selector status.phase=Failed",
                    resource=resource,
                    requests=int(number),
                ),
                where="the agent's metrics",
                why="such pods are Failed with UnexpectedAdmissionError, mostly for two of a shared resource",
                severity=Severity.NOTE,
            )


def _offered(cluster: ClusterFacts | None, samples: Samples) -> Iterator[NodeFinding]:
    """KUB-2: fewer are allocatable than there are."""
    capacity = cluster.capacity if cluster is not None else {}
    allocatable = cluster.allocatable if cluster is not None else {}
    amounts: dict[str, tuple[int, int]] = {
        name: (allocatable.get(name, 0), number)
        for name, number in capacity.items()
        if name.startswith(_NVIDIA) and allocatable.get(name, 0)
    }
    for (name, labels), number in samples.items():
        series = dict(labels)
        if name == "tonnage_agent_devices" and series.get("state") == "unhealthy" and number:
            resource = series.get("resource", "")
            total = int(
                samples.get((name, labels - {("state", "unhealthy")} | {("state", "advertised")}), number)
            )
            amounts[resource] = (total - int(number), total)
    for resource, (good, total) in sorted(amounts.items()):
        if good < total:
            yield finding(
                DevicesNotAllocatable(
                    message=f"{resource}: {_there(cluster, resource, total)} are there, {good} allocatable",
                    remedy="kubectl get nodes -o custom-columns='N:.metadata.name,G:.status.conditions"
                    '[?(@.type=="GPUsHealthy")].message\'',
                    resource=resource,
                    capacity=total,
                    allocatable=good,
                ),
                where="the Node's capacity and allocatable"
                if resource in capacity
                else "the agent's metrics",
                why=f"{counted(total - good, _noun(cluster, resource))} of the plugin's list unhealthy; "
                "running pods go on, new ones are not placed",
            )


def _devices(cluster: ClusterFacts | None, resource: str) -> DeviceCount:
    """What is behind the amount of a resource, by the Node's labels."""
    facts = cluster if cluster is not None else ClusterFacts()
    node = Node("", labels=facts.labels, capacity=facts.capacity, allocatable=facts.allocatable)
    return device_count(node, resource)


def _noun(cluster: ClusterFacts | None, resource: str) -> str:
    return "replica" if _devices(cluster, resource).shared else "device"


def _there(cluster: ClusterFacts | None, resource: str, total: int) -> str:
    """All of a resource; of a shared one with the number of devices behind it."""
    count = _devices(cluster, resource)
    if not count.shared:
        return str(total)
    replicas = counted(total, "replica")
    return replicas if count.devices is None else f"{replicas} of {counted(count.devices, count.noun)}"


def _refused(cluster: ClusterFacts | None) -> Iterator[NodeFinding]:
    """KUB-4: pods that kubelet refused because the plugin did."""
    for pod in cluster.pods if cluster is not None else ():
        if pod.reason != _REJECTED or "Allocate failed" not in pod.message:
            continue
        shared = "maximum request size for shared resources" in pod.message
        yield finding(
            PodRefusedByPlugin(
                message=f"pod {pod.namespace}/{pod.name} was refused: {pod.message[:300]}",
                remedy=f"ask for 1 instead; kubectl delete pod -n {pod.namespace} {pod.name}"
                if shared
                else f"kubectl delete pod -n {pod.namespace} {pod.name}, so that its owner creates another",
                pod=f"{pod.namespace}/{pod.name}",
            ),
            where=f"pod {pod.namespace}/{pod.name}, reason {_REJECTED}",
            why="of a shared resource a container may have one (failRequestsGreaterThanOne): two replicas"
            " may be of one GPU"
            if shared
            else "kubelet does not retry: the pod stays Failed",
        )
