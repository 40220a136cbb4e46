"""All facts about a node, gathered at once; what does not answer in time is missing, with the reason."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from tonnage.adapters.machine import MachineFiles
from tonnage.adapters.node_facts.cdi import cdi_facts
from tonnage.adapters.node_facts.files import NodeFiles, Numbers, device_numbers
from tonnage.adapters.node_facts.hardware import (
    AGENTS_DRIVER,
    CONTAINER_DRIVER,
    device_node_facts,
    driver_facts,
    hardware_facts,
    library_facts,
    module_version,
)
from tonnage.adapters.node_facts.kubelet import kubelet_facts, kubelet_holds
from tonnage.adapters.node_facts.plugin import plugin_facts
from tonnage.adapters.node_facts.processes import containers_of, gpu_containers, process_ids, wants_nri
from tonnage.adapters.node_facts.runtime import runtime_facts
from tonnage.adapters.node_facts.runtime_version import runtime_version
from tonnage.adapters.vendors.driver_thread import DriverThread, OverdueError
from tonnage.model.node.facts import (
    ClusterFacts,
    DriverAnswer,
    NodeFacts,
    PluginFacts,
    RuntimeFacts,
    WorkloadFacts,
)
from tonnage.model.node.machine import Machine
from tonnage.model.node.plugin_settings import FeatureSettings

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Looking:
    """Where and how to look. `devices` is `nvml` or `none`; `address` is the agent's.

    `pretended` answers for devices that no driver has, and is asked in its place.
    One that reads or answers too slowly is left out. A cluster that is busy may take some seconds.
    """

    root: Path
    node: str
    devices: str = "nvml"
    address: str = ""
    deadline_s: float = 5.0
    cluster_deadline_s: float = 10.0
    driver_deadline_s: float = 5.0
    numbers: Numbers = device_numbers
    pretended: Callable[[], Awaitable[DriverAnswer]] | None = None


Cluster = Callable[[], Awaitable[ClusterFacts | None]]


class NodeLook:
    """One look at a node."""

    def __init__(self, looking: Looking, cluster: Cluster, say: Callable[[str], None]) -> None:
        """`cluster` asks for the node's objects; `say` is told what is waited for."""
        self._looking = looking
        self._files = NodeFiles(looking.root)
        self._cluster = cluster
        self._say = say
        self._troubles: dict[str, str] = {}

    async def facts(self) -> NodeFacts:
        """Everything that can be told in time."""
        looking, files = self._looking, self._files
        async with asyncio.TaskGroup() as group:
            hardware = group.create_task(self._apart("hardware", lambda: hardware_facts(files)))
            machine = group.create_task(self._machine())
            driver = group.create_task(self._apart("driver", lambda: driver_facts(files)))
            nodes = group.create_task(
                self._apart("device_nodes", lambda: device_node_facts(files, looking.numbers))
            )
            libraries = group.create_task(self._apart("libraries", lambda: library_facts(files)))
            runtime = group.create_task(self._runtime())
            cdi = group.create_task(self._apart("cdi", lambda: cdi_facts(files)))
            kubelet = group.create_task(self._apart("kubelet", lambda: kubelet_facts(files)))
            plugin = group.create_task(self._plugin())
            cluster = group.create_task(self._asked_cluster())
            workload = group.create_task(self._workload())
            answer = group.create_task(self._answer())
        return NodeFacts(
            node=looking.node,
            answer=answer.result(),
            hardware=hardware.result(),
            machine=machine.result() or Machine(),
            driver=driver.result(),
            device_nodes=nodes.result(),
            libraries=libraries.result(),
            runtime=runtime.result(),
            cdi=cdi.result(),
            kubelet=kubelet.result(),
            plugin=plugin.result(),
            cluster=cluster.result(),
            workload=await self._with_owners(workload.result(), answer.result()),
            troubles=dict(self._troubles),
        )

    async def _apart(self, name: str, look: Callable[[], T]) -> T | None:
        """What `look` finds, in a thread that is left alone when it takes too long."""
        thread = DriverThread(f"doctor-{name}", deadline_s=self._looking.deadline_s)
        try:
            return await thread.call(name, look)
        except OverdueError:
            self._troubles[name] = f"reading took longer than {self._looking.deadline_s:g} s"
        except OSError as error:
            self._troubles[name] = error.strerror or str(error)
        except Exception as error:  # our own fault, which must not hide what the other layers say
            self._troubles[name] = f"a bug in Tonnage; report it: {type(error).__name__}: {error}"
        finally:
            thread.close()
        return None

    async def _machine(self) -> Machine | None:
        def read() -> Machine:
            return MachineFiles(self._looking.root).now(FeatureSettings().machine_type_file)

        return await self._apart("machine", read)

    async def _runtime(self) -> RuntimeFacts | None:
        files = self._files
        facts = await self._apart("runtime", lambda: runtime_facts(files, process_ids(files)))
        if facts is None:
            return None
        processes = await self._apart("processes", lambda: tuple(wants_nri(files, process_ids(files))))
        name, version = await runtime_version(files, facts.sockets) if facts.sockets else ("", "")
        return replace(
            facts, name=name, version=version, nri_plugins=(*facts.nri_plugins, *(processes or ()))
        )

    async def _plugin(self) -> PluginFacts | None:
        files, address = self._files, self._looking.address
        return await self._apart("plugin", lambda: plugin_facts(files, process_ids(files), address))

    async def _workload(self) -> WorkloadFacts | None:
        files = self._files
        containers = await self._apart("workload", lambda: gpu_containers(files, process_ids(files)))
        if containers is None:
            return None
        holds, by_uid, trouble = await kubelet_holds(files)
        return WorkloadFacts(containers, holds, by_uid, trouble)

    async def _with_owners(self, facts: WorkloadFacts | None, answer: DriverAnswer) -> WorkloadFacts | None:
        pids = [process.pid for process in answer.processes]
        owners = (
            await self._apart("owners", lambda: containers_of(self._files, pids)) if facts and pids else None
        )
        return replace(facts, owners=owners) if facts is not None and owners else facts

    async def _asked_cluster(self) -> ClusterFacts | None:
        """What the API server says within the time; a slow one holds up nothing."""
        try:
            async with asyncio.timeout(self._looking.cluster_deadline_s):
                facts = await self._cluster()
        except TimeoutError:
            self._troubles["cluster"] = f"no answer within {self._looking.cluster_deadline_s:g} s"
            return None
        if facts is None:
            self._troubles.setdefault("cluster", f"the cluster has no node {self._looking.node}")
        return facts

    def cluster_silent(self, why: str) -> None:
        """The API server cannot be asked."""
        self._troubles["cluster"] = why

    async def _answer(self) -> DriverAnswer:
        from tonnage.adapters.node_facts.driver_answer import driver_answer

        if self._looking.pretended is not None:
            return await self._looking.pretended()
        if self._looking.devices != "nvml" or not await self._apart(
            "module", lambda: module_version(self._files)
        ):
            return DriverAnswer(queried=False)
        self._say("asking the driver")
        root = self._looking.root
        library = await self._apart("driver's root", self._driver_root)
        return await driver_answer(root, library, self._looking.driver_deadline_s)

    def _driver_root(self) -> Path | None:
        """Where its library is to be loaded from; None: where this system's own loader finds it."""
        for path in (*AGENTS_DRIVER, CONTAINER_DRIVER):
            place = self._files.place(path)
            if place is not None and place != self._looking.root and any(place.iterdir()):
                return place
        return None if self._looking.root == Path("/") else self._looking.root
