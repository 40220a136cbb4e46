"""The methods of kubelet's protocols for ResourceClaims (DRA), and how it comes to know who serves them.

They stand apart from those of the device plugin, so that a process without claims does not load them.
"""

from __future__ import annotations

from typing import Final

from tonnage.wire.kubelet import dra_v1_pb2 as dra
from tonnage.wire.kubelet import drahealth_v1_pb2 as health
from tonnage.wire.kubelet import pluginregistration_pb2 as registration
from tonnage.wire.kubelet.methods import Method

PLUGIN_TYPE: Final = "DRAPlugin"
"""What a registration socket says that it is."""
V1: Final = "v1.DRAPlugin"
V1BETA1: Final = "v1beta1.DRAPlugin"
"""Versions as a registration lists them, which are not the names of the services."""
SERVICES: Final = {
    V1: "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin",
    V1BETA1: "k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin",
}
HEALTH_SERVICES: Final = {
    "v1.DRAResourceHealth": "v1.DRAResourceHealth",
    "v1alpha1.DRAResourceHealth": "v1alpha1.DRAResourceHealth",
}

REGISTRATION: Final = "pluginregistration.Registration"
GET_INFO = Method(f"/{REGISTRATION}/GetInfo", registration.InfoRequest, registration.PluginInfo)
NOTIFY = Method(
    f"/{REGISTRATION}/NotifyRegistrationStatus",
    registration.RegistrationStatus,
    registration.RegistrationStatusResponse,
)


def prepare_method(
    version: str = V1,
) -> Method[dra.NodePrepareResourcesRequest, dra.NodePrepareResourcesResponse]:
    """NodePrepareResources of a version."""
    path = f"/{SERVICES[version]}/NodePrepareResources"
    return Method(path, dra.NodePrepareResourcesRequest, dra.NodePrepareResourcesResponse)


def unprepare_method(
    version: str = V1,
) -> Method[dra.NodeUnprepareResourcesRequest, dra.NodeUnprepareResourcesResponse]:
    """NodeUnprepareResources of a version."""
    path = f"/{SERVICES[version]}/NodeUnprepareResources"
    return Method(path, dra.NodeUnprepareResourcesRequest, dra.NodeUnprepareResourcesResponse)


def health_method(
    version: str,
) -> Method[health.NodeWatchResourcesRequest, health.NodeWatchResourcesResponse]:
    """NodeWatchResources of a version."""
    path = f"/{HEALTH_SERVICES[version]}/NodeWatchResources"
    return Method(path, health.NodeWatchResourcesRequest, health.NodeWatchResourcesResponse, streaming=True)
