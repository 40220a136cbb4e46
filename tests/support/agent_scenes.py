"""Changes on a pretended node, and agents that go on where others were killed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from support.crash_moments import Moment, Moments
from support.dying_loops import KilledError
from tonnage.adapters.checkpoints import payload_of
from tonnage.agent.main import AgentHost, run_agent
from tonnage.agent.options import AgentOptions
from tonnage.loop.performer import ActionRecord, Performer, Phase
from tonnage.model.actions.action import Action
from tonnage.model.actions.devices import CreateGpuInstance, ResetGpu
from tonnage.model.devices.mps import MpsDaemon
from tonnage.model.errors import HardwareError, Problem
from tonnage.twin.devices.scenario import ScenarioBackend
from tonnage.wire.kinds import CONFIG_MAP, NODE

PATIENCE_S: Final = 30.0
_LOOK_S: Final = 0.005
_MOST_LIVES: Final = 5


@dataclass
class Place:
    """What outlives agents: a folder, a cluster, the hardware, daemons and the host."""

    root: Path
    cluster: Any
    clock: Any
    refuses: Callable[[Any], str] = lambda _: ""
    """Why the driver does not take a step."""
    daemons: dict[str, MpsDaemon] = field(default_factory=dict)
    ready: dict[str, bool] = field(default_factory=dict)
    running: set[str] = field(default_factory=set)
    """Services of the host."""
    ran: list[str] = field(default_factory=list)
    answered: dict[str, str] = field(default_factory=dict)
    """What was answered to kubelet, by device."""
    note: Callable[[str], None] = lambda _: None
    """Told of a moment that no action makes."""
    restarting: bool = False
    """The node restarts, and no agent does anything any more."""

    @property
    def hardware(self) -> Path:
        return self.root / "hardware.yaml"

    def state(self) -> dict[str, Any]:
        """All that is not in files, as it is now. Objects are replaced, and not changed."""
        return {
            "objects": dict(self.cluster.objects),
            "version": self.cluster.version,
            "refuses": self.refuses,
            "daemons": dict(self.daemons),
            "ready": dict(self.ready),
            "running": set(self.running),
            "ran": list(self.ran),
            "answered": dict(self.answered),
        }

    def restore(self, moment: Moment) -> None:
        """Have all be as it was at that moment."""
        moment.restore(self.root)
        state = moment.state
        self.cluster.objects, self.cluster.version = dict(state["objects"]), state["version"]
        self.refuses, self.daemons, self.ready = (
            state["refuses"],
            dict(state["daemons"]),
            dict(state["ready"]),
        )
        self.running, self.ran = set(state["running"]), list(state["ran"])
        self.answered = dict(state["answered"])

    def devices(self, *texts: str) -> None:
        """The node has these devices."""
        self.hardware.write_text(f"devices: [{', '.join(texts)}]\n")

    def config(self, text: str) -> None:
        """The device-plugin configuration."""
        (self.root / "config.yaml").write_text(text)

    def asks(self, layout: str) -> None:
        """The node's label asks for a MIG layout."""
        self.cluster.put(NODE, "n", metadata={"labels": {**self.labels, "nvidia.com/mig.config": layout}})

    def layouts(self, **files: str) -> None:
        """The ConfigMap of layouts."""
        data = {name.replace("_", "."): text for name, text in files.items()}
        self.cluster.put(CONFIG_MAP, "mig", "ns", data=data)

    @property
    def labels(self) -> dict[str, str]:
        node: Any = self.cluster.objects.get((NODE.plural, "", "n"), {})
        labels: dict[str, str] = node.get("metadata", {}).get("labels", {})
        return labels

    def made(self, uuid: str = "GPU-0") -> list[str]:
        """Profiles of the instances that were made; none while nothing was changed."""
        file = self.hardware.with_name("hardware.yaml.mig")
        rows: Any = json.loads(file.read_text()) if file.exists() else {}
        return sorted(row[1] for row in rows.get(uuid, {}).get("instances", ()))

    def condition(self, kind: str) -> str:
        """Its status on the Node."""
        status: str = (self.cluster.conditions("n").get(kind) or {}).get("status", "")
        return status

    def checkpoint(self, name: str) -> bytes:
        file = self.root / "var/lib/tonnage" / name
        return (payload_of(file.read_bytes()) or b"damaged") if file.exists() else b""

    # ---- the host's programs ----

    async def ask(self, asked: str | MpsDaemon, arguments: Sequence[str] = (), **_: Any) -> str:
        """What systemctl says of a service; a daemon that is asked serves."""
        if isinstance(asked, MpsDaemon):
            return ""
        return "active\n" if arguments[-1] in self.running else "inactive\n"

    async def run(self, command: str, arguments: Sequence[str] = (), **_: Any) -> str:
        self.ran.append(" ".join((command, *arguments)))
        if self.ran[-1].startswith("systemctl stop"):
            self.running.discard(arguments[-1])
        elif self.ran[-1].startswith("systemctl start"):
            self.running.add(arguments[-1])
        elif self.ran[-1] == "systemctl reboot":
            self.refuses = lambda _: ""
            self.boot("second")
            self.restarting = True
            raise KilledError
        return ""

    def boot(self, name: str) -> None:
        file = self.root / "proc/sys/kernel/random/boot_id"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)

    # ---- MPS ----

    async def start(self, daemon: MpsDaemon) -> None:
        self.daemons[daemon.resource] = daemon

    async def stop(self, daemon: MpsDaemon, *, over: bool = False) -> None:
        self.daemons.pop(daemon.resource, None)

    async def show_ready(self, root: str, *, ready: bool) -> None:
        self.ready[root] = ready

    def ended(self, daemon: MpsDaemon) -> str:
        return "" if daemon.resource in self.daemons else "it is not there"

    def watch(self, _wake: Callable[[], None]) -> None: ...

    async def close(self) -> None: ...


class Driver(ScenarioBackend):
    """Refuses what its place says."""

    def __init__(self, place: Place) -> None:
        super().__init__(place.hardware, place.clock)
        self._place = place

    async def apply(self, step: Any) -> None:
        if why := self._place.refuses(step):
            raise HardwareError(Problem("it is refused", why=why))
        await super().apply(step)


def refuses_2g(step: Any) -> str:
    return "no resources" if isinstance(step, CreateGpuInstance) and step.profile == "2g.20gb" else ""


def refuses_resets(step: Any) -> str:
    return "busy" if isinstance(step, ResetGpu) else ""


class NoKubelet:
    """A plugin folder to which no kubelet comes."""

    def kubelet(self) -> str:
        return ""

    def present(self, _resource: str) -> bool:
        return True

    def watch(self, _on_change: Callable[[], None]) -> bool:
        return True

    def streams(self) -> dict[str, int]:
        return {}

    async def serve(self, *_: object) -> None: ...

    async def publish(self, _: object) -> None: ...

    async def withdraw(self, _: object) -> None: ...

    async def close(self) -> None: ...


Deed = Callable[[Place], None]
Life = Callable[[Place], Awaitable[None]]
Recorder = Callable[[ActionRecord], None]


@dataclass(frozen=True, slots=True)
class Scene:
    """A change, the kinds of action that it is about, and what is `wrong` until it has come to its end.

    `steps` follow each other once nothing is wrong by the one before. `life` is an agent's; without one it is
    a whole agent with `options`. `variant`: another scene is of this kind of change, and costs less to go
    through from every moment.
    """

    name: str
    kinds: tuple[type[Action], ...]
    prepare: Deed
    wrong: Callable[[Place], object]
    """Anything that is false: all is well."""
    steps: tuple[tuple[Callable[[Place], object], Deed], ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    life: Life | None = None
    variant: bool = False


async def agent_of(place: Place, **more: Any) -> None:
    """Run a whole agent there until cancelled."""
    options = AgentOptions(
        "n", f"scenario:{place.hardware}", place.root, config=place.root / "config.yaml", **more
    )
    host: Any = place
    with (
        patch("tonnage.agent.main.backend_of", lambda *_: Driver(place)),
        patch("tonnage.adapters.mps.daemon.ControlDaemons", lambda _: place),
        patch("tonnage.adapters.kubelet.plugin_folder.PluginFolder", lambda *_: NoKubelet()),
    ):
        await run_agent(options, api=place.cluster, clock=place.clock, host=AgentHost(programs=host))


async def moments_of(scene: Scene, place: Place) -> tuple[list[Moment], set[tuple[type[Action], bool]]]:
    """The moments of agents that are not killed; which kinds of action began, and which ended (True)."""
    scene.prepare(place)
    steps, kinds = [*scene.steps], set[tuple[type[Action], bool]]()
    moments = Moments(place.root, place.state, lambda: len(steps))

    def record(record: ActionRecord) -> None:
        kind, over = type(record.action), record.phase is not Phase.BEGUN
        kinds.add((kind, over))
        moments.note(f"{'after' if over else 'before'} {kind.__name__}")

    place.note = moments.note
    with moments.of_files():
        wrong = await _lives(scene, place, steps, record)
    assert not wrong, wrong
    return moments.every, kinds


async def resumed(scene: Scene, place: Place, moment: Moment) -> str:
    """What is wrong for ever after an agent that starts where another was killed."""
    place.restore(moment)
    return await _lives(scene, place, [*scene.steps[len(scene.steps) - moment.steps :]], lambda _: None)


async def _lives(
    scene: Scene, place: Place, steps: list[tuple[Callable[[Place], object], Deed]], record: Recorder
) -> str:
    """Agents one after another, as the node restarts; what still is wrong when patience ends."""

    def unless_restarting(action: ActionRecord) -> None:
        record(action)
        if place.restarting:
            raise KilledError

    with patch.dict(Performer.__init__.__kwdefaults__, record=unless_restarting):
        for _ in range(_MOST_LIVES):
            place.restarting = False
            wrong = await _live(scene, place, steps)
            if not place.restarting:
                break
    return wrong


async def _live(scene: Scene, place: Place, steps: list[tuple[Callable[[Place], object], Deed]]) -> str:
    """One agent, until nothing is wrong or the node restarts."""
    life = scene.life(place) if scene.life is not None else agent_of(place, **scene.options)
    task = asyncio.ensure_future(life)
    end = asyncio.get_running_loop().time() + PATIENCE_S
    wrong: object = "it has not begun"
    try:
        while wrong and not task.done() and asyncio.get_running_loop().time() < end:
            await asyncio.sleep(_LOOK_S)
            wrong = steps[0][0](place) if steps else scene.wrong(place)
            if not wrong and steps:
                steps.pop(0)[1](place)
                wrong = "the next step has just been taken"
    finally:
        task.cancel()
        (ended,) = await asyncio.gather(task, return_exceptions=True)
    if isinstance(ended, Exception):
        raise ended
    return "" if place.restarting else str(wrong or "")
