"""cpumanager, static policy: which containers have which CPUs for themselves, and its state file.

What a container may run on is pretended; what others may still get is as on a real node, up to kubelet's own
packing of CPUs where one NUMA node is not enough.

Source: Kubernetes 1.36, pkg/kubelet/cm/cpumanager.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

from tonnage.decide.kubernetes.kubelet.cpus import NO_CPUS, CpuIds, Cpus, NoCpus, cpu_hints, take_cpus
from tonnage.decide.kubernetes.kubelet.device_admission import ContainerNeed, greatest_request
from tonnage.decide.kubernetes.kubelet.topology_manager import Hint
from tonnage.model.json import parsed_json
from tonnage.twin.kubelet.node_disk import NodeDisk

_LOG: Final = logging.getLogger(__name__)
_CPU: Final = "cpu"
_MOST_CPU: Final = 1 << 16


class CpuManager:
    """Who has which CPUs. A pod is admitted between `begin` and the next; `undo` takes back what it got."""

    def __init__(self, cpus: Cpus, path: Path, disk: NodeDisk) -> None:
        self._cpus = cpus
        self._path = path
        self._disk = disk
        self._sets: dict[tuple[str, str], CpuIds] = {}
        self._before: dict[tuple[str, str], CpuIds] = {}
        self._reusable = NO_CPUS

    async def start(self) -> None:
        """Remember what the state file says; one that cannot be read is left out."""
        content = await self._disk.read(self._path)
        try:
            entries = cast(Any, parsed_json(content))["entries"] if content is not None else {}
            self._sets = {
                (uid, name): cpu_set(text) for uid, names in entries.items() for name, text in names.items()
            }
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            _LOG.error("CPU state not used: file=%s error=%s", self._path, error)
        await self.save()

    def begin(self) -> None:
        """A pod is looked at."""
        self._before, self._reusable = dict(self._sets), NO_CPUS

    def undo(self) -> None:
        """It was refused."""
        self._sets = self._before

    def hints(self, pod_uid: str, need: ContainerNeed) -> tuple[Hint, ...] | None:
        """The NUMA nodes that could serve a container, or serve it already."""
        held = self._sets.get((pod_uid, need.name), NO_CPUS)
        if held:
            return cpu_hints(replace(self._cpus, free=held), need.cpus) if len(held) == need.cpus else ()
        return cpu_hints(self._now(), need.cpus, self._reusable)

    def hints_of_all(self, pod_uid: str, needs: Iterable[ContainerNeed]) -> tuple[Hint, ...] | None:
        """The same of a pod as a whole."""
        requested = greatest_request([(need, {_CPU: need.cpus}) for need in needs]).get(_CPU, 0)
        held = frozenset[int]().union(*(ids for key, ids in self._sets.items() if key[0] == pod_uid))
        return cpu_hints(replace(self._cpus, free=held) if held else self._now(), requested)

    def take(self, pod_uid: str, need: ContainerNeed, hint: Hint) -> NoCpus | None:
        """Give a container its CPUs, or say why not."""
        cpus: CpuIds | NoCpus = self._sets.get((pod_uid, need.name), NO_CPUS)
        if not cpus and need.cpus:
            cpus = take_cpus(self._now(), need.cpus, hint, self._reusable)
        if isinstance(cpus, NoCpus):
            return cpus
        if cpus:
            self._sets[pod_uid, need.name] = cpus
            self._reusable = self._reusable | cpus if need.reusable_after else self._reusable - cpus
        return None

    def release(self, pod_uid: str) -> bool:
        """The pod has ended; whether it had any."""
        gone = [key for key in self._sets if key[0] == pod_uid]
        for key in gone:
            del self._sets[key]
        return bool(gone)

    async def save(self) -> None:
        """Write the state file. One that cannot be written is logged."""
        entries: dict[str, dict[str, str]] = {}
        for (uid, name), ids in sorted(self._sets.items()):
            entries.setdefault(uid, {})[name] = cpu_list(ids)
        shared = cpu_list(frozenset(self._cpus.numa) - self._held())
        state = {"policyName": "static", "defaultCpuSet": shared, "entries": entries, "checksum": 0}
        try:
            await self._disk.write(self._path, json.dumps(state).encode())
        except OSError as error:
            _LOG.error("CPU state not written: %s", error)

    def _now(self) -> Cpus:
        return replace(self._cpus, free=self._cpus.free - self._held())

    def _held(self) -> CpuIds:
        return frozenset[int]().union(*self._sets.values())


def cpu_set(text: str) -> CpuIds:
    """CPUs as Linux lists them. Raises ValueError for another text.

    >>> sorted(cpu_set("0-2,8"))
    [0, 1, 2, 8]
    """
    cpus: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        if int(last or first) > _MOST_CPU:
            raise ValueError(f"CPU {last or first} is more than {_MOST_CPU}")
        cpus.update(range(int(first), int(last or first) + 1))
    return frozenset(cpus)


def cpu_list(cpus: CpuIds) -> str:
    """The same the other way round.

    >>> cpu_list(frozenset({8, 0, 1, 2}))
    '0-2,8'
    """
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and runs[-1][-1] == cpu - 1:
            runs[-1].append(cpu)
        else:
            runs.append([cpu])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
