"""The CDI spec of a claim: of its devices alone, under names that no other claim has had."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tonnage.decide.node.cdi.rules import minimum_version
from tonnage.decide.node.cdi.spec import gpu_spec, options_of
from tonnage.decide.node.mps.daemons import client_edits
from tonnage.model.devices.cdi import CdiSpec, DriverFiles, NameStrategy
from tonnage.model.devices.claims import CDI_CLAIM_KIND, PreparedClaim, PreparedDevice
from tonnage.model.devices.inventory import Inventory
from tonnage.model.devices.sharing import PluginConfig
from tonnage.model.json import JsonObject
from tonnage.model.json_access import items, mapping, mappings, texts
from tonnage.model.names import cdi_device

_SHARED: Final = ("rw", "nosuid", "nodev", "rbind")


def claim_spec(
    claim: PreparedClaim, inventory: Inventory, files: DriverFiles, config: PluginConfig
) -> CdiSpec:
    """The spec of a claim's devices; what cannot be found of one is in `left_out`."""
    options = replace(
        options_of(config),
        kind=CDI_CLAIM_KIND,
        only=frozenset(device.uuid for device in claim.devices),
        names=frozenset({NameStrategy.UUID}),
        together=False,
    )
    spec = gpu_spec(inventory, files, options)
    if spec.document is None:
        return spec
    by_uuid = {str(entry["name"]): entry for entry in mappings(spec.document, "devices")}
    entries: dict[str, JsonObject] = {  # by name: two requests may have the same device
        (name := device_name(claim, device)): _shared({**by_uuid[device.uuid], "name": name}, claim, device)
        for device in claim.devices
        if device.uuid in by_uuid
    }
    document: JsonObject = {**spec.document, "devices": [*entries.values()]}
    document["cdiVersion"] = minimum_version(document)  # names that begin with a digit need a later one
    return CdiSpec(spec.kind, document, frozenset(entries), spec.left_out)


def _shared(entry: JsonObject, claim: PreparedClaim, device: PreparedDevice) -> JsonObject:
    """The same for clients of the claim's MPS control daemon, where the device has one."""
    for daemon in claim.daemons:
        if all(other.uuid != device.uuid for other in daemon.devices):
            continue
        edits = mapping(entry, "containerEdits")
        variables, mounts = client_edits(daemon.resource, daemon.root)
        env = [*texts(edits, "env"), *(f"{name}={value}" for name, value in variables.items())]
        paths = [(mount.host_path, mount.container_path) for mount in mounts]
        added: list[JsonObject] = [
            {"hostPath": host, "containerPath": inside, "options": [*_SHARED]} for host, inside in paths
        ]
        edits = {**edits, "env": [*env], "mounts": [*items(edits, "mounts"), *added]}
        return {**entry, "containerEdits": edits}
    return entry


def device_name(claim: PreparedClaim, device: PreparedDevice) -> str:
    """The device's name in the claim's spec. Runtimes remember names, so no two claims have the same.

    Source: kubernetes-sigs/dra-driver-nvidia-gpu, cmd/gpu-kubelet-plugin/cdi.go.
    """
    name = f"{claim.claim.uid}-{device.device}"
    return f"{name}-{device.share}" if device.share else name


def cdi_name(claim: PreparedClaim, device: PreparedDevice) -> str:
    """The device's qualified name, which kubelet hands to the container runtime."""
    return cdi_device(device_name(claim, device), CDI_CLAIM_KIND)


def claim_file(uid: str) -> str:
    """The name of a claim's spec file.

    >>> claim_file("4ac1")
    'k8s.gpu.nvidia.com-claim_4ac1.json'
    """
    return f"{CDI_CLAIM_KIND.replace('/', '-')}_{uid}.json"
