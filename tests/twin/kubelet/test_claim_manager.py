"""The kubelet has claims prepared by drivers that it finds, and given back after the last pod."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import grpc
import grpc.aio
import pytest

from support.claim_driver import FakeDriver
from tonnage.twin.kubelet.node_spec import KubeletNode
from tonnage.wire import kinds
from tonnage.wire.kubelet import methods
from tonnage.wire.kubelet import podresources_v1_pb2 as resources
from tonnage.wire.kubelet.claim_methods import V1, V1BETA1

World = Any
_DEVICES: Any = {"results": [{"driver": "d.example.com", "pool": "p", "device": "g0", "request": "r"}]}
_PREFIX = (
    "Warning FailedPrepareDynamicResources Failed to prepare dynamic resources: prepare dynamic resources: "
)
PATIENCE_S = 30.0


@pytest.fixture
async def driver(world: World) -> AsyncIterator[FakeDriver]:
    made = FakeDriver(world.root / "var/lib/kubelet")
    await made.start()
    await passes(world, lambda: made.told)
    yield made
    await made.stop()


async def passes(world: World, condition: Callable[[], Any]) -> None:
    """Let time pass until that holds; answers over sockets take some of the real one."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await world.clock.advance(2)
            await asyncio.sleep(0.005)


def claim(world: World, name: str, *pods: str, uid: str = "") -> None:
    status = {"allocation": {"devices": _DEVICES}, "reservedFor": [{"uid": f"uid-{pod}"} for pod in pods]}
    meta = {"name": name, "namespace": "default", "uid": uid or f"uid-of-{name}"}
    world.api.put(kinds.RESOURCE_CLAIM, {"metadata": meta, "status": status})


def bind(world: World, pod: str, name: str, **more: Any) -> None:
    container = {
        "name": "main",
        "image": "ubuntu:24.04",
        "command": ["sleep", "3600"],
        "resources": {"claims": [{"name": "x"}]},
    }
    world.bind(pod, resourceClaims=[{"name": "x", "resourceClaimName": name}], containers=[container], **more)


def running(world: World, pod: str) -> bool:
    return bool(world.api.pod(pod).get("status", {}).get("phase") == "Running")


def state(world: World) -> list[Any]:
    """The claims of dra_manager_state."""
    file = json.loads((world.root / "var/lib/kubelet/dra_manager_state").read_text())
    claims: list[Any] = json.loads(file["Data"])["claimInfoStateList"]
    return claims


async def test_a_claim_is_prepared_before_the_first_container_and_given_back_after_the_last_pod(
    world: World, driver: FakeDriver
) -> None:
    assert driver.told == [None]
    claim(world, "mine", "web", "api")
    bind(world, "web", "mine")
    await passes(world, lambda: running(world, "web"))
    bind(world, "api", "mine")
    await passes(world, lambda: running(world, "api"))
    assert driver.prepared == ["mine"], "once for all pods of the node"
    [noted] = state(world)
    assert (noted["ClaimName"], sorted(noted["PodUIDs"])) == ("mine", ["uid-api", "uid-web"])
    assert noted["DriverState"]["d.example.com"]["Devices"][0]["CDIDeviceIDs"] == [
        "d.example.com/claim=uid-of-mine-g0"
    ]
    [container] = world.runtime.containers("uid-web")
    assert container.config.injection.cdi_devices == ("d.example.com/claim=uid-of-mine-g0",)
    await world.api.delete(kinds.POD, "web", namespace="default", grace_period_s=0)
    await passes(world, lambda: len(state(world)[0]["PodUIDs"]) == 1)
    assert not driver.unprepared
    await world.api.delete(kinds.POD, "api", namespace="default", grace_period_s=0)
    await passes(world, lambda: driver.unprepared == ["mine"])
    await passes(world, lambda: not state(world))


async def test_kubelets_list_shows_the_devices_of_claims(world: World, driver: FakeDriver) -> None:
    claim(world, "mine", "web")
    bind(world, "web", "mine")
    await passes(world, lambda: running(world, "web"))
    method = methods.POD_RESOURCES_LIST
    socket = world.kubelet.paths.pod_resources_socket
    async with grpc.aio.insecure_channel(f"unix:{socket}") as channel:
        call = channel.unary_unary(method.path, method.request.SerializeToString, method.response.FromString)
        listing = await call(resources.ListPodResourcesRequest())
    [entry] = listing.pod_resources[0].containers[0].dynamic_resources
    [device] = entry.claim_resources
    assert (entry.claim_name, device.driver_name, device.pool_name, device.device_name) == (
        *("mine", "d.example.com", "p", "g0"),
    )
    assert driver.prepared == ["mine"]


@pytest.mark.parametrize(
    ("break_it", "told"),
    [
        pytest.param(
            lambda driver: driver.errors.update(mine="no such luck"),
            "NodePrepareResources failed for ResourceClaim mine: no such luck",
            id="refused",
        ),
        pytest.param(
            lambda driver: setattr(driver, "skips", True),
            "NodePrepareResources skipped 1 ResourceClaims",
            id="skipped",
        ),
    ],
)
async def test_a_pod_waits_with_the_drivers_words_and_starts_once_they_are_over(
    world: World, driver: FakeDriver, break_it: Callable[[FakeDriver], Any], told: str
) -> None:
    break_it(driver)
    claim(world, "mine", "web")
    bind(world, "web", "mine")
    await passes(world, lambda: any(e.startswith(_PREFIX + told) for e in world.api.events("web")))
    driver.errors.clear()
    driver.skips = False
    await passes(world, lambda: running(world, "web"))


async def test_a_claim_of_the_same_name_waits_for_the_one_before(world: World, driver: FakeDriver) -> None:
    claim(world, "mine", "web")
    bind(world, "web", "mine")
    await passes(world, lambda: running(world, "web"))
    claim(world, "mine", "api", uid="another")
    bind(world, "api", "mine")
    await passes(world, lambda: world.api.events("api"))
    old = "old ResourceClaim with same name mine and different UID uid-of-mine still exists"
    assert world.api.events("api")[0].startswith(f"{_PREFIX}{old} (previous pod force-deleted?!)")
    assert driver.prepared == ["mine"]


async def test_after_a_restart_the_kubelet_asks_again_and_remembers_whose_claims_are(
    world: World, driver: FakeDriver
) -> None:
    claim(world, "mine", "web")
    bind(world, "web", "mine")
    await passes(world, lambda: running(world, "web"))
    await world.kubelet.restart()
    await passes(world, lambda: driver.prepared == ["mine", "mine"])
    assert driver.told == [None, None], "it is registered with the new kubelet"
    await world.api.delete(kinds.POD, "web", namespace="default", grace_period_s=0)
    await passes(world, lambda: driver.unprepared == ["mine"])


async def test_slices_go_when_the_kubelet_starts_and_half_a_minute_after_their_driver(
    world: World, driver: FakeDriver
) -> None:
    def publish(name: str) -> None:
        spec = {"driver": driver.name, "nodeName": world.kubelet.spec.name}
        world.api.put(kinds.RESOURCE_SLICE, {"metadata": {"name": name}, "spec": spec})

    def slices() -> list[str]:
        return [name for _, name in world.api.objects[kinds.RESOURCE_SLICE.plural]]

    publish("a")
    await world.kubelet.restart()
    await passes(world, lambda: not slices() and len(driver.told) == 2)
    publish("b")
    await driver.stop()
    before = world.clock.monotonic()
    await passes(world, lambda: not slices())
    assert world.clock.monotonic() - before >= 30


@pytest.mark.parametrize(
    ("change", "told"),
    [
        pytest.param({"versions": ("v1alpha3.DRAPlugin",)}, "none of the available versions", id="version"),
        pytest.param({"type": "CSIPlugin"}, "no handler registered for plugin type: CSIPlugin", id="type"),
        pytest.param({"versions": (V1BETA1,)}, None, id="an-older-version-is-spoken"),
        pytest.param({"versions": (V1BETA1, V1)}, None, id="the-newer-of-two"),
    ],
)
async def test_who_is_taken_as_a_driver(world: World, change: Any, told: str | None) -> None:
    driver = FakeDriver(world.root / "var/lib/kubelet")
    for name, value in change.items():
        setattr(driver, name, value)
    await driver.start()
    try:
        await passes(world, lambda: driver.told)
        assert driver.told[0] is None if told is None else str(driver.told[0]).startswith(told)
    finally:
        await driver.stop()


@pytest.mark.parametrize("version", ["v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth"])
async def test_a_pod_says_how_the_devices_of_its_claims_are_where_the_gate_is_on(
    start: Any, version: str
) -> None:
    spec = KubeletNode("a100-0", pod_cidr="10.244.7.0/24", health_in_status=True)
    async with start(spec) as world:
        driver = FakeDriver(world.root / "var/lib/kubelet", versions=(V1, version))
        await driver.start()
        try:
            await passes(world, lambda: driver.told)
            claim(world, "mine", "web")
            bind(world, "web", "mine")
            await passes(world, lambda: running(world, "web"))

            def shown() -> Any:
                [status] = world.api.pod("web")["status"]["containerStatuses"]
                [row] = status.get("allocatedResourcesStatus", [{}])
                return row.get("name"), *(each["health"] for each in row.get("resources", ()))

            def shows(health: str) -> bool:
                return bool(shown() == ("claim:x", health))

            for number, health in ((1, "Healthy"), (2, "Unhealthy"), (1, "Healthy")):
                driver.health.put_nowait(number)
                await passes(world, partial(shows, health))
            [status] = world.api.pod("web")["status"]["containerStatuses"]
            [entry] = status["allocatedResourcesStatus"][0]["resources"]
            assert entry["resourceID"] == "d.example.com/claim=uid-of-mine-g0"
        finally:
            await driver.stop()


async def test_by_default_a_pod_says_nothing_of_its_devices_health(world: World, driver: FakeDriver) -> None:
    claim(world, "mine", "web")
    bind(world, "web", "mine")
    await passes(world, lambda: running(world, "web"))
    assert "allocatedResourcesStatus" not in world.api.pod("web")["status"]["containerStatuses"][0]
