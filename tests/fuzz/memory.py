"""What the agent kept on disk and finds there again, changed by whoever: used, or refused as a ValueError."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

from support.agent_context import context_of
from support.kubelet_side import FastClock
from tonnage.adapters.checkpoints import FolderCheckpoints
from tonnage.adapters.process_table import ProcFiles
from tonnage.agent.board import NodeBoard
from tonnage.agent.config.checkpoint import recalled as recalled_config
from tonnage.agent.config.reading import Reading
from tonnage.agent.config.selection import NodeConfig
from tonnage.agent.devices import DeviceMemory
from tonnage.agent.dump import board_of, dump_in
from tonnage.agent.exporter.pod_usage import UsageMeter
from tonnage.agent.holds.claim_file import claims_bytes, claims_in
from tonnage.agent.holds.ledger_file import ledger_bytes, ledger_of
from tonnage.agent.mig.host import MigHost
from tonnage.agent.mig.journal import MigJournal
from tonnage.agent.mps import NodeMps
from tonnage.agent.plugin.device_list import DeviceLists
from tonnage.agent.status.node_condition import NodeConditions
from tonnage.cli.node.dump import answered_dump
from tonnage.decide.kubernetes.kubelet.cpus import Cpus
from tonnage.decide.node.choose_config import Wishes
from tonnage.decide.node.exporter.process_owners import PodProcesses, pods_by_uid
from tonnage.decide.node.exporter.usage_counters import counters_from_json, counters_json
from tonnage.decide.node.health.checkpoint import health_from_json, health_json
from tonnage.decide.node.ledger import Evidence, holds_of, unconfirmed
from tonnage.model.errors import ConfigError, HardwareError
from tonnage.model.json import parsed_json
from tonnage.model.node.runtime_config import NodeRuntime
from tonnage.model.node.telemetry import PodIdentity
from tonnage.twin.devices.scenario import ScenarioBackend
from tonnage.twin.kubelet.devices.checkpoint import decode_checkpoint, encode_checkpoint
from tonnage.twin.kubelet.devices.cpu_manager import CpuManager
from tonnage.twin.kubelet.node_disk import LocalDisk

Target = Callable[[bytes], None]


def kept_config(data: bytes) -> None:
    with suppress(ValueError):
        recalled_config(parsed_json(data), "mark")


def kept_health(data: bytes) -> None:
    with suppress(ValueError):
        state = health_from_json(parsed_json(data), epoch=1e9, now=1e3)
        again = health_from_json(json.loads(json.dumps(health_json(state, epoch=1e9))), epoch=1e9, now=1e3)
        assert len(again.faults) == len(state.faults)


def kept_usage(data: bytes) -> None:
    with suppress(ValueError):
        counters = counters_from_json(parsed_json(data))
        assert counters_from_json(json.loads(json.dumps(counters_json(counters)))) == counters


@contextmanager
def process_table() -> Iterator[Target]:
    """A process as the kernel shows it, and whose it is then."""
    with tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as name, asyncio.Runner() as runner:
        folder = Path(name) / "proc/7"
        folder.mkdir(parents=True)
        files = ProcFiles(Path(name))
        uid = "fc58e18c-f5ac-414e-9e17-9ef851b4b07b"
        pods = pods_by_uid({"ml/train": PodIdentity(uid)})

        def target(data: bytes) -> None:
            for file in ("stat", "cgroup", "status", "../uptime"):
                (folder / file).write_bytes(data)
            table = runner.run(files.read([7], 1.0))
            PodProcesses(table, table.uptime_s, pods).owner(7)

        yield target


def kept_ledger(data: bytes) -> None:
    with suppress(ValueError):
        ledger = ledger_of(data, "boot", 1.0)
        assert ledger_of(ledger_bytes(ledger, "boot"), "boot", 1.0) == ledger
        assert {slot for hold in holds_of(Evidence(), ledger) for slot in hold.ids} == {
            row.id for row in ledger
        }
        unconfirmed(ledger, "kubelet")
        assert {entry.id for entry in ledger_of(b"[]", "boot", 1.0, (data,))} == {row.id for row in ledger}


def kept_claims(data: bytes) -> None:
    with suppress(ValueError):
        claims = claims_in(data)
        assert claims_in(claims_bytes(claims)) == claims


class Found:
    """Checkpoints of which each holds the same."""

    def __init__(self) -> None:
        self.payload = b""

    async def load(self, _name: str) -> bytes | None:
        return self.payload

    async def load_added(self, _name: str) -> tuple[bytes, ...]:
        return (self.payload,)

    async def save(self, _name: str, _payload: bytes, *, lasting: bool = True) -> None: ...

    async def add(self, _name: str, _row: bytes) -> bool:
        return False


def agent_dump(data: bytes) -> None:
    """What answers at an agent's socket: a dump, which makes a board, or none."""
    with suppress(HardwareError):
        answered_dump(data, "agent.sock")
    with suppress(ValueError):
        board_of(dump_in(data), FastClock())


@contextmanager
def agent_memory() -> Iterator[Target]:
    """What every loop of the agent finds in its checkpoint when it begins."""
    clock, found = FastClock(), Found()
    context = context_of("n", None, clock, found)
    board, reading = NodeBoard.blank(clock), Reading(Wishes("d/c"))
    nothing = cast("Any", None)

    async def restored() -> None:
        with suppress(ValueError):  # what it says it raises
            await MigJournal(context).restore()
        await MigHost(context, board, nothing)._recall()
        await NodeMps(context, board, nothing)._restore()
        await NodeConditions(context, board)._restore()
        await DeviceMemory(context).restored()
        await UsageMeter(context, board, nothing, replicas=dict).restore()
        await DeviceLists(context, nothing)._recalled()
        lists = DeviceLists(context, cast("Any", NoFiles()))
        with suppress(ConfigError):
            await NodeConfig(context, board, reading, lists)._recall()

    with asyncio.Runner() as runner:

        def target(data: bytes) -> None:
            found.payload = data
            runner.run(restored())

        yield target


class NoFiles:
    """A node on which nothing tells of a runtime."""

    async def look(self) -> NodeRuntime:
        return NodeRuntime()


@contextmanager
def checkpoint_files() -> Iterator[Target]:
    """A checkpoint's file: its payload, or set aside."""
    with tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as folder, asyncio.Runner() as runner:
        file = Path(folder) / "c"

        def target(data: bytes) -> None:
            file.write_bytes(data)
            with suppress(HardwareError):
                runner.run(FolderCheckpoints(file.parent).load("c"))

        yield target


@contextmanager
def pretended_devices() -> Iterator[Target]:
    """What pretended devices remember of their modes, layouts and workloads."""
    with tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as folder, asyncio.Runner() as runner:
        file = Path(folder) / "hardware.yaml"
        file.write_text("devices:\n- {uuid: GPU-0, model: A100-40, mig: []}\n")
        backend = ScenarioBackend(file, FastClock())
        kept = (backend._modes, backend._layouts._file, backend._loads._file._file)

        def target(data: bytes) -> None:
            for each in kept:
                each.write_bytes(data)
            backend.settings()
            runner.run(backend.scan())
            runner.run(backend.divided())
            runner.run(backend.sample(("energy_mj", "power_w", "memory_used_mib")))

        yield target


@contextmanager
def kubelet_memory() -> Iterator[Target]:
    """What the twin's kubelet finds again: its checkpoint of devices, and that of its CPU manager."""
    with tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as folder, asyncio.Runner() as runner:
        state = Path(folder) / "cpu_manager_state"
        cpus = Cpus(dict.fromkeys(range(8), 0), frozenset(range(8)), dict.fromkeys(range(8), 0))

        def target(data: bytes) -> None:
            with suppress(ValueError):
                again = encode_checkpoint(decode_checkpoint(data))
                assert decode_checkpoint(again) == decode_checkpoint(data)
            state.write_bytes(data)
            runner.run(CpuManager(cpus, state, LocalDisk()).start())

        yield target
