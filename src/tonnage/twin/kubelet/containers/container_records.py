"""What a pod's containers have come to: the books that the kubelet keeps of one pod."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from tonnage.twin.kubelet.containers.runtime_port import RunningContainer
from tonnage.wire.objects import Container

CONTAINER_CREATING = ("ContainerCreating", "")
POD_INITIALIZING = ("PodInitializing", "")
Part: TypeAlias = Literal["initContainers", "containers", "ephemeralContainers"]


@dataclass(slots=True)
class ContainerSlot:
    """A container of a pod: what runs or ran in it last, or why nothing does (`waiting`: reason, message).

    `part` is the list of the pod's spec that has it; `probed` has the verdicts of its probes on what runs
    now; `past` is how it ended before the node itself restarted, and `over` that it is not wanted since;
    `again` says of what was killed whether to start it again, whatever its exit code.
    """

    container: Container
    part: Part = "containers"
    current: RunningContainer | None = None
    last: RunningContainer | None = None
    waiting: tuple[str, str] = CONTAINER_CREATING
    restarts: int = 0
    probed: dict[str, bool] = field(default_factory=dict)
    past: dict[str, Any] = field(default_factory=dict)
    over: bool = False
    again: bool | None = None

    @property
    def sidecar(self) -> bool:
        """Whether this is an init container that stays up beside the others."""
        return self.part == "initContainers" and self.container.restart_policy == "Always"

    @property
    def path(self) -> str:
        """Where the container stands in its pod, as an Event names it."""
        return f"spec.{self.part}{{{self.container.name}}}"

    @property
    def running(self) -> bool:
        return self.current is not None and self.current.running

    @property
    def started(self) -> bool:
        """Whether it runs and its startup probe, if it has one, has succeeded."""
        return self.running and (self.container.startup_probe is None or self.probed.get("Startup", False))

    @property
    def ready(self) -> bool:
        """Whether it is ready; an init container that does not stay up is so once it has done its part."""
        if self.part == "initContainers" and not self.sidecar:
            return self.exit_code == 0
        return self.started and (
            self.container.readiness_probe is None or self.probed.get("Readiness", False)
        )

    @property
    def exit_code(self) -> int | None:
        """The exit code of what ended and is not waiting to be started again."""
        return self.current.exit_code if self.current is not None else None

    @property
    def untouched(self) -> bool:
        """Whether nothing has ever run in it."""
        return self.current is None and self.last is None and not self.past


@dataclass(slots=True)
class PodProgress:
    """All that a status says. `initialized`: every init container did its part; `sandbox`: it has an IP.

    `failure` is the reason and message of a pod that the kubelet itself ended.
    """

    init: list[ContainerSlot]
    main: list[ContainerSlot]
    start_time: str
    host_ip: str
    pod_ip: str = ""
    sandbox: bool = False
    initialized: bool = False
    ended: bool = False
    ephemeral: list[ContainerSlot] = field(default_factory=list)
    failure: tuple[str, str] = ("", "")
    conditions: dict[str, dict[str, Any]] = field(default_factory=dict)

    def slots(self) -> Iterator[ContainerSlot]:
        """All containers."""
        yield from self.init
        yield from self.main
        yield from self.ephemeral
