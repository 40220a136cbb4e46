"""The kubelet has claims prepared by drivers that it finds, and given back after the last pod."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any
from unittest.mock import AsyncMock

import grpc
import grpc.aio
import pytest

from support.claim_driver import FakeDriver
from support.kubelet_bench import KubeletBench
from tonnage.twin.kubelet.claims.drivers import Drivers
from tonnage.twin.kubelet.node_spec import KubeletNode, NodePaths
from tonnage.wire import kinds
from tonnage.wire.kubelet import claim_methods, methods
from tonnage.wire.kubelet import pluginregistration_pb2 as registration
from tonnage.wire.kubelet import podresources_v1_pb2 as resources
from tonnage.wire.kubelet.claim_methods import V1, V1BETA1

_DEVICES: Any = {"results": [{"driver": "d.example.com", "pool": "p", "device": "g0", "request": "r"}]}
_PREFIX = (
    "Warning FailedPrepareDynamicResources Failed to prepare dynamic resources: prepare dynamic resources: "
)
PATIENCE_S = 30.0


@pytest.fixture
async def driver(bench: KubeletBench) -> AsyncIterator[FakeDriver]:
    made = FakeDriver(bench.root / "var/lib/kubelet")
    await made.start()
    await passes(bench, lambda: made.told)
    yield made
    await made.stop()


async def passes(bench: KubeletBench, condition: Callable[[], Any]) -> None:
    """Let time pass until that holds; answers over sockets take some of the real one."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await bench.clock.advance(2)
            await asyncio.sleep(0.005)


def claim(bench: KubeletBench, name: str, *pods: str, uid: str = "", owner: str = "") -> None:
    status = {"allocation": {"devices": _DEVICES}, "reservedFor": [{"uid": f"uid-{pod}"} for pod in pods]}
    meta: dict[str, Any] = {"name": name, "namespace": "default", "uid": uid or f"uid-of-{name}"}
    if owner:
        entry = {"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": f"uid-{owner}", "controller": True}
        meta["ownerReferences"] = [entry]
    bench.api.put(kinds.RESOURCE_CLAIM, {"metadata": meta, "status": status})


def bind(bench: KubeletBench, pod: str, name: str, **more: Any) -> None:
    container = {
        "name": "main",
        "image": "ubuntu:24.04",
        "command": ["sleep", "3600"],
        "resources": {"claims": [{"name": "x"}]},
    }
    own = {"resourceClaimName": name} if name else {"resourceClaimTemplateName": "each"}
    bench.bind(pod, resourceClaims=[{"name": "x", **own}], containers=[container], **more)


def running(bench: KubeletBench, pod: str) -> bool:
    return bool(bench.api.pod(pod).get("status", {}).get("phase") == "Running")


def state(bench: KubeletBench) -> list[Any]:
    """The claims of dra_manager_state."""
    file = json.loads((bench.root / "var/lib/kubelet/dra_manager_state").read_text())
    claims: list[Any] = json.loads(file["Data"])["claimInfoStateList"]
    return claims


async def test_a_claim_is_prepared_before_the_first_container_and_given_back_after_the_last_pod(
    bench: KubeletBench, driver: FakeDriver
) -> None:
    assert driver.told == [None]
    claim(bench, "mine", "web", "api")
    bind(bench, "web", "mine")
    await passes(bench, lambda: running(bench, "web"))
    bind(bench, "api", "mine")
    await passes(bench, lambda: running(bench, "api"))
    assert driver.prepared == ["mine"], "once for all pods of the node"
    [noted] = state(bench)
    assert (noted["ClaimName"], sorted(noted["PodUIDs"])) == ("mine", ["uid-api", "uid-web"])
    assert noted["DriverState"]["d.example.com"]["Devices"][0]["CDIDeviceIDs"] == [
        "d.example.com/claim=uid-of-mine-g0"
    ]
    [container] = bench.runtime.containers("uid-web")
    assert container.config.injection.cdi_devices == ("d.example.com/claim=uid-of-mine-g0",)
    await bench.api.delete(kinds.POD, "web", namespace="default", grace_period_s=0)
    await passes(bench, lambda: len(state(bench)[0]["PodUIDs"]) == 1)
    assert not driver.unprepared
    await bench.api.delete(kinds.POD, "api", namespace="default", grace_period_s=0)
    await passes(bench, lambda: driver.unprepared == ["mine"])
    await passes(bench, lambda: not state(bench))


async def test_kubelets_list_shows_the_devices_of_claims(bench: KubeletBench, driver: FakeDriver) -> None:
    claim(bench, "mine", "web")
    bind(bench, "web", "mine")
    await passes(bench, lambda: running(bench, "web"))
    method = methods.POD_RESOURCES_LIST
    socket = bench.kubelet.paths.pod_resources_socket
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
    bench: KubeletBench, driver: FakeDriver, break_it: Callable[[FakeDriver], Any], told: str
) -> None:
    break_it(driver)
    claim(bench, "mine", "web")
    bind(bench, "web", "mine")
    await passes(bench, lambda: any(e.startswith(_PREFIX + told) for e in bench.api.events("web")))
    driver.errors.clear()
    driver.skips = False
    await passes(bench, lambda: running(bench, "web"))


async def test_a_claim_of_the_same_name_waits_for_the_one_before(
    bench: KubeletBench, driver: FakeDriver
) -> None:
    claim(bench, "mine", "web")
    bind(bench, "web", "mine")
    await passes(bench, lambda: running(bench, "web"))
    claim(bench, "mine", "api", uid="another")
    bind(bench, "api", "mine")
    await passes(bench, lambda: bench.api.events("api"))
    old = "old ResourceClaim with same name mine and different UID uid-of-mine still exists"
    assert bench.api.events("api")[0].startswith(f"{_PREFIX}{old} (previous pod force-deleted?!)")
    assert driver.prepared == ["mine"]


async def test_after_a_restart_the_kubelet_asks_again_and_remembers_whose_claims_are(
    bench: KubeletBench, driver: FakeDriver
) -> None:
    claim(bench, "mine", "web")
    bind(bench, "web", "mine")
    await passes(bench, lambda: running(bench, "web"))
    await bench.kubelet.restart()
    await passes(bench, lambda: driver.prepared == ["mine", "mine"])
    assert driver.told == [None, None], "it is registered with the new kubelet"
    await bench.api.delete(kinds.POD, "web", namespace="default", grace_period_s=0)
    await passes(bench, lambda: driver.unprepared == ["mine"])


async def test_slices_go_when_the_kubelet_starts_and_half_a_minute_after_their_driver(
    bench: KubeletBench, driver: FakeDriver
) -> None:
    def publish(name: str) -> None:
        spec = {"driver": driver.name, "nodeName": bench.kubelet.spec.name}
        bench.api.put(kinds.RESOURCE_SLICE, {"metadata": {"name": name}, "spec": spec})

    def slices() -> list[str]:
        return [name for _, name in bench.api.objects[kinds.RESOURCE_SLICE.plural]]

    publish("a")
    async with asyncio.timeout(PATIENCE_S):
        await bench.kubelet.restart()
    await passes(bench, lambda: not slices() and len(driver.told) == 2)
    publish("b")
    await driver.stop()
    before = bench.clock.monotonic()
    await passes(bench, lambda: not slices())
    assert bench.clock.monotonic() - before >= 30


@pytest.mark.parametrize(
    ("change", "told"),
    [
        pytest.param({"versions": ("v1alpha3.DRAPlugin",)}, "none of the available versions", id="version"),
        pytest.param({"type": "CSIPlugin"}, "no handler registered for plugin type: CSIPlugin", id="type"),
        pytest.param({"versions": (V1BETA1,)}, None, id="an-older-version-is-spoken"),
        pytest.param({"versions": (V1BETA1, V1)}, None, id="the-newer-of-two"),
    ],
)
async def test_who_is_taken_as_a_driver(bench: KubeletBench, change: Any, told: str | None) -> None:
    driver = FakeDriver(bench.root / "var/lib/kubelet")
    for name, value in change.items():
        setattr(driver, name, value)
    await driver.start()
    try:
        await passes(bench, lambda: driver.told)
        assert driver.told[0] is None if told is None else str(driver.told[0]).startswith(told)
    finally:
        await driver.stop()


@pytest.mark.parametrize("version", ["v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth"])
async def test_a_pod_says_how_the_devices_of_its_claims_are_where_the_gate_is_on(
    start: Any, version: str
) -> None:
    spec = KubeletNode("a100-0", pod_cidr="10.244.7.0/24", health_in_status=True)
    async with start(spec) as bench:
        driver = FakeDriver(bench.root / "var/lib/kubelet", versions=(V1, version))
        await driver.start()
        try:
            await passes(bench, lambda: driver.told)
            claim(bench, "mine", "api")
            claim(bench, "made", "web", owner="web")
            made = [{"name": "x", "resourceClaimName": "made"}]
            bind(bench, "web", "", status={"phase": "Pending", "resourceClaimStatuses": made})
            bind(bench, "api", "mine")
            await passes(bench, lambda: running(bench, "web") and running(bench, "api"))

            def shown() -> Any:
                [status] = bench.api.pod("web")["status"]["containerStatuses"]
                [row] = status.get("allocatedResourcesStatus", [{}])
                return row.get("name"), *(each["health"] for each in row.get("resources", ()))

            def shows(health: str) -> bool:
                return bool(shown() == ("claim:x", health))

            for number, health in ((1, "Healthy"), (2, "Unhealthy"), (1, "Healthy")):
                driver.health.put_nowait(number)
                await passes(bench, partial(shows, health))
            [status] = bench.api.pod("web")["status"]["containerStatuses"]
            [entry] = status["allocatedResourcesStatus"][0]["resources"]
            assert entry["resourceID"] == "d.example.com/claim=uid-of-made-g0"
            [status] = bench.api.pod("api")["status"]["containerStatuses"]
            assert "allocatedResourcesStatus" not in status, "1.35 knows those of templates' claims alone"
        finally:
            await driver.stop()


async def test_by_default_a_pod_says_nothing_of_its_devices_health(
    bench: KubeletBench, driver: FakeDriver
) -> None:
    claim(bench, "mine", "web")
    bind(bench, "web", "mine")
    await passes(bench, lambda: running(bench, "web"))
    assert "allocatedResourcesStatus" not in bench.api.pod("web")["status"]["containerStatuses"][0]


async def test_a_kubelet_that_is_cancelled_as_an_answer_comes_ends(
    bench: KubeletBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else neither its restart nor its end would ever come: it would go on beside its successor."""
    paths = NodePaths(bench.root / "other")
    paths.plugins_registry.mkdir(parents=True)

    async def answer(*_: object) -> registration.PluginInfo:
        looking.cancel()
        return registration.PluginInfo(type=claim_methods.PLUGIN_TYPE, name="d", supported_versions=[V1])

    monkeypatch.setattr("tonnage.twin.kubelet.claims.drivers.ask_plugin", answer)
    drivers = Drivers(paths, AsyncMock())
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(paths.plugins_registry / "d-reg.sock"))
        looking = asyncio.ensure_future(drivers.look())
        with pytest.raises(asyncio.CancelledError):
            await looking
