"""WaitForAttachAndMount: what keeps a pod's volumes from being mounted, and image secrets from being read.

Source: Kubernetes 1.35, pkg/volume/{configmap,secret,projected} (MakePayload), pkg/kubelet/volumemanager.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any, Final

from tonnage.model.errors import ApiError, ClusterError
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.reading.cluster import pod_from
from tonnage.twin.kubelet.live_pod import LivePod
from tonnage.wire import kinds
from tonnage.wire.objects import Pod

_FIRST_S: Final = 0.5
_LONGEST_S: Final = 122.0
_CLAIMS_S: Final = 5.0
_PATIENCE_S: Final = 123.0
"""After so long the kubelet says that it gives the pod up for now."""


async def mounted(live: LivePod) -> None:
    """Return once there is everything that the pod's volumes are made of."""
    clock = live.node.clock
    while unfit := await _unfit_claims(live.node.api, live.pod):
        names = " ".join(sorted(unfit))
        message = f"unmounted volumes=[{names}], unattached volumes=[], failed to process volumes=[{names}]"
        why = next(iter(unfit.values())) if len(unfit) == 1 else f"[{', '.join(unfit.values())}]"
        live.tell("Warning", "FailedMount", f"Unable to attach or mount volumes: {message}: {why}")
        await clock.sleep(_CLAIMS_S)
    pause_s, patience_ends = _FIRST_S, clock.monotonic() + _PATIENCE_S
    while lacking := await _lacking(live.node.api, live.pod):
        for name, why in lacking.items():
            live.tell("Warning", "FailedMount", f'MountVolume.SetUp failed for volume "{name}" : {why}')
        await clock.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_S)
        if clock.monotonic() > patience_ends:
            patience_ends = clock.monotonic() + _PATIENCE_S
            names = " ".join(sorted(lacking))
            message = f"unmounted volumes=[{names}], unattached volumes=[], failed to process volumes=[]"
            text = f"Unable to attach or mount volumes: {message}: context deadline exceeded"
            live.tell("Warning", "FailedMount", text)
    await _tell_of_secrets(live)


async def _tell_of_secrets(live: LivePod) -> None:
    """Say which secrets for images are not there; the images are pulled all the same."""
    missing = []
    for entry in live.pod.spec.image_pull_secrets:
        try:
            await live.node.api.get(kinds.SECRET, str(entry.get("name")), live.pod.metadata.namespace)
        except ClusterError:
            missing.append(str(entry.get("name")))
    if missing:
        text = f"Unable to retrieve some image pull secrets ({', '.join(missing)}); "
        text += "attempting to pull the image may not succeed."
        live.tell("Warning", "FailedToRetrieveImagePullSecret", text)


async def _unfit_claims(api: KubernetesApi, pod: Pod) -> dict[str, str]:
    """By volume: why its claim cannot be mounted, in the kubelet's words."""
    causes: dict[str, str] = {}
    for volume in pod_from(pod).volumes:
        where = f"{pod.metadata.namespace}/{volume.claim}"
        try:
            claim = await api.get(kinds.VOLUME_CLAIM, volume.claim, pod.metadata.namespace)
        except ApiError as error:
            why = f"failed to fetch PVC from API server: {error.message}"
        except ClusterError:
            continue
        else:
            ends = claim.metadata.deletion_timestamp is not None
            bound = claim.status.get("phase") == "Bound"
            why = "PVC is being deleted" if ends else "" if bound else "PVC is not bound"
        if why:
            causes[volume.name] = f"error processing PVC {where}: {why}"
    return causes


async def _lacking(api: KubernetesApi, pod: Pod) -> dict[str, str]:
    """By volume: what it lacks, in the kubelet's words."""
    causes: dict[str, str] = {}
    for volume in pod.spec.volumes:
        match volume:
            case {"projected": {"sources": list(sources)}}:
                source_causes = [why for source in sources if (why := await _why(api, pod, source))]
                source_causes = list(dict.fromkeys(source_causes))
                if source_causes:
                    causes[str(volume["name"])] = (
                        source_causes[0] if len(source_causes) == 1 else f"[{', '.join(source_causes)}]"
                    )
            case _ if why := await _why(api, pod, volume):
                causes[str(volume["name"])] = why
    return causes


async def _why(api: KubernetesApi, pod: Pod, source: Mapping[str, Any]) -> str:
    """What one source of files lacks; empty where it has everything, or where nobody can tell."""
    keys: Container[str]
    match source:
        case {"configMap": dict(fields)}:
            word, name = "configmap", str(fields.get("name"))
            absent = "configmap references non-existent config key"
        case {"secret": dict(fields)}:
            word, name = "secret", str(fields.get("secretName") or fields.get("name"))
            absent = "references non-existent secret key"
        case _:
            return ""
    if fields.get("optional"):
        return ""
    try:
        if word == "secret":
            keys = (await api.get(kinds.SECRET, name, pod.metadata.namespace)).data
        else:
            config = await api.get(kinds.CONFIG_MAP, name, pod.metadata.namespace)
            keys = {*config.data, *config.binary_data}
    except ApiError as error:
        return f'{word} "{name}" not found' if error.code == 404 else ""
    except ClusterError:
        return ""
    needed = [str(entry.get("key")) for entry in fields.get("items") or ()]
    return next((f"{absent}: {key}" for key in needed if key not in keys), "")
