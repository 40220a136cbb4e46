"""lightkube's server-side apply against the twin, unchanged (KUB-2)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import yaml
from lightkube import ApiError, AsyncClient, KubeConfig
from lightkube.models.autoscaling_v1 import ScaleSpec
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.core_v1 import ConfigMap

from tonnage.model.json import JsonObject
from tonnage.twin.apiserver.kubeconfig import kubeconfig_text
from tonnage.wire.kinds import DEPLOYMENT
from twin.apiserver.conftest import Running


@asynccontextmanager
async def client(running: Running, manager: str) -> AsyncIterator[AsyncClient]:
    config = KubeConfig.from_dict(yaml.load(kubeconfig_text(running.endpoint), yaml.CSafeLoader))
    made = AsyncClient(config=config, namespace="default", field_manager=manager)
    try:
        yield made
    finally:
        await made.close()


def settings(**data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name="settings"), data=data)


async def test_a_controller_applies_yields_and_takes_over(running: Running) -> None:
    async with client(running, "operator") as ours, client(running, "person") as theirs:
        await ours.apply(settings(mode="fast", size="1"))
        with pytest.raises(ApiError, match=r'conflict with "operator": \.data\.mode'):
            await theirs.apply(settings(mode="slow"))
        await theirs.apply(settings(mode="slow"), force=True)
        left = await ours.apply(settings(size="2"))
    assert left.data == {"mode": "slow", "size": "2"}
    assert left.metadata is not None
    assert {entry.manager for entry in left.metadata.managedFields or ()} == {"operator", "person"}


async def test_a_scale_is_applied(running: Running) -> None:
    labels: JsonObject = {"app": "x"}
    template: JsonObject = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    spec: JsonObject = {"selector": {"matchLabels": labels}, "template": template}
    body: JsonObject = {"metadata": {"name": "d"}, "spec": spec}
    await running.api.create(DEPLOYMENT, body, namespace="default")
    scale = Deployment.Scale(metadata=ObjectMeta(name="d"), spec=ScaleSpec(replicas=3))
    async with client(running, "operator") as ours:
        assert (await ours.apply(scale, "d", force=True)).spec == ScaleSpec(replicas=3)
