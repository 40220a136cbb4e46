"""What the chart's roles grant is what the agent asks for, no more and no less."""

from __future__ import annotations

import asyncio
import re
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from support.api_stores import new_store
from support.helm import CHART, NAMESPACE, Helm
from support.nodefeatures import node_feature_crd
from support.rights import Right, granted, needed
from tonnage.adapters.clock import SystemClock
from tonnage.agent.main import run_agent
from tonnage.agent.options import AgentOptions
from tonnage.model.json import JsonObject
from tonnage.model.names import MIG_CONFIG_LABEL, MIG_STATE_LABEL
from tonnage.model.node.condition_report import CONFIGURED, HEALTHY
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.twin.apiserver.server import ApiServer
from tonnage.twin.platform import CONFIG_MAP_NAME, platform_objects
from tonnage.wire.kinds import (
    CONFIG_MAP,
    CUSTOM_RESOURCE,
    DAEMON_SET,
    EVENT,
    NODE,
    NODE_FEATURE,
    NODE_GPU_STATUS,
    Kind,
)

NODE_NAME = "gpu-0"
LAYOUTS = "default-mig-parted-config"
PATIENCE_S = 60.0


class Witness:
    """A KubernetesApi that remembers what was asked of it, as RBAC sees it."""

    server_ahead_s = 0.0

    def __init__(self, api: KubernetesApi) -> None:
        self._api: Any = api
        self.asked: set[tuple[Right, str]] = set()
        """With the field selector."""

    def __getattr__(self, method: str) -> Callable[..., Any]:
        def call(kind: Kind[Any], *arguments: Any, **options: Any) -> Any:
            selector = options.get("field_selector", "")
            named = re.fullmatch(r"metadata\.name=(.+)", selector)
            resource = "/".join(filter(None, (kind.plural, options.get("subresource", ""))))
            namespace = options.get("namespace") or ""
            right = Right(method, kind.group, resource, namespace, named[1] if named else "")
            self.asked.add((right, selector))
            return getattr(self._api, method)(kind, *arguments, **options)

        return call


PUBLISH = {"none": "none", "direct": "direct", "nodefeature": "nfd-object", "file": "nfd-file"}
"""What `features.publish` makes of `--labels`."""


@pytest.fixture(params=["none"])
async def witness(request: pytest.FixtureRequest) -> AsyncIterator[Witness]:
    """An agent on a cluster with Tonnage's objects, through everything that makes it call.

    The parameter is where it publishes labels, in the chart's words; or `mig`: it divides its GPUs.
    """
    divides = request.param == "mig"
    publish = "none" if divides else request.param
    clock = SystemClock()
    api = ApiServer(clock, store=new_store()).local()
    for kind, namespace, body in platform_objects({"default": "version: v1"}, Path("/none")):
        if kind is not DAEMON_SET:
            await api.create(kind, body, namespace=namespace)
    await api.create(CUSTOM_RESOURCE, node_feature_crd())
    labels: JsonObject = {MIG_CONFIG_LABEL: "all-balanced"} if divides else {}
    await api.create(NODE, {"metadata": {"name": NODE_NAME, "labels": labels}})
    folder = Path(tempfile.mkdtemp(prefix="tn-", dir="/tmp"))
    (folder / "hardware.yaml").write_text("devices:\n- {uuid: GPU-0, model: T4}\n")
    witness = Witness(api)
    options = AgentOptions(
        NODE_NAME,
        f"scenario:{folder / 'hardware.yaml'}",
        folder,
        labels=PUBLISH[publish],
        pod_name="agent" if publish == "nodefeature" else "",
        mig_config_map=f"{NAMESPACE}/{LAYOUTS}" if divides else "",
    )
    agent = asyncio.create_task(run_agent(options, api=witness, clock=clock))
    try:
        for text in ("a: 1", "version: v1") * 2:  # what is said again is counted on its Event
            before = await _told(api)
            patch: JsonObject = {"data": {"default": text}}
            await api.patch(CONFIG_MAP, CONFIG_MAP_NAME, patch, namespace=NAMESPACE)
            await _until(agent, lambda before=before: _grew(api, before))  # type: ignore[misc]
        await _until(agent, lambda: _published(api))
        await _until(agent, lambda: _conditioned(api))
        await _until(agent, lambda: _labelled(api, folder, "Tesla-T4", publish))
        (folder / "hardware.yaml").write_text("devices:\n- {uuid: GPU-1, model: L40S}\n")
        await _until(agent, lambda: _labelled(api, folder, "NVIDIA-L40S", publish))
        await _until(agent, lambda: _divided(api, divides))
        yield witness
    finally:
        agent.cancel()
        await asyncio.gather(agent, return_exceptions=True)
        shutil.rmtree(folder)


async def _conditioned(api: KubernetesApi) -> bool:
    node = await api.get(NODE, NODE_NAME)
    return {HEALTHY, CONFIGURED} <= {condition.type for condition in node.status.conditions}


async def _divided(api: KubernetesApi, divides: bool) -> bool:
    """Whether it is said how the layout stands, if it is to be."""
    labels = (await api.get(NODE, NODE_NAME)).metadata.labels
    return not divides or labels.get(MIG_STATE_LABEL) == "failed"


async def _labelled(api: KubernetesApi, folder: Path, product: str, publish: str) -> bool:
    """Whether the product is published there, if it is to be."""
    key = "nvidia.com/gpu.product"
    if publish == "direct":
        return (await api.get(NODE, NODE_NAME)).metadata.labels.get(key) == product
    if publish == "nodefeature":
        found = (await api.list(NODE_FEATURE, namespace=NAMESPACE)).items
        return [feature.spec["labels"][key] for feature in found] == [product]
    file = folder / "etc/kubernetes/node-feature-discovery/features.d/gfd"
    return publish == "none" or (file.exists() and f"{key}={product}\n" in file.read_text())


async def _told(api: KubernetesApi) -> int:
    return sum(event.count for event in (await api.list(EVENT)).items)


async def _grew(api: KubernetesApi, before: int) -> bool:
    return await _told(api) > before


async def _published(api: KubernetesApi) -> bool:
    return bool((await api.list(NODE_GPU_STATUS)).items)


async def _until(agent: asyncio.Task[None], holds: Callable[[], Awaitable[bool]]) -> None:
    """Return once `holds`; raises what ended the agent."""
    async with asyncio.timeout(PATIENCE_S):
        while not await holds():
            await asyncio.wait((agent,), timeout=0.02)
            if agent.done():
                agent.result()


@pytest.mark.parametrize(("witness", "publish"), [(p, p) for p in PUBLISH], indirect=["witness"])
async def test_what_is_granted_is_what_is_asked(helm4: Helm, witness: Witness, publish: str) -> None:
    rendered = helm4.rendered(f"features: {{publish: {publish}}}")
    rights = granted(rendered.without_hooks())
    asked = {
        right._replace(verb="update") if right.verb == "replace" else right for right, _ in witness.asked
    }
    assert needed(asked, rights) == rights
    told = [argument for argument in rendered.container["args"] if argument.startswith("--labels")]
    assert told == [f"--labels={PUBLISH[publish]}"] * (publish != "none")


@pytest.mark.parametrize("witness", ["mig"], indirect=True)
async def test_to_divide_gpus_what_is_granted_is_what_is_asked(helm4: Helm, witness: Witness) -> None:
    rendered = helm4.rendered("migManager: {enabled: true}")
    rights = granted(rendered.without_hooks())
    assert needed({right for right, _ in witness.asked}, rights) == rights
    extra = {(right.verb, right.resource, right.name) for right in rights - granted(helm4.rendered())}
    assert extra == {
        ("patch", "nodes", ""),
        ("list", "configmaps", LAYOUTS),
        ("watch", "configmaps", LAYOUTS),
    }
    assert f"--mig-config-map={NAMESPACE}/{LAYOUTS}" in rendered.container["args"]
    assert rendered.container["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["SYS_ADMIN"]}
    assert {"name": "NVIDIA_MIG_CONFIG_DEVICES", "value": "all"} in rendered.container["env"]


def test_evicting_pods_is_granted_where_it_is_asked_for_alone(helm4: Helm) -> None:
    without = helm4.rendered("migManager: {enabled: true}")
    rendered = helm4.rendered("migManager: {enabled: true, evictPods: true}")
    assert granted(rendered) - granted(without) == {Right("create", "", "pods/eviction")}
    assert ("--mig-evict" in rendered.container["args"], "--mig-evict" in without.container["args"]) == (
        *(True, False),
    )


async def test_the_agent_asks_for_its_own_node_alone(witness: Witness) -> None:
    selectors = {right.resource: selector for right, selector in witness.asked if selector}
    assert selectors == {
        "nodes": f"metadata.name={NODE_NAME}",
        "pods": f"spec.nodeName={NODE_NAME}",
        "configmaps": f"metadata.name={CONFIG_MAP_NAME}",
    }


def test_every_role_is_bound_to_the_agents_account_alone(helm4: Helm) -> None:
    rendered = helm4.rendered("readerRole: {create: false}")  # that one is for people, and bound to nobody
    account = rendered.one("ServiceAccount")["metadata"]
    bound = set()
    for binding in (*rendered.of("RoleBinding"), *rendered.of("ClusterRoleBinding")):
        assert binding["subjects"] == [
            {"kind": "ServiceAccount", "name": account["name"], "namespace": account["namespace"]}
        ]
        bound.add(
            (binding["roleRef"]["kind"], binding["metadata"].get("namespace"), binding["roleRef"]["name"])
        )
    roles = (*rendered.of("Role"), *rendered.of("ClusterRole"))
    assert bound == {
        (role["kind"], role["metadata"].get("namespace"), role["metadata"]["name"]) for role in roles
    }
    assert rendered.pod["serviceAccountName"] == account["name"]


def test_no_roles_and_no_account_when_they_are_somebody_elses(helm4: Helm) -> None:
    rendered = helm4.rendered("serviceAccount: {create: false, name: theirs}\nrbac: {create: false}")
    kinds = {found["kind"] for found in rendered}
    assert not {kind for kind in kinds if "Role" in kind or kind == "ServiceAccount"}
    assert rendered.pod["serviceAccountName"] == "theirs"


def test_the_page_on_installing_has_every_right(helm4: Helm) -> None:
    page = (CHART.parents[2] / "docs" / "how-to" / "install.md").read_text()
    page = page.partition("\n## What is granted")[2].partition("\nOn the node")[0]
    rows = re.findall(r"^\| `([a-z/]+)` \| ([a-z, ]+) \| ([^|]+) \|", page, re.MULTILINE)
    told = {(resource, verb, where) for resource, verbs, where in rows for verb in verbs.split(", ")}
    places = {"": "cluster", "default": "namespace `default`", NAMESPACE: "the release's namespace, one name"}
    assert told == {
        (right.resource, right.verb, places[right.namespace]) for right in granted(helm4.rendered())
    }


def test_what_a_mig_change_may_do_beside_is_asked_for_by_flags(helm4: Helm) -> None:
    every = "migManager: {enabled: true, evictPods: true, cordon: true, pauseOperands: true}"
    plain = helm4.rendered("migManager: {enabled: true, evictPods: true}")
    rendered = helm4.rendered(every)
    more = set(rendered.container["args"]) - set(plain.container["args"])
    assert more == {"--mig-cordon", "--mig-pause-operands"}
    assert granted(rendered) == granted(plain)


def test_programs_of_the_host_run_where_that_is_asked_for_alone(helm4: Helm) -> None:
    plain = helm4.rendered("migManager: {enabled: true}")
    rendered = helm4.rendered("migManager: {enabled: true, hostPrograms: true}")
    assert granted(rendered) == granted(plain)
    assert set(rendered.container["args"]) - set(plain.container["args"]) == {"--mig-host-root=/host"}
    capabilities = rendered.container["securityContext"]["capabilities"]
    assert capabilities == {"drop": ["ALL"], "add": ["SYS_ADMIN", "SYS_CHROOT"]}
    more = [volume for volume in rendered.pod["volumes"] if volume not in plain.pod["volumes"]]
    assert more == [{"name": "host", "hostPath": {"path": "/", "type": "Directory"}}]
    restarts = helm4.rendered("migManager: {enabled: true, hostPrograms: true, reboot: true}")
    assert set(restarts.container["args"]) - set(rendered.container["args"]) == {"--mig-reboot"}
    off = helm4.rendered("migManager: {hostPrograms: true}")
    assert not [volume for volume in off.pod["volumes"] if volume["name"] == "host"]


@pytest.mark.parametrize("values", ["cordon: true", "reboot: true, evictPods: true"])
def test_what_needs_another_right_is_refused_without(helm4: Helm, values: str) -> None:
    tried = helm4.attempt("template", "x", CHART, values=f"migManager: {{enabled: true, {values}}}")
    assert tried.returncode
    assert "migManager" in tried.stderr
