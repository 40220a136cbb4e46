"""What registries say of drivers' images: how they are asked, and what their answers come to."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from controller.driver_bench import DRIVERS, DriverBench
from tonnage.controller.main import ControllerHost
from tonnage.model.drivers.images import ImageAnswer, RegistryRoute, TagState
from tonnage.wire.kinds import CLUSTER_POLICY, CONFIG_MAP, SECRET

IMAGE = "nvcr.io/nvidia/driver:595.91.07-ubuntu22.04"
LOGINS = '{"auths": {}}'


class Registry:
    """Says of every image what it is told to, of those in `but` something else; `asked` has all questions."""

    def __init__(self, answer: ImageAnswer) -> None:
        self.answer = answer
        self.but: dict[str, ImageAnswer] = {}
        self.asked: list[tuple[str, tuple[str, ...], RegistryRoute]] = []

    async def ask(self, image: str, pull_secrets: tuple[str, ...], route: RegistryRoute) -> ImageAnswer:
        self.asked.append((image, pull_secrets, route))
        return self.but.get(image, self.answer)


@pytest.fixture
async def bench(bench: DriverBench) -> DriverBench:
    await bench.machine("a")
    return bench


async def preflight(bench: DriverBench) -> str:
    return str((await bench.condition("tonnage.dev/DriverPreflight"))["message"])


async def test_an_image_that_is_missing_is_rolled_out_once_it_is_there(bench: DriverBench) -> None:
    registry = Registry(ImageAnswer(TagState.MISSING))
    await bench.drivers("595.91.07")
    bench.start(DRIVERS, host=ControllerHost(registry))
    await bench.clock.advance(10)
    assert await bench.sets() == []
    assert IMAGE in await preflight(bench)
    registry.answer = ImageAnswer(TagState.EXISTS)
    await bench.clock.advance(95)
    assert await bench.running() == {"a": IMAGE}
    assert len(registry.asked) == 2


async def test_an_image_of_a_module_that_is_missing_holds_the_driver_up(bench: DriverBench) -> None:
    """Its pod would never be ready: each node would lose its driver to an upgrade that fails."""
    registry = Registry(ImageAnswer(TagState.EXISTS))
    module = "nvcr.io/nvidia/cloud-native/nvidia-fs:2.29.4-ubuntu22.04"
    registry.but[module] = ImageAnswer(TagState.MISSING)
    await bench.drivers("595.91.07")
    await bench.api.patch(CLUSTER_POLICY, "cluster-policy", {"spec": {"gds": {"enabled": True}}})
    bench.start(DRIVERS, host=ControllerHost(registry))
    await bench.clock.advance(10)
    assert {image for image, _, _ in registry.asked} == {IMAGE, module}
    assert await bench.sets() == []
    assert f"image {module} does not exist; name a version that is published" in await preflight(bench)
    registry.but.clear()
    await bench.clock.advance(95)
    assert await bench.running() == {"a": IMAGE}


async def test_what_nobody_knows_blocks_nothing(bench: DriverBench) -> None:
    registry = Registry(ImageAnswer(TagState.UNKNOWN, "registry nvcr.io does not answer: ConnectError"))
    await bench.drivers("595.91.07")
    bench.start(DRIVERS, host=ControllerHost(registry))
    await bench.clock.advance(10)
    assert await bench.running() == {"a": IMAGE}
    assert "registry nvcr.io does not answer: ConnectError" in await preflight(bench)


async def test_it_is_asked_as_the_policy_says(bench: DriverBench) -> None:
    """With its pull secrets, by the proxy of its `env`, and with the authorities of its `certConfig`."""
    registry = Registry(ImageAnswer(TagState.EXISTS))
    secret: Any = {
        "metadata": {"name": "pull"},
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": base64.b64encode(LOGINS.encode()).decode()},
    }
    await bench.api.create(SECRET, secret, namespace="gpu-operator")
    await bench.configs("authorities", **{"b.crt": "two", "a.crt": "one"})
    env = [
        {"name": "HTTPS_PROXY", "value": "http://proxy.example.com:3128"},
        {"name": "no_proxy", "value": "localhost"},
    ]
    more: Any = {"env": env, "certConfig": {"name": "authorities"}, "imagePullSecrets": ["pull"]}
    await bench.drivers("595.91.07", **more)
    bench.start(DRIVERS, host=ControllerHost(registry))
    await bench.clock.advance(10)
    route = RegistryRoute("http://proxy.example.com:3128", "localhost", "one\ntwo")
    assert registry.asked == [(IMAGE, (LOGINS,), route)]
    await bench.drivers("595.91.07", **{**more, "env": []})
    await bench.clock.advance(10)
    assert registry.asked[1:] == [(IMAGE, (LOGINS,), RegistryRoute(authorities="one\ntwo"))]


@pytest.mark.parametrize("data", [None, {}], ids=["no such ConfigMap", "an empty one"])
async def test_authorities_that_are_not_there(bench: DriverBench, data: dict[str, str] | None) -> None:
    """Precompiled drivers download nothing, so that only the registry lacks them."""
    registry = Registry(ImageAnswer(TagState.EXISTS))
    if data is not None:
        await bench.api.create(CONFIG_MAP, {"metadata": {"name": "gone"}}, namespace="gpu-operator")
    await bench.drivers("595", certConfig={"name": "gone"}, usePrecompiled=True)
    bench.start(DRIVERS, host=ControllerHost(registry))
    await bench.clock.advance(10)
    assert registry.asked == []
    assert "certConfig gone: no such ConfigMap, or it is empty" in await preflight(bench)
    assert await bench.running() == {"a": "nvcr.io/nvidia/driver:595-5.15.0-84-generic-ubuntu22.04"}
