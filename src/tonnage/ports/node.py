"""What the agent asks of its node: devices, kubelet, files, MPS daemons, runtime, machine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from tonnage.model.actions.devices import DeviceAction
from tonnage.model.devices.cdi import DriverFiles
from tonnage.model.devices.inventory import GpuProcess, Inventory, RawEvent, Sample
from tonnage.model.devices.mps import MpsDaemon
from tonnage.model.devices.sharing import Advertisement, Hold, Injection, PluginConfig
from tonnage.model.drivers.node import HostSystem
from tonnage.model.errors import Problem
from tonnage.model.mig.layouts import DividedGpu
from tonnage.model.names import ResourceName
from tonnage.model.node.machine import Machine
from tonnage.model.node.processes import ProcessTable
from tonnage.model.node.runtime_config import NodeRuntime
from tonnage.model.node.software import KubeletPolicies
from tonnage.model.reasons.reason import Reason


class DeviceReader(Protocol):
    """A vendor: it states facts about its devices. Policy is decided elsewhere.

    No method blocks the event loop or waits for ever on a driver that hangs.
    """

    async def scan(self) -> Inventory:
        """Every device now. One device that fails is listed unhealthy (if it was ever seen) or as a problem.

        Raises HardwareError when no device can be read, ConfigError when what describes them is wrong.
        """
        ...

    def events(self) -> AsyncIterator[RawEvent]:
        """What happens since the last scan; never ends by itself, never raises for a driver."""
        ...

    async def sample(self, fields: Collection[str]) -> tuple[Sample, ...]:
        """Those fields of `model.catalog.metrics` of each device that answers, MIG devices after their GPU.

        MIG devices only if a field is theirs. Raises HardwareError as `scan` does, Bug: an unknown field.
        """
        ...

    async def processes(self) -> tuple[GpuProcess, ...]:
        """Who computes on each device that answers. What they use is since the last question.

        Raises HardwareError as `scan` does.
        """
        ...

    async def divided(self) -> tuple[DividedGpu, ...]:
        """Every GPU that MIG can divide and that answers, as it is now. Raises HardwareError: none does."""
        ...

    def stuck_s(self) -> float:
        """Seconds since the driver was asked something that it should have answered by now; else 0."""
        ...

    async def close(self) -> None:
        """Let go of the driver."""
        ...


class DeviceBackend(DeviceReader, Protocol):
    """The same, with what changes devices."""

    async def apply(self, step: DeviceAction) -> None:
        """Make it so; a mode that is so already stays. Raises HardwareError: why it is not."""
        ...


class PluginService(Protocol):
    """What answers kubelet's questions about one resource."""

    async def allocate(self, requests: Sequence[Sequence[str]]) -> tuple[Injection, ...] | Reason:
        """What each container gets for the ids that kubelet chose; or a refusal of all of them."""

    async def prefer(self, available: Sequence[str], required: Sequence[str], size: int) -> tuple[str, ...]:
        """The best `size` of `available`, `required` among them."""
        ...


class PluginSockets(Protocol):
    """kubelet's plugin folder: sockets of our own, and kubelet's for registration."""

    def kubelet(self) -> str:
        """Identifies the registration socket that is there: another text after a restart, empty if none."""
        ...

    def present(self, resource: ResourceName) -> bool:
        """Whether the resource's socket still lies in the folder and is our own."""
        ...

    def watch(self, on_change: Callable[[], None]) -> bool:
        """Have `on_change` called when sockets came or went; call it again. False: nobody tells of it."""
        ...

    async def serve(self, advertisement: Advertisement, service: PluginService) -> None:
        """Open the resource's socket in place of an earlier one. Raises HardwareError: disk, permission."""
        ...

    async def publish(self, advertisement: Advertisement) -> None:
        """Show the list on every open stream of that resource."""
        ...

    async def register(self, resource: ResourceName) -> None:
        """Introduce the resource to kubelet. Raises ClusterError when it is absent or refuses."""
        ...

    async def withdraw(self, resource: ResourceName) -> None:
        """Show an empty list, then close and remove the socket."""
        ...

    async def close(self) -> None:
        """Close and remove every socket; devices stay advertised until kubelet notices."""
        ...


@dataclass(frozen=True, slots=True)
class Shown:
    """kubelet's list of pod resources: the devices of pods that are not over, and all those pods.

    Devices of ordinary init containers are not in it. `pods` are (namespace, name), without devices too.
    `claims` are what containers have by claims; their ids are names as claims know them.
    """

    holds: tuple[Hold, ...] = ()
    pods: frozenset[tuple[str, str]] = frozenset()
    claims: tuple[Hold, ...] = ()


class KubeletHolds(Protocol):
    """What kubelet says about who has which device."""

    async def shown(self) -> Shown:
        """The list as it is now. Raises ClusterError when kubelet does not answer."""
        ...

    def identity(self) -> str:
        """Identifies the kubelet process that would answer; empty when there is none."""
        ...

    async def checkpoint(self) -> tuple[Hold, ...]:
        """Devices by container out of kubelet's own checkpoint; empty if there is none.

        `pod` is a uid; pods that ended are included until kubelet gives out the next device. Raises
        HardwareError when it cannot be read or makes no sense.
        """
        ...

    async def close(self) -> None:
        """Let go of the connection."""
        ...


class KubeletDevices(Protocol):
    """What kubelet says about who has which device, and which there are."""

    async def shown(self) -> Shown:
        """The list as it is now. Raises ClusterError when kubelet does not answer."""
        ...

    async def replicas(self) -> Mapping[tuple[str, str], int]:
        """How many ids it has of each device, by resource and the UUID in them. Raises as `shown` does."""
        ...

    async def close(self) -> None:
        """Let go of the connection."""
        ...


class CheckpointReader(Protocol):
    """Small files that survive a crash."""

    async def load(self, name: str) -> bytes | None:
        """The payload saved last under that name, None if there is none.

        Raises HardwareError when it is damaged or cannot be read; a damaged file is set aside.
        """
        ...

    async def load_added(self, name: str) -> tuple[bytes, ...]:
        """The rows that were added to what `load` gives, in order, without one that was torn."""
        ...


class Checkpoints(CheckpointReader, Protocol):
    """The same, with what changes them."""

    async def save(self, name: str, payload: bytes, *, lasting: bool = True) -> None:
        """Replace the payload, `lasting` beyond a loss of power. Raises HardwareError: it is not written."""
        ...

    async def add(self, name: str, row: bytes) -> bool:
        """Add a line to what was saved, at a cost that does not depend on it; False: save all instead."""
        ...


ABSENT: Final = "absent"
"""The stamp of a file that is not there."""


class AgentConfigFile(Protocol):
    """The device-plugin configuration's file. It may be absent, and come and go."""

    def stamp(self) -> str:
        """Identifies the file: another text once it was written, replaced, or came; ABSENT: there is none."""
        ...

    async def read(self) -> str | Problem:
        """Its text, or why that cannot be read."""
        ...

    def __str__(self) -> str:
        """Where it is."""
        ...


class MpsView(Protocol):
    """Control daemons of MPS on this node, one for each resource at most.

    Nothing waits for ever for a daemon that hangs, and none delays another's. They end with this process.
    """

    async def ask(self, daemon: MpsDaemon) -> None:
        """Return if it answers. Raises HardwareError."""
        ...

    def ended(self, daemon: MpsDaemon) -> str:
        """Why it does not run (any more), with its last words; empty while it does."""
        ...

    def watch(self, wake: Callable[[], None]) -> None:
        """Call this as soon as a daemon has ended by itself, where the system tells."""
        ...


class MpsDaemons(MpsView, Protocol):
    """The same, with what starts and ends them."""

    async def start(self, daemon: MpsDaemon) -> None:
        """It answers and its limits hold; what an earlier one left is gone, whoever started that.

        Raises HardwareError: why it does not serve; then none runs.
        """
        ...

    async def stop(self, daemon: MpsDaemon, *, over: bool = False) -> None:
        """Ask it to quit, and end what is left of it; its folder stays unless it is `over`.

        Raises HardwareError: something is left.
        """
        ...

    async def show_ready(self, root: str, *, ready: bool) -> None:
        """Mark in the folder of MPS whether every daemon there serves."""
        ...

    async def close(self) -> None:
        """End what runs, at once."""
        ...


class CdiView(Protocol):
    """The driver's files, and the CDI specs that runtimes read."""

    async def stamp(self) -> str:
        """Identifies what specs are made of and the specs themselves: another text after most changes."""
        ...

    async def driver_files(self, version: str, config: PluginConfig) -> DriverFiles:
        """What there is of the driver now; whatever cannot be read is not there."""
        ...

    async def read(self, name: str) -> bytes | None:
        """A file of the folder, None if there is none. Raises HardwareError when it cannot be read."""
        ...


class CdiFiles(CdiView, Protocol):
    """The same, with what changes specs."""

    async def write(self, name: str, content: bytes) -> None:
        """Replace a file of the folder whole. Raises HardwareError: disk full, permission, not mounted."""
        ...

    async def remove(self, name: str) -> None:
        """The file is no more, if it was. Raises HardwareError."""
        ...


class RuntimeView(Protocol):
    """What the agent sees of the node's container runtime."""

    async def look(self) -> NodeRuntime:
        """Its configuration now, and whether CDI specs can be written; without versions. Never raises."""
        ...


class SoftwareView(RuntimeView, Protocol):
    """What it sees of kubelet, too."""

    async def policies(self) -> KubeletPolicies:
        """kubelet's policies as its files say them. Never raises."""
        ...

    async def host(self) -> HostSystem:
        """What a driver needs of the host, as far as it can be seen. Never raises."""
        ...


Labels = Mapping[str, str]


class ProcessView(Protocol):
    """The kernel's processes."""

    def uptime_s(self) -> float:
        """Seconds since boot; 0 where that is not told."""
        ...

    async def read(self, pids: Collection[int], now_s: float) -> ProcessTable:
        """Those of these numbers that are there; now is `now_s` after 1970."""
        ...


class MachineFacts(Protocol):
    """What the node's kernel and firmware say of the machine."""

    async def read(self, machine_type_file: str) -> Machine:
        """The machine now, its product out of that file. What cannot be read is left empty."""
        ...


class StatusFiles(Protocol):
    """Files by which other programs of the node see how its parts stand."""

    async def show(self, files: Mapping[str, str], absent: Collection[str]) -> None:
        """Have these texts in these files of the host, each replaced at once, and none of `absent`.

        Raises HardwareError: the file system refuses.
        """
        ...


class LabelLines(Protocol):
    """Labels as lines, for node feature discovery."""

    async def write(self, file: str, labels: Labels) -> None:
        """Have these in the file, and no file without any; an empty name: on standard output.

        What is so already is not written again. Raises HardwareError.
        """
        ...


class HostView(Protocol):
    """What programs of the node's host say. They have its root folder, and nothing of our environment."""

    async def ask(self, command: str, arguments: Sequence[str] = (), *, timeout_s: float = 60.0) -> str:
        """The last of what a program says that changes nothing, once it has ended well.

        Raises HardwareError: it cannot be run, failed, or did not end in time and was killed.
        """
        ...


class HostPrograms(HostView, Protocol):
    """Programs of the node's host."""

    async def run(
        self,
        command: str,
        arguments: Sequence[str] = (),
        *,
        variables: Mapping[str, str] | None = None,
        folder: str = "/",
        timeout_s: float = 60.0,
    ) -> str:
        """As `ask` does, of a program that changes something."""
        ...
