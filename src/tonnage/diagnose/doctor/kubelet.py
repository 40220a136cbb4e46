"""Is kubelet there for plugins, and are those there that it has heard of?"""

from __future__ import annotations

from collections.abc import Iterator
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
from tonnage.model.layer import NodeLayer
from tonnage.model.node.facts import KubeletFacts, PluginFacts

_LAYER: Final = NodeLayer.KUBELET
_FOLDER: Final = "/var/lib/kubelet/device-plugins"
_SOCKET: Final = f"{_FOLDER}/kubelet.sock"
_MOUNT: Final = (
    "in its DaemonSet: volumes: [{name: device-plugins, hostPath: {path: /var/lib/kubelet/device-plugins}}]"
    " and volumeMounts: [{name: device-plugins, mountPath: /var/lib/kubelet/device-plugins}]"
)


def judge_kubelet(facts: KubeletFacts, plugin: PluginFacts | None) -> Judgement:
    """Sockets, and the checkpoint of the device manager."""
    findings = [*_registration(facts), *_unmounted(facts, plugin), *_plugins(facts), *_resources(facts)]
    if facts.checkpoint_trouble:
        unreadable = facts.checkpoint_trouble.startswith("permission denied")
        make = note if unreadable else error
        findings.append(
            make(
                DoctorCode.CHECKPOINT_UNREADABLE,
                _LAYER,
                "kubelet's checkpoint of devices cannot be used",
                where=f"{_FOLDER}/kubelet_internal_checkpoint",
                why=facts.checkpoint_trouble,
                remedy="run doctor as root"
                if unreadable
                else "kubectl drain $(hostname) --ignore-daemonsets; systemctl stop kubelet"
                f" && rm {_FOLDER}/kubelet_internal_checkpoint && systemctl start kubelet",
            )
        )
    listening = sum(socket.answer == "listens" for socket in facts.plugins)
    return Judgement(
        _LAYER,
        tuple(findings),
        f"registration open, {counted(listening, 'plugin socket')}" if up(facts) else "not reached",
    )


def up(facts: KubeletFacts | None) -> bool:
    """Whether plugins can register."""
    return facts is not None and facts.socket is not None and facts.socket.answer == "listens"


def _registration(facts: KubeletFacts) -> Iterator[Finding]:
    socket = facts.socket
    if socket is None and facts.contained:
        yield error(
            DoctorCode.KUBELET_SOCKET_UNMOUNTED,
            _LAYER,
            f"this pod does not have the host's {_FOLDER}",
            where=_SOCKET,
            why="a device plugin registers there; without the mount the node never offers a GPU",
            remedy=_MOUNT,
        )
    elif socket is None:
        yield error(
            DoctorCode.KUBELET_SOCKET_MISSING,
            _LAYER,
            "kubelet's registration socket is not there",
            where=_SOCKET,
            why="kubelet does not run, or has another --root-dir"
            + ("" if facts.folder else "; nor is its folder"),
            remedy="systemctl status kubelet; journalctl -u kubelet | tail",
        )
    elif socket.answer in ("nobody", "silent"):
        how = "nobody listens" if socket.answer == "nobody" else "nobody answers"
        yield error(
            DoctorCode.KUBELET_SOCKET_DEAD,
            _LAYER,
            f"{how} on kubelet's registration socket",
            where=_SOCKET,
            why="kubelet has ended and left it" if socket.answer == "nobody" else "kubelet hangs",
            remedy="systemctl restart kubelet",
        )
    elif socket.answer != "listens":
        yield note(
            DoctorCode.KUBELET_SOCKET_DEAD,
            _LAYER,
            "whether kubelet listens cannot be told",
            where=_SOCKET,
            why=socket.answer,
            remedy="run doctor as root",
        )


def _unmounted(facts: KubeletFacts, plugin: PluginFacts | None) -> Iterator[Finding]:
    """KUB-1: kubelet is there, and a plugin cannot see it."""
    if not up(facts):
        return
    for process in plugin.processes if plugin is not None else ():
        if process.sees_kubelet is False:
            yield error(
                DoctorCode.KUBELET_SOCKET_UNMOUNTED,
                _LAYER,
                f"{process.name} cannot reach kubelet: its container lacks the hostPath mount {_FOLDER}",
                where=f"/proc/{process.pid}/mountinfo",
                why=f"it looks for {_SOCKET} in its own file system and registers nothing",
                remedy=_MOUNT,
            )


def _plugins(facts: KubeletFacts) -> Iterator[Finding]:
    dead = [socket.name for socket in facts.plugins if socket.answer == "nobody"]
    if dead:
        yield warning(
            DoctorCode.PLUGIN_SOCKET_DEAD,
            _LAYER,
            f"nobody listens on {counted(len(dead), 'plugin socket')}",
            where=listed(dead),
            why="the plugin has ended without removing it; kubelet counts its devices as unhealthy",
            remedy="restart that plugin: kubectl get pods -A --field-selector spec.nodeName=$(hostname)",
        )


def _resources(facts: KubeletFacts) -> Iterator[Finding]:
    if up(facts) and facts.pod_resources is None and not facts.contained:
        yield warning(
            DoctorCode.POD_RESOURCES_MISSING,
            _LAYER,
            "kubelet's pod resources socket is not there",
            where="/var/lib/kubelet/pod-resources/kubelet.sock",
            why="agents and exporters cannot tell which pod has which device",
            remedy="systemctl restart kubelet; it makes the socket at its start",
        )
