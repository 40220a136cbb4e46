"""What the agent publishes of claims, on a genuine API server: kept as it is, or dropped and said so.

`KUBERNETES_VERSION` chooses the server; docs/how-to/run-on-genuine-kubernetes.md says which were tried.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from support.claim_inputs import A100_SIZES
from support.claim_kubelet import eventually
from support.claim_node import ALL, NODE, ClaimNode, names
from support.genuine import GenuinePlane, control_plane
from support.leftovers import own_folder
from tonnage.adapters.kubernetes.client import connect, server_version
from tonnage.cli.locations.binaries import chosen_minor
from tonnage.decide.node.claims.published import published_devices
from tonnage.decide.node.claims.slices import (
    NewSlice,
    NodeOwner,
    counter_shape,
    desired_specs,
    dropped_fields,
    kept_fields,
    next_step,
    trial_slices,
)
from tonnage.model.devices.inventory import Device, Inventory
from tonnage.model.devices.sharing import PluginConfig
from tonnage.model.kubernetes.feature_gates import (
    CONDITIONS,
    EXTENDED,
    HEALTH,
    PARTITIONS,
    SHARES,
    TAINTS,
    FeatureGates,
    minor_of,
)
from tonnage.wire import kinds

pytestmark = pytest.mark.kubernetes

GATES: Final = (PARTITIONS, SHARES, TAINTS)
DEPENDENTS: Final = ("DRADeviceTaintRules", "DRAFractionalCapacityRange")
"""On in 1.37, which does not start with them while what they depend on is off."""
MINOR: Final = minor_of(chosen_minor(os.environ))
WHOLE: Final = "devices:\n" + "".join(
    f"- {{uuid: GPU-{n}, model: H100-80, numa: {n // 4}}}\n" for n in range(16)
)
DIVIDED: Final = "devices:\n" + "".join(f"- {{uuid: GPU-{n}, model: A100-40, mig: []}}\n" for n in range(16))
EXISTING: Final = (
    "devices:\n- {uuid: GPU-0, model: A100-40, mig: [3g.20gb, 2g.10gb]}\n- {uuid: GPU-1, model: T4}\n"
)
SICK: Final = "devices:\n- {uuid: GPU-0, model: T4, health: unhealthy}\n- {uuid: GPU-1, model: T4}\n"
DYNAMIC: Final = "version: v1\nclaims: {devices: all, dynamicMig: true}\n"


def shared(how: str) -> str:
    return f"version: v1\nclaims: {{devices: all, consumableShares: {how}}}\n"


@dataclass(frozen=True, slots=True)
class Server:
    """A genuine API server, and which of the gates it has on."""

    plane: GenuinePlane
    gates: FeatureGates

    @asynccontextmanager
    async def node(self, config: str, hardware: str, kubelet: str = "") -> AsyncIterator[ClaimNode]:
        """A node with its agent; all of it is gone afterwards. Its kubelet is of the server's release."""
        root = Path(tempfile.mkdtemp(prefix="tn-", dir="/tmp"))
        try:
            async with connect(self.plane.kubeconfig, program="test") as api:
                node = ClaimNode(root, api=api)
                await node.begin(config, hardware, kubelet or await server_version(api))
                try:
                    async with node.agent():
                        await node.kubelet.register()
                        yield node
                finally:
                    await self.tidy(api)
        finally:
            shutil.rmtree(root)

    async def tidy(self, api: Any) -> None:
        """The definition stays: the server takes its time to delete one."""
        made: tuple[tuple[Any, str | None], ...] = (
            *((kind, None) for kind in (kinds.RESOURCE_SLICE, kinds.NODE, kinds.NODE_GPU_STATUS)),
            *((kinds.CONFIG_MAP, "tonnage-system"), (kinds.EVENT, "default")),
        )
        for kind, space in made:
            for obj in (await api.list(kind, namespace=space)).items:
                await api.delete(kind, obj.metadata.name, namespace=space)


def _gates(*, on: bool) -> FeatureGates:
    dependents = () if on or MINOR < 37 else DEPENDENTS
    return FeatureGates(MINOR, tuple((gate, on) for gate in (*GATES, *dependents)))


@pytest.fixture(scope="module", params=["default gates", "gates on", "gates off"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    default = FeatureGates(MINOR)
    choice: FeatureGates = {
        "default gates": default,
        "gates on": _gates(on=True),
        "gates off": _gates(on=False),
    }[request.param]
    if choice.chosen and all(choice.has(gate) == default.has(gate) for gate in GATES):
        pytest.skip(f"1.{MINOR} has them so by default")
    with own_folder() as folder, control_plane(folder, *choice.flags) as plane:
        yield Server(plane, choice)


def whole_pool(listing: list[Any]) -> bool:
    """Whether all slices of the newest generation are there, and none of an older one."""
    pools = {(obj.spec["pool"]["generation"], obj.spec["pool"]["resourceSliceCount"]) for obj in listing}
    return len(pools) == 1 and next(iter(pools))[1] == len(listing)


async def reasons(node: ClaimNode) -> set[str]:
    return {event.reason for event in await node.events()}


def test_gates_are_on_and_off_as_the_table_says(server: Server) -> None:
    page = server.plane.ask("get", "--raw", "/metrics").stdout
    for gate in (*GATES, CONDITIONS, HEALTH, EXTENDED):
        [line] = [
            row for row in page.splitlines() if row.startswith(f'kubernetes_feature_enabled{{name="{gate}"')
        ]
        assert (line.rpartition(" ")[2] == "1") == server.gates.has(gate), line


async def test_the_trial_slices_tell_what_the_server_keeps(server: Server) -> None:
    fields = {"taints": TAINTS, "allowMultipleAllocations": SHARES, "sharedCounters": PARTITIONS}
    remaining = frozenset[str]()
    async with connect(server.plane.kubeconfig, program="test") as api:
        for body in trial_slices(NODE):
            shown = await api.dry_run_create(kinds.RESOURCE_SLICE, body)
            remaining |= kept_fields(msgspec.to_builtins(shown))
    assert remaining == {field for field, gate in fields.items() if server.gates.has(gate)}


async def test_whole_gpus_with_all_that_is_said_of_them(server: Server) -> None:
    async with server.node(ALL, WHOLE) as node:
        listing = await node.slices(lambda listing: len(names(listing)) == 16 and whole_pool(listing))
        assert all(obj.metadata.owner_references[0].name == NODE for obj in listing)
        first = listing[0].spec["devices"][0]
        attributes = first["attributes"]
        assert attributes["type"] == {"string": "gpu"}
        assert attributes["productName"]["string"].startswith("NVIDIA H100")
        assert attributes["cudaComputeCapability"] == {"version": "9.0.0"}
        assert attributes["resource.kubernetes.io/numaNode"] == {"int": 0}
        assert attributes["tonnage.dev/nvlinkGroup"] == {"string": "gpu-0"}
        assert first["capacity"]["memory"]["value"].endswith("i")
        assert not {"ClaimsNotPublished", "ClaimsWithoutPartitions"} & await reasons(node)


async def test_mig_devices_that_exist(server: Server) -> None:
    async with server.node(ALL, EXISTING) as node:
        listing = await node.slices(lambda listing: len(names(listing)) == 3 and whole_pool(listing))
        kinds_of = {d["name"]: d["attributes"]["type"]["string"] for s in listing for d in s.spec["devices"]}
        assert sorted(kinds_of.values()) == ["gpu", "mig", "mig"]
        assert "ClaimsNotPublished" not in await reasons(node)


async def test_mig_devices_that_do_not_exist_of_more_than_eight_gpus(server: Server) -> None:
    async with server.node(DYNAMIC, DIVIDED) as node:
        if not server.gates.has(PARTITIONS):
            await eventually(lambda: _said(node, "ClaimsWithoutPartitions"))
            await node.slices(lambda listing: not names(listing))
            return
        listing = await node.slices(lambda listing: len(names(listing)) == 16 * 25 and whole_pool(listing))
        sets = [entry["name"] for obj in listing for entry in obj.spec.get("sharedCounters") or ()]
        assert sorted(sets) == sorted(f"gpu-{n}-counter-set" for n in range(16))
        together = [obj for obj in listing if obj.spec.get("sharedCounters") and obj.spec.get("devices")]
        assert bool(together) == (MINOR < 35)
        consumed = listing[-1].spec["devices"][-1]["consumesCounters"][0]
        assert consumed["counterSet"] in sets
        assert not {"ClaimsNotPublished", "ClaimsWithoutPartitions"} & await reasons(node)


async def test_counters_of_all_engines_that_the_driver_tells_of(server: Server) -> None:
    """As a driver of 16 GPUs tells of them; the slices are written without an agent."""
    if not server.gates.has(PARTITIONS):
        pytest.skip("nothing is published with counters")
    told: Any = {"mig_enabled": True, "profile_sizes": A100_SIZES}
    gpus = [Device(f"GPU-{n}", n, "NVIDIA A100-SXM4-40GB", 40960, minor=n, **told) for n in range(16)]
    inventory = Inventory(tuple(gpus))
    devices = published_devices(inventory, PluginConfig(claimed=("all",), partitioned=True))
    shape = counter_shape(f"v1.{MINOR}.0", keeps=True)
    specs, owner = desired_specs(devices, NODE, counters=shape), NodeOwner(NODE, "uid-of-the-node")
    async with connect(server.plane.kubeconfig, program="test") as api:
        standing: list[Any] = []
        while (step := next_step(specs, standing, owner)) is not None:
            assert isinstance(step, NewSlice)
            await api.create(kinds.RESOURCE_SLICE, step.body)
            standing = [msgspec.to_builtins(obj) for obj in (await api.list(kinds.RESOURCE_SLICE)).items]
        assert not dropped_fields(specs, standing, NODE)
        sets = [entry for body in standing for entry in body["spec"].get("sharedCounters") or ()]
        assert len(sets) == len(gpus)
        assert {entry["counters"]["copy-engines"]["value"] for entry in sets} == {"7"}
        await server.tidy(api)


async def test_a_server_that_is_newer_than_the_kubelet_has_counters_in_its_own_shape(server: Server) -> None:
    if not server.gates.has(PARTITIONS):
        pytest.skip("nothing is published with counters")
    async with server.node(DYNAMIC, DIVIDED, kubelet="v1.34.4") as node:
        listing = await node.slices(lambda listing: len(names(listing)) == 16 * 25 and whole_pool(listing))
        together = [obj for obj in listing if obj.spec.get("sharedCounters") and obj.spec.get("devices")]
        assert bool(together) == (MINOR < 35)
        assert "ClaimsNotPublished" not in await reasons(node)


@pytest.mark.parametrize("how", ["memory", "4", "unlimited"])
async def test_parts_of_gpus(server: Server, how: str) -> None:
    async with server.node(shared(how), "devices:\n- {uuid: GPU-0, model: A100-40}\n") as node:
        [listed] = await node.slices(lambda listing: names(listing) == ["gpu-0"] and whole_pool(listing))
        [device] = listed.spec["devices"]
        if not server.gates.has(SHARES):
            await eventually(lambda: _said(node, "ClaimsWithoutShares"))
            assert "allowMultipleAllocations" not in device
            return
        assert device["allowMultipleAllocations"] is True
        rule = device["capacity"]["memory"]["requestPolicy"]
        assert rule["validRange"]["step"] == "1Mi"
        assert not {"ClaimsNotPublished", "ClaimsWithoutShares"} & await reasons(node)


async def test_a_sick_gpu_is_tainted_or_left_out(server: Server) -> None:
    async with server.node(ALL, SICK) as node:
        if not server.gates.has(TAINTS):
            await node.slices(lambda listing: names(listing) == ["gpu-1"] and whole_pool(listing))
            return
        [listed] = await node.slices(lambda listing: len(names(listing)) == 2 and whole_pool(listing))
        [sick] = [device for device in listed.spec["devices"] if device.get("taints")]
        assert (sick["name"], sick["taints"][0]["effect"]) == ("gpu-0", "NoSchedule")


async def test_slices_that_kubelet_deletes_are_published_again(server: Server) -> None:
    async with server.node(ALL, SICK) as node:
        before = await node.slices(whole_pool)
        for obj in before:
            await node.api.delete(kinds.RESOURCE_SLICE, obj.metadata.name)
        uids = {obj.metadata.uid for obj in before}
        await node.slices(
            lambda listing: whole_pool(listing) and not {obj.metadata.uid for obj in listing} & uids
        )


async def _said(node: ClaimNode, reason: str) -> bool:
    return reason in await reasons(node)
