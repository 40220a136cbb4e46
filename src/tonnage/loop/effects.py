"""What each Action does to the world, by the port that it is for. Only the performer calls it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeVar, assert_never

from tonnage.model.actions.action import Action
from tonnage.model.actions.cdi import CdiAction, RemoveSpec, WriteSpec
from tonnage.model.actions.checkpoints import AddRow, CheckpointAction, SaveCheckpoint
from tonnage.model.actions.cluster import (
    ApplyConfigMap,
    ApplyObject,
    ApplyValidation,
    ClusterAction,
    ControllerAction,
    CountEvent,
    CreateEvent,
    CreateNodeFeature,
    CreateNodeGpuStatus,
    CreateSlice,
    DeleteObject,
    DeleteSlice,
    EvictPod,
    PatchDriverStatus,
    PatchGpuClusterStatus,
    PatchNode,
    PatchNodeGpuStatus,
    PatchNodeStatus,
    PatchPolicyStatus,
    ReplaceNodeFeature,
    ReplaceSlice,
    SliceAction,
)
from tonnage.model.actions.devices import DeviceAction
from tonnage.model.actions.host import HostAction, RestartNode, RunHook, StartService, StopService
from tonnage.model.actions.labels import WriteLabels
from tonnage.model.actions.mps import MarkReady, MpsAction, StartDaemon, StopDaemon
from tonnage.model.actions.status_files import ShowStatusFiles
from tonnage.model.errors import Bug, Problem
from tonnage.model.json import JsonObject
from tonnage.model.names import COPIED_FROM
from tonnage.ports.kubernetes import KubernetesApi, PatchType
from tonnage.ports.node import (
    CdiFiles,
    Checkpoints,
    DeviceBackend,
    HostPrograms,
    LabelLines,
    MpsDaemons,
    StatusFiles,
)
from tonnage.wire.kinds import (
    CLUSTER_POLICY,
    CONFIG_MAP,
    CUSTOM_RESOURCE,
    DAEMON_SET,
    EVENT,
    GPU_CLUSTER,
    NODE,
    NODE_FEATURE,
    NODE_GPU_STATUS,
    NVIDIA_DRIVER,
    POD,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_SLICE,
    RUNTIME_CLASS,
    SECRET,
    SERVICE,
    VALIDATING_WEBHOOKS,
    Kind,
)
from tonnage.wire.objects import Object

_T = TypeVar("_T")
_APPLIED: Final[Mapping[str, Kind[Object]]] = {
    kind.kind: kind
    for kind in (
        *(DAEMON_SET, POD, RESOURCE_CLAIM_TEMPLATE, RUNTIME_CLASS, SERVICE, CUSTOM_RESOURCE),
        *(SECRET, VALIDATING_WEBHOOKS),
    )
}
"""Kinds of which the controller keeps whole objects, or fields of its own."""
_HOOK_S: Final = 300.0
_UNIT_S: Final = 90.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionPorts:
    """What actions are performed on; None: there is no such thing here, and no action for it is decided."""

    checkpoints: Checkpoints | None = None
    devices: DeviceBackend | None = None
    daemons: MpsDaemons | None = None
    specs: CdiFiles | None = None
    api: KubernetesApi | None = None
    host: HostPrograms | None = None
    labels: LabelLines | None = None
    status_files: StatusFiles | None = None


async def have_effect(ports: ActionPorts, action: Action) -> bool:
    """Have it done; False: nothing is, since there is nothing that a row could be added to.

    Raises:
        HardwareError, ConfigError, ClusterError: it is not done, or nobody knows.
    """
    if isinstance(action, CheckpointAction):
        return await _on_disk(_there(ports.checkpoints, action), action)
    if isinstance(action, ClusterAction):
        await _in_cluster(_there(ports.api, action), action)
    elif isinstance(action, ControllerAction):
        await _on_objects(_there(ports.api, action), action)
    elif isinstance(action, SliceAction):
        await _on_slices(_there(ports.api, action), action)
    elif isinstance(action, DeviceAction):
        await _there(ports.devices, action).apply(action)
    elif isinstance(action, MpsAction):
        await _on_daemons(_there(ports.daemons, action), action)
    elif isinstance(action, CdiAction):
        await _on_specs(_there(ports.specs, action), action)
    elif isinstance(action, HostAction):
        await _on_host(_there(ports.host, action), action)
    elif isinstance(action, WriteLabels):
        await _there(ports.labels, action).write(action.file, dict(action.labels))
    elif isinstance(action, ShowStatusFiles):
        await _there(ports.status_files, action).show(dict(action.files), action.absent)
    else:
        assert_never(action)
    return True


def _there(port: _T | None, action: Action) -> _T:
    if port is None:
        raise Bug(Problem(f"{action!r} has nothing here to be performed on"))
    return port


async def _on_disk(checkpoints: Checkpoints, action: CheckpointAction) -> bool:
    match action:
        case AddRow(name, row):
            return await checkpoints.add(name, row)
        case SaveCheckpoint(name, payload, lasting):
            await checkpoints.save(name, payload, lasting=lasting)
            return True
    assert_never(action)


async def _on_daemons(daemons: MpsDaemons, action: MpsAction) -> None:
    match action:
        case StartDaemon(daemon):
            await daemons.start(daemon)
        case StopDaemon(daemon, over):
            await daemons.stop(daemon, over=over)
        case MarkReady(root, ready):
            await daemons.show_ready(root, ready=ready)
        case _:
            assert_never(action)


async def _on_specs(specs: CdiFiles, action: CdiAction) -> None:
    match action:
        case WriteSpec(file, content):
            await specs.write(file, content)
        case RemoveSpec(file):
            await specs.remove(file)
        case _:
            assert_never(action)


async def _on_host(host: HostPrograms, action: HostAction) -> None:
    match action:
        case RunHook(_, _, hook, variables):
            environment = {**hook.envs, **dict(variables)}
            await host.run(
                hook.command, hook.args, variables=environment, folder=hook.workdir, timeout_s=_HOOK_S
            )
        case StopService(unit):
            await host.run("systemctl", ("stop", "--", unit), timeout_s=_UNIT_S)
        case StartService(unit):
            await host.run("systemctl", ("start", "--", unit), timeout_s=_UNIT_S)
        case RestartNode():
            await host.run("systemctl", ("reboot",), timeout_s=_UNIT_S)
        case _:
            assert_never(action)


async def _in_cluster(api: KubernetesApi, action: ClusterAction) -> None:
    match action:
        case PatchNode(node, patch):
            await api.patch(NODE, node, patch)
        case PatchNodeStatus(node, patch):
            await api.patch(NODE, node, patch, patch_type=PatchType.STRATEGIC, subresource="status")
        case EvictPod(namespace, name):
            await api.create_subresource(POD, name, "eviction", _eviction(action), namespace=namespace)
        case CreateNodeFeature(namespace, feature):
            await api.create(NODE_FEATURE, feature, namespace=namespace)
        case ReplaceNodeFeature(namespace, feature):
            await api.replace(NODE_FEATURE, feature, namespace=namespace)
        case CreateNodeGpuStatus(node):
            kind = NODE_GPU_STATUS
            metadata: JsonObject = {"name": node}
            await api.create(kind, {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata})
        case PatchNodeGpuStatus(node, patch):
            await api.patch(NODE_GPU_STATUS, node, patch, subresource="status")
        case CreateEvent(namespace, event):
            await api.create(EVENT, event, namespace=namespace)
        case CountEvent(namespace, name, patch):
            await api.patch(EVENT, name, patch, namespace=namespace)
        case _:
            assert_never(action)


async def _on_objects(api: KubernetesApi, action: ControllerAction) -> None:
    match action:
        case PatchPolicyStatus(name, patch):
            await api.patch(CLUSTER_POLICY, name, patch, subresource="status")
        case PatchGpuClusterStatus(name, patch):
            await api.patch(GPU_CLUSTER, name, patch, subresource="status")
        case PatchDriverStatus(name, patch):
            await api.patch(NVIDIA_DRIVER, name, patch, subresource="status")
        case ApplyConfigMap(namespace, name):
            await api.patch(
                CONFIG_MAP, name, _config_map(action), namespace=namespace, patch_type=PatchType.APPLY
            )
        case ApplyObject(body, kind_name, name, namespace):
            await api.patch(
                *(_APPLIED[kind_name], name, body),
                namespace=namespace or None,
                patch_type=PatchType.APPLY,
            )
        case ApplyValidation(node, validation):
            body = _validated(node, validation)
            await api.patch(*(NODE_GPU_STATUS, node, body), patch_type=PatchType.APPLY, subresource="status")
        case DeleteObject(kind_name, name, uid, namespace):
            await api.delete(_APPLIED[kind_name], name, namespace=namespace or None, uid=uid)
        case _:
            assert_never(action)


def _validated(node: str, validation: JsonObject) -> JsonObject:
    kind = NODE_GPU_STATUS
    status: JsonObject = {"validation": validation} if validation else {}
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": node},
        "status": status,
    }


def _config_map(action: ApplyConfigMap) -> JsonObject:
    metadata: JsonObject = {"name": action.name, "namespace": action.namespace}
    if action.source:
        metadata["annotations"] = {COPIED_FROM: action.source}
    contents: JsonObject = dict(action.contents)
    return {
        "apiVersion": CONFIG_MAP.api_version,
        "kind": CONFIG_MAP.kind,
        "metadata": metadata,
        "data": contents,
    }


async def _on_slices(api: KubernetesApi, action: SliceAction) -> None:
    match action:
        case CreateSlice(body):
            await api.create(RESOURCE_SLICE, body)
        case ReplaceSlice(body):
            await api.replace(RESOURCE_SLICE, body)
        case DeleteSlice(name, uid):
            await api.delete(RESOURCE_SLICE, name, uid=uid)
        case _:
            assert_never(action)


def _eviction(pod: EvictPod) -> JsonObject:
    meta: JsonObject = {"name": pod.name, "namespace": pod.namespace}
    options: JsonObject = {"preconditions": {"uid": pod.uid}}
    if pod.dry_run:
        options["dryRun"] = ["All"]
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta, "deleteOptions": options}
