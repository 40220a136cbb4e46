"""Workloads of pretended containers: what their pods' annotation says happens to the node's devices."""

from __future__ import annotations

import asyncio
import logging
import zlib
from typing import Final

from tonnage.documents.pretended_load import parse_load
from tonnage.model.devices.pretended_load import LOAD_ANNOTATION, LoadKind, PretendedLoad
from tonnage.model.errors import Problem, TonnageError
from tonnage.twin.devices.load.load_file import LoadRun
from tonnage.twin.devices.load.report import report_lines
from tonnage.twin.devices.scenario import ScenarioBackend
from tonnage.twin.kubelet.containers.runtime_port import ContainerContext, Program
from tonnage.twin.kubelet.programs.gpus import ALL, injected_ids
from tonnage.twin.kubelet.programs.mps import is_client
from tonnage.twin.machines import HardwareFile

_LOG: Final = logging.getLogger(__name__)
_ABORTED: Final = 134
"""The exit status of a program that CUDA aborts."""


class PretendedLoads:
    """The workloads of one node."""

    def __init__(self, devices: ScenarioBackend, hardware: HardwareFile) -> None:
        self._devices = devices
        self._hardware = hardware
        self._runs: dict[str, LoadRun] = {}
        """Those that run now, by their keys."""

    def around(self, program: Program, context: ContainerContext) -> Program:
        """The container's program, with its workload on the devices while it runs."""
        text = context.pod.metadata.annotations.get(LOAD_ANNOTATION)
        ids = injected_ids(context) if text is not None else ()
        if text is None or not ids:
            return program
        load = parse_load(text)
        if isinstance(load, Problem):
            context.stdio.write_error(f"no pretended load: {load}\n".encode())
            return program

        async def loaded(context: ContainerContext) -> int:
            return await self._run(program, context, load, ids)

        return loaded

    def report(self, context: ContainerContext, latency_s: float) -> str:
        """How the services on the container's first GPU fare, and how they would meet a latency."""
        ids = frozenset(injected_ids(context))
        services = [run for run in self._runs.values() if run.load.service_s]
        own = [run for run in services if not ids.isdisjoint(run.ids)]
        return "".join(f"{line}\n" for line in report_lines(own, latency_s))

    async def _run(
        self, program: Program, context: ContainerContext, load: PretendedLoad, ids: tuple[str, ...]
    ) -> int:
        meta, now_s = context.pod.metadata, context.clock.now().timestamp()
        name = f"{meta.namespace}/{meta.name}/{context.container.name}"
        seed = zlib.crc32(name.encode()) if load.seed is None else load.seed
        run = LoadRun(
            key=f"{name}/{now_s}",
            namespace=meta.namespace,
            pod=meta.name,
            container=context.container.name,
            ids=ids,
            load=load,
            seed=seed,
            mps=is_client(context),
            started_s=now_s,
        )
        try:
            self._devices.begin_load(run)
            self._runs[run.key] = run
        except (TonnageError, OSError) as error:  # somebody broke the file of the devices
            _LOG.warning("pretended load not started: pod=%s error=%s", name, error)
            return await program(context)
        try:
            if load.kind is LoadKind.CRASH:
                return await self._crashing(program, context, load, ids)
            return await program(context)
        finally:
            del self._runs[run.key]
            try:
                self._devices.finish_load(run.key)
            except (TonnageError, OSError) as error:
                _LOG.warning("pretended load not ended: pod=%s error=%s", name, error)

    async def _crashing(
        self, program: Program, context: ContainerContext, load: PretendedLoad, ids: tuple[str, ...]
    ) -> int:
        """The program's own end, or the Xid's if that comes first."""
        running = asyncio.ensure_future(program(context))
        crash = asyncio.ensure_future(context.clock.sleep(load.after_s))
        try:
            await asyncio.wait({running, crash}, return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                return running.result()
            await self._report(ids, load.xid)
            context.stdio.write_error(f"CUDA error: the GPU reported Xid {load.xid}\n".encode())
            return _ABORTED
        finally:
            running.cancel()
            crash.cancel()
            await asyncio.gather(running, crash, return_exceptions=True)

    async def _report(self, ids: tuple[str, ...], xid: int) -> None:
        struck = {
            device.uuid
            for device in (await self._devices.scan()).devices
            if not {ALL, device.uuid, str(device.index), *(part.uuid for part in device.migs)}.isdisjoint(ids)
        }
        for place, entry in enumerate(self._hardware.read().devices):
            if entry.uuid in struck:
                self._hardware.report(place, xid)
