"""Is kubelet there for plugins, and are those there that it has heard of?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.diagnose.doctor.finding import Judgement, NodeFinding, counted, finding, listed
from tonnage.model.layer import NodeLayer
from tonnage.model.node.facts import KubeletFacts, PluginFacts
from tonnage.model.reasons.node.kubelet_files import (
    KubeletCheckpointUnreadable,
    KubeletSocketDead,
    KubeletSocketMissing,
    KubeletSocketNotMounted,
    PluginSocketDead,
    PodResourcesMissing,
)
from tonnage.model.severity import Severity

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
        findings.append(
            finding(
                KubeletCheckpointUnreadable(
                    message="kubelet's checkpoint of devices cannot be used",
                    remedy="run doctor as root"
                    if unreadable
                    else "kubectl drain $(hostname) --ignore-daemonsets; systemctl stop kubelet"
                    f" && rm {_FOLDER}/kubelet_internal_checkpoint && systemctl start kubelet",
                    problem=facts.checkpoint_trouble,
                ),
                where=f"{_FOLDER}/kubelet_internal_checkpoint",
                why=facts.checkpoint_trouble,
                severity=Severity.NOTE if unreadable else Severity.ERROR,
            )
        )
    listening = counted(sum(socket.answer == "listens" for socket in facts.plugins), "plugin socket")
    drivers = sum(socket.answer == "listens" for socket in facts.drivers or ())
    of_drivers = f", {counted(drivers, 'driver socket')}" if drivers else ""
    summary = f"registration open, {listening}{of_drivers}" if up(facts) else "not reached"
    return Judgement(_LAYER, tuple(findings), summary)


def up(facts: KubeletFacts | None) -> bool:
    """Whether plugins can register."""
    return facts is not None and facts.socket is not None and facts.socket.answer == "listens"


def _registration(facts: KubeletFacts) -> Iterator[NodeFinding]:
    socket = facts.socket
    if socket is None and facts.contained:
        yield finding(
            KubeletSocketNotMounted(
                message=f"this pod does not have the host's {_FOLDER}",
                remedy=_MOUNT,
            ),
            where=_SOCKET,
            why="a device plugin registers there; without the mount the node never offers a GPU",
        )
    elif socket is None:
        yield finding(
            KubeletSocketMissing(
                message="kubelet's registration socket is missing",
                remedy="systemctl status kubelet; journalctl -u kubelet | tail",
            ),
            where=_SOCKET,
            why="kubelet does not run, or has another --root-dir"
            + ("" if facts.folder else "; its folder is missing, too"),
        )
    elif socket.answer in ("nobody", "silent"):
        how = "no program listens" if socket.answer == "nobody" else "no program answers"
        yield finding(
            KubeletSocketDead(
                message=f"{how} on kubelet's registration socket",
                remedy="systemctl restart kubelet",
                answer=socket.answer,
            ),
            where=_SOCKET,
            why="kubelet has ended and left the socket behind"
            if socket.answer == "nobody"
            else "kubelet hangs",
        )
    elif socket.answer != "listens":
        yield finding(
            KubeletSocketDead(
                message="doctor cannot tell whether kubelet listens",
                remedy="run doctor as root",
                answer=socket.answer,
            ),
            where=_SOCKET,
            why=socket.answer,
            severity=Severity.NOTE,
        )


def _unmounted(facts: KubeletFacts, plugin: PluginFacts | None) -> Iterator[NodeFinding]:
    """KUB-1: kubelet is there, and a plugin cannot see it."""
    if not up(facts):
        return
    for process in plugin.processes if plugin is not None else ():
        if process.sees_kubelet is False:
            yield finding(
                KubeletSocketNotMounted(
                    message=f"{process.name} cannot reach kubelet: its container lacks the hostPath mount"
                    f" {_FOLDER}",
                    remedy=_MOUNT,
                    process=process.name,
                    pid=process.pid,
                ),
                where=f"/proc/{process.pid}/mountinfo",
                why=f"it looks for {_SOCKET} in its own file system and registers nothing",
            )


def _plugins(facts: KubeletFacts) -> Iterator[NodeFinding]:
    dead = [socket.name for socket in facts.plugins if socket.answer == "nobody"]
    if dead:
        yield finding(
            PluginSocketDead(
                message=f"no program listens on {counted(len(dead), 'plugin socket')}",
                remedy="restart that plugin: kubectl get pods -A --field-selector spec.nodeName=$(hostname)",
                sockets=tuple(dead),
            ),
            where=listed(dead),
            why="the plugin has ended without removing it; kubelet counts its devices as unhealthy",
        )
    dead = [socket.name for socket in facts.drivers or () if socket.answer == "nobody"]
    if dead:
        yield finding(
            PluginSocketDead(
                message=f"no program listens on {counted(len(dead), 'driver socket')}",
                remedy=f"rm {dead[0]}, and restart that driver's pod if it has no other socket",
                sockets=tuple(dead),
            ),
            where=listed(dead),
            why="the driver has ended without removing it; kubelet tries it again and again",
        )


def _resources(facts: KubeletFacts) -> Iterator[NodeFinding]:
    if up(facts) and facts.pod_resources is None and not facts.contained:
        yield finding(
            PodResourcesMissing(
                message="kubelet's pod resources socket is missing",
                remedy="systemctl restart kubelet  (creates the socket)",
            ),
            where="/var/lib/kubelet/pod-resources/kubelet.sock",
            why="agents and exporters cannot tell which pod has which device",
        )
