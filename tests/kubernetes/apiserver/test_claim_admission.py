"""What the chart puts before claims and slices, on a genuine API server: webhook, and policy of slices.

`KUBERNETES_VERSION` chooses the server; docs/how-to/run-on-genuine-kubernetes.md says which were tried.
"""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from support.claim_kubelet import eventually
from support.genuine import GenuinePlane, control_plane
from support.helm import NAMESPACE, Helm, Rendered
from support.leftovers import own_folder
from support.slice_policy import keeps_to_its_own_slices
from tonnage.adapters.clock import SystemClock
from tonnage.adapters.http.address import Address, listen
from tonnage.adapters.kubernetes.client import connect
from tonnage.cli.controller import controller_options_in_a_pod, judge_for
from tonnage.controller.main import ControllerHost, run_controller
from tonnage.documents.node.gpu_status import node_gpu_status_crd
from tonnage.model.catalog.nvidia_kinds import nvidia_definition

pytestmark = pytest.mark.kubernetes

NAME: Final = "tonnage-controller-webhook"
FLAGS: Final = (
    "--disable-admission-plugins=ServiceAccount",
    # Without it the server asks a Service's own address, where nobody is.
    "--enable-aggregator-routing=true",
    "--runtime-config=resource.k8s.io/v1beta1=true,resource.k8s.io/v1beta2=true",
)
VALUES: Final = (
    "nvidiaDriverRoot: /\nclaims: {enabled: true}\n"
    "controller: {enabled: true, webhook: {enabled: true, timeoutSeconds: 10}}"
)
KINDS: Final = frozenset(
    {
        *("ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"),
        *("Service", "Secret", "ValidatingWebhookConfiguration"),
    }
)


@pytest.fixture(scope="module")
def plane() -> Iterator[GenuinePlane]:
    with own_folder() as folder, control_plane(folder, *FLAGS) as plane:
        yield plane


@pytest.fixture
def rendered(tmp_path: Path) -> Rendered:
    return Helm(4, tmp_path).rendered(VALUES)


def own_address() -> str:
    """One of this machine that is not loopback, which Endpoints do not take."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sounding:
        sounding.connect(("192.0.2.1", 9))
        return str(sounding.getsockname()[0])


def done(plane: GenuinePlane, *words: str, given: Any = None) -> str:
    run = plane.ask(*words, given="" if given is None else json.dumps(given))
    assert run.returncode == 0, f"{words}: {run.stderr}"
    return run.stdout


def listed(*objects: Any) -> Any:
    return {"apiVersion": "v1", "kind": "List", "items": list(objects)}


def install(plane: GenuinePlane, rendered: Rendered, port: int) -> None:
    """The chart's objects, the definitions that the controller follows, and where its Service leads."""
    spaces = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        for name in (NAMESPACE, "default", "kube-system")
    ]
    done(plane, "apply", "-f", "-", given=listed(*spaces))
    definitions = [node_gpu_status_crd(), *map(nvidia_definition, ("clusterpolicies", "gpuclusters"))]
    done(plane, "apply", "--server-side", "-f", "-", given=listed(*definitions))
    objects = [found for found in rendered.without_hooks() if found["kind"] in KINDS]
    done(plane, "apply", "-f", "-", given=listed(*objects))
    slice_of: Any = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": NAME,
            "namespace": NAMESPACE,
            "labels": {"kubernetes.io/service-name": NAME},
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": [own_address()], "conditions": {"ready": True}}],
        "ports": [{"name": "webhook", "port": port, "protocol": "TCP"}],
    }
    subsets = [{"addresses": [{"ip": own_address()}], "ports": [{"name": "webhook", "port": port}]}]
    endpoints = {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "subsets": subsets,
    }
    done(plane, "apply", "-f", "-", given=listed(slice_of, endpoints))


@pytest.fixture
async def controller(plane: GenuinePlane, rendered: Rendered, tmp_path: Path) -> AsyncIterator[None]:
    """The controller with the rights of its account, and its webhook."""
    listening = listen(Address(own_address(), 0))
    await asyncio.to_thread(install, plane, rendered, listening.getsockname()[1])
    [deployment] = [d for d in rendered.of("Deployment") if d["metadata"]["name"] == "tonnage-controller"]
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    options = controller_options_in_a_pod(container["args"], {"POD_NAME": "a", "NAMESPACE": NAMESPACE})
    assert options.webhook is not None
    options = replace(options, metrics_address="", webhook=replace(options.webhook, address=""))
    token = done(plane, "create", "token", "tonnage-controller", "-n", NAMESPACE).strip()
    kubeconfig = tmp_path / "controller"
    kubeconfig.write_text(plane.kubeconfig.read_text().replace(plane.token, token))
    async with connect(kubeconfig, program="tonnage-controller") as api:
        host = ControllerHost(judge=judge_for(options), webhook_at=listening)
        running = asyncio.create_task(run_controller(options, api=api, clock=SystemClock(), host=host))
        yield
        assert not running.done(), running
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def template(name: str, namespace: str = "default", version: str = "v1", **more: Any) -> Any:
    parameters = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig", **more}
    request: Any = {"deviceClassName": "gpu.nvidia.com"}
    request = {"name": "gpu", **request} if version == "v1beta1" else {"name": "gpu", "exactly": request}
    devices = {
        "requests": [request],
        "config": [{"opaque": {"driver": "gpu.nvidia.com", "parameters": parameters}}],
    }
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"spec": {"devices": devices}},
    }


def device_class(name: str, **more: Any) -> Any:
    config = template("x", **more)["spec"]["spec"]["devices"]["config"]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"config": config},
    }


@pytest.mark.usefixtures("controller")
async def test_kubectl_is_told_lints_words_in_every_version(plane: GenuinePlane) -> None:
    async def create(obj: Any, *words: str) -> subprocess.CompletedProcess[str]:
        verb = words or ("create",)
        return await asyncio.to_thread(plane.ask, *verb, "-f", "-", given=json.dumps(obj))

    async def answers() -> bool:
        tried = await create(template("probe", share=1), "create", "--dry-run=server")
        return 'unknown field "share"' in tried.stderr

    await eventually(answers)
    for version in ("v1", "v1beta2", "v1beta1"):
        refused = await create(template(f"wrong-{version}", version=version, share=1))
        assert refused.stderr.endswith(  # a server warns of old versions first
            f'The ResourceClaimTemplate "wrong-{version}" is invalid: '
            "spec.spec.devices.config[0].opaque.parameters: the driver gpu.nvidia.com refuses this"
            ' configuration: unknown field "share": use sharing if you meant that [claim-config-invalid];'
            " correct it, or remove it\n"
        )
    for right in (
        template("right"),
        device_class("right"),
        template("elsewhere", namespace="kube-system", share=1),
    ):
        assert (await create(right)).returncode == 0
    changed = await create(device_class("right", share=1), "replace")
    assert 'unknown field "share"' in changed.stderr
    labelled = await asyncio.to_thread(plane.ask, "label", "deviceclass", "right", "team=a")
    assert labelled.returncode == 0, labelled.stderr
    deep: Any = 1
    for _ in range(400):
        deep = {"a": deep}
    refused = await create(template("deep", share=deep))
    assert "nested deeper than 200 levels" in refused.stderr


def test_an_agent_keeps_to_the_slices_of_its_own_node(plane: GenuinePlane, rendered: Rendered) -> None:
    keeps_to_its_own_slices(plane.ask, rendered)
