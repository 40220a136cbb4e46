"""startContainer: from a container in a pod's spec to one that runs: image, environment, devices.

Source: Kubernetes 1.36, pkg/kubelet/images and pkg/kubelet/kuberuntime; texts of 1.35.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from tonnage.loop.events import reference_to
from tonnage.model.errors import ClusterError
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.twin.kubelet.claims.manager import ClaimManager
from tonnage.twin.kubelet.containers.backoff import FIRST_S, Backoff, go_duration
from tonnage.twin.kubelet.containers.container_records import CONTAINER_CREATING, ContainerSlot
from tonnage.twin.kubelet.containers.environment import (
    ConfigurationError,
    arguments_of,
    environment_of,
    surroundings_of,
)
from tonnage.twin.kubelet.containers.images import full_image, parse_image, wrong_reference
from tonnage.twin.kubelet.containers.runtime_port import (
    ContainerRuntime,
    ContainerStart,
    ImageError,
    PluginInjection,
    RunningContainer,
    StartError,
)
from tonnage.twin.kubelet.containers.security import root_refusal
from tonnage.twin.kubelet.devices.cdi import ANNOTATION_PREFIX, resolve_cdi
from tonnage.twin.kubelet.devices.manager import DeviceManager
from tonnage.twin.kubelet.devices.plugins import PluginError
from tonnage.twin.kubelet.node_spec import NodePaths
from tonnage.twin.kubelet.status_writers import Outbox
from tonnage.twin.kubelet.volumes.account_tokens import account_token
from tonnage.twin.kubelet.volumes.contents import VolumeSources, tree_of
from tonnage.wire.objects import Pod

_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StarterNode:
    """The node as a starting container sees it."""

    host_ip: str
    paths: NodePaths
    nvidia_runtime: bool


class _UnfitImageError(Exception):
    """An image that is not even looked for: the reason why the container waits, the Event's, and its text."""

    def __init__(self, reason: str, event: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.event = event
        self.message = message


class ContainerStarter:
    """Starts containers of one node and remembers how often each had to wait."""

    def __init__(
        self,
        node: StarterNode,
        api: KubernetesApi,
        clock: Clock,
        runtime: ContainerRuntime,
        managers: tuple[DeviceManager, ClaimManager],
        events: Outbox,
    ) -> None:
        self._node = node
        self._api = api
        self._clock = clock
        self._runtime = runtime
        self._devices, self._claims = managers
        self._events = events
        self._backoffs: dict[tuple[str, str], Backoff] = {}
        self._objects = VolumeSources(api, clock)

    def backoff(self, pod_uid: str, container: str) -> Backoff:
        """The container's own waiting times."""
        return self._backoffs.setdefault((pod_uid, container), Backoff())

    def forget(self, pod_uid: str) -> None:
        """The pod is gone."""
        self._objects.forget(pod_uid)
        self._backoffs = {key: value for key, value in self._backoffs.items() if key[0] != pod_uid}

    async def start(
        self, pod: Pod, slot: ContainerSlot, pod_ip: str, publish: Callable[[], None]
    ) -> RunningContainer:
        """Return once the container runs; until then it waits with a reason, which `publish` shows."""
        slot.waiting = CONTAINER_CREATING if slot.last is None else slot.waiting
        pulls = Backoff()
        while True:
            try:
                await self._ensure_image(pod, slot)
                break
            except _UnfitImageError as error:
                self._tell(pod, slot, "Warning", error.event, error.message)
                self._tell(pod, slot, "Warning", "Failed", f"Error: {error.reason}")
                slot.waiting = (error.reason, error.message)
                publish()
                await self._clock.sleep(FIRST_S)
            except ImageError as error:
                await self._wait_for_image(pod, slot, pulls, str(error), publish)
        while True:
            try:
                config = await self._configure(pod, slot, pod_ip)
                self._tell(pod, slot, "Normal", "Created", "Container created")
                container = self._runtime.start(config)
            except (ConfigurationError, StartError, PluginError) as error:
                reason = (
                    "CreateContainerConfigError"
                    if isinstance(error, ConfigurationError)
                    else "CreateContainerError"
                )
                self._tell(pod, slot, "Warning", "Failed", f"Error: {error}")
                slot.waiting = (reason, str(error))
                publish()
            except ClusterError as error:
                _LOG.info("container not configured, will retry: pod=%s error=%s", pod.metadata.name, error)
            else:
                self._tell(pod, slot, "Normal", "Started", "Container started")
                return container
            await self._clock.sleep(FIRST_S)

    async def _ensure_image(self, pod: Pod, slot: ContainerSlot) -> None:
        image = slot.container.image
        policy = slot.container.image_pull_policy
        if not policy:
            policy = "Always" if parse_image(image).tag == "latest" else "IfNotPresent"
        if wrong := wrong_reference(image):
            message = (
                f'Failed to apply default image tag "{image}": couldn\'t parse image name "{image}": {wrong}'
            )
            raise _UnfitImageError("InvalidImageName", "InspectFailed", message)
        present = full_image(image) in self._runtime.images()
        if policy == "Never" and not present:
            message = f'Container image "{image}" is not present with pull policy of Never'
            raise _UnfitImageError("ErrImageNeverPull", "ErrImageNeverPull", message)
        if present and policy != "Always":
            text = f'Container image "{image}" already present on machine and can be accessed by the pod'
            self._tell(pod, slot, "Normal", "Pulled", text)
            return
        self._tell(pod, slot, "Normal", "Pulling", f'Pulling image "{image}"')
        before = self._clock.monotonic()
        size = await self._runtime.pull(image)
        took = f"{max(1, round((self._clock.monotonic() - before) * 1000))}ms"
        text = f'Successfully pulled image "{image}" in {took} ({took} including waiting).'
        text += f" Image size: {size} bytes."
        self._tell(pod, slot, "Normal", "Pulled", text)

    async def _wait_for_image(
        self, pod: Pod, slot: ContainerSlot, pulls: Backoff, error: str, publish: Callable[[], None]
    ) -> None:
        image = slot.container.image
        self._tell(pod, slot, "Warning", "Failed", f'Failed to pull image "{image}": {error}')
        self._tell(pod, slot, "Warning", "Failed", "Error: ErrImagePull")
        slot.waiting = ("ErrImagePull", error)
        publish()
        pulls.raise_at(self._clock.monotonic())
        # The kubelet comes back to the pod at its next sync and only then says that it waits.
        await self._clock.sleep(1.0)
        slot.waiting = ("ImagePullBackOff", f'Back-off pulling image "{image}": ErrImagePull: {error}')
        self._tell(pod, slot, "Normal", "BackOff", f'Back-off pulling image "{image}"')
        self._tell(pod, slot, "Warning", "Failed", "Error: ImagePullBackOff")
        publish()
        _LOG.info("image pull backs off: image=%s wait=%s", image, go_duration(pulls.delay_s))
        await self._clock.sleep(pulls.delay_s - 1.0)

    async def _configure(self, pod: Pod, slot: ContainerSlot, pod_ip: str) -> ContainerStart:
        container = slot.container
        if refusal := root_refusal(pod, container):
            raise ConfigurationError(refusal)
        env = await environment_of(
            pod,
            container,
            pod_ip=pod_ip,
            host_ip=self._node.host_ip,
            api=self._api,
        )
        injected = await self._injection(pod, container.name)
        variables = {**injected.env, **env}  # The pod's own win.
        return ContainerStart(
            pod,
            container,
            slot.restarts,
            arguments_of(container, variables),
            {**surroundings_of(pod), **variables, **injected.cdi_env},
            injected if self._node.nvidia_runtime else _without_toolkit(injected),
            partial(account_token, self._api, pod),
            tree_of(*(pod, container, variables, self._objects, self._runtime.volume), self._node.paths.root),
        )

    async def _injection(self, pod: Pod, container: str) -> PluginInjection:
        env: dict[str, str] = {}
        nodes: list[str] = []
        mounts: dict[str, str] = {}
        names: list[str] = []
        for answer in await self._devices.injected(pod.metadata.uid, container):
            env |= dict(answer.envs)
            nodes += [device.container_path for device in answer.devices]
            mounts |= {mount.container_path: mount.host_path for mount in answer.mounts}
            names += [device.name for device in answer.cdi_devices]
            for key, value in answer.annotations.items():
                names += value.split(",") if key.startswith(ANNOTATION_PREFIX) else []
        names += self._claims.cdi_devices(pod, container)
        names = list(dict.fromkeys(names))
        edits = resolve_cdi(self._node.paths.cdi_folders, names)
        if edits.missing:
            raise StartError(
                "failed to create containerd container: CDI device injection failed: "
                f"unresolvable CDI devices {', '.join(edits.missing)}"
            )
        mounts |= edits.mounts
        return PluginInjection(
            {**env, **edits.env},
            (*nodes, *edits.device_nodes),
            tuple(mounts),
            tuple(names),
            mounts,
            edits.env,
        )

    def _tell(self, pod: Pod, slot: ContainerSlot, event_type: str, reason: str, message: str) -> None:
        self._events.tell(reference_to(pod, slot.path), event_type, reason, message)


def _without_toolkit(injection: PluginInjection) -> PluginInjection:
    """Nobody reads NVIDIA_VISIBLE_DEVICES on this node: only device nodes that the plugin named get in."""
    return PluginInjection({}, injection.device_nodes)
