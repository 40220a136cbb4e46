"""Is the plugin that runs registered with the kubelet that runs?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.diagnose.doctor.finding import AGENT_PODS, NodeFinding, finding, listed
from tonnage.diagnose.doctor.kubernetes.agent_metrics import Samples
from tonnage.diagnose.doctor.kubernetes.kubelet import up
from tonnage.model.node.facts import KubeletFacts, PluginFacts
from tonnage.model.reasons.messages.node_symptoms import DeviceUnregistered

_FOLDER: Final = "/var/lib/kubelet/device-plugins"
_NVIDIA: Final = "nvidia.com/"
_MOMENT_S: Final = 10.0
"""How long a plugin may take to notice a kubelet that has just started."""
_NEVER: Final = float("inf")
"""No time of a registration is told: nothing is said of it."""


def registration_findings(
    kubelet: KubeletFacts | None, plugin: PluginFacts, samples: Samples, *, sound: bool
) -> Iterator[NodeFinding]:
    """KUB-5: a kubelet that starts forgets plugins and removes their sockets."""
    if kubelet is None or not up(kubelet) or kubelet.socket is None:
        return
    # Before anything is compared: after a restart plugins need a moment, and one that sees no kubelet has its
    # finding already.
    if kubelet.now - kubelet.socket.made < _MOMENT_S or any(
        entry.sees_kubelet is False for entry in plugin.processes
    ):
        return
    sockets = {socket.name.rpartition("/")[2] for socket in kubelet.plugins}
    offered_names = [
        name for name, number in (kubelet.registered or {}).items() if number and name.startswith(_NVIDIA)
    ]
    lost = sorted(
        name for name in offered_names if f"nvidia-{name.removeprefix(_NVIDIA)}.sock" not in sockets
    )
    offered = {
        dict(labels).get("resource", "") for name, labels in samples if name == "tonnage_agent_devices"
    }
    registrations = {
        dict(labels).get("resource", ""): at
        for (name, labels), at in samples.items()
        if name == "tonnage_agent_last_registration_timestamp_seconds"
    }
    late = sorted(entry for entry in offered if registrations.get(entry, _NEVER) < kubelet.socket.made - 1)
    # A socket that is gone is proof, and the times are only the plugin's word.
    names = lost or late
    if not names and (sockets or not sound):
        return
    yield finding(
        DeviceUnregistered(
            subject="",
            message=f"not registered with the kubelet that runs: {listed(names)}"
            if names
            else "the plugin runs but has registered nothing",
            remedy=f"kubectl delete pod {_pods_of(plugin)} --field-selector spec.nodeName=$(hostname)"
            " (pods that run keep their GPUs)",
            resources=tuple(names),
        ),
        where=_FOLDER,
        why="kubelet restarted, which removes the sockets of plugins, and no plugin has registered since"
        if names
        else "its socket is not in kubelet's folder",
    )


def _pods_of(plugin: PluginFacts) -> str:
    """Options of kubectl that name the plugin's pods."""
    if any(process.name == "nvidia-device-plugin" for process in plugin.processes):
        return "-n gpu-operator -l app=nvidia-device-plugin-daemonset"
    return AGENT_PODS
