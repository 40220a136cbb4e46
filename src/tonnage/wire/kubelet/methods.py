"""The methods of kubelet's protocols as a table: one row feeds a generic server handler or a client stub."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from google.protobuf.message import Message

from tonnage.wire.kubelet import deviceplugin_v1beta1_pb2 as plugin
from tonnage.wire.kubelet import podresources_v1_pb2 as resources

RequestT = TypeVar("RequestT", bound=Message)
ResponseT = TypeVar("ResponseT", bound=Message)


@dataclass(frozen=True, slots=True)
class Method(Generic[RequestT, ResponseT]):
    """One call: `path` as it travels, its message types, and whether the answer is a stream."""

    path: str
    request: type[RequestT]
    response: type[ResponseT]
    streaming: bool = False


PLUGIN_VERSION: Final = "v1beta1"
HEALTHY: Final = "Healthy"
UNHEALTHY: Final = "Unhealthy"

REGISTER = Method("/v1beta1.Registration/Register", plugin.RegisterRequest, plugin.Empty)
GET_OPTIONS = Method("/v1beta1.DevicePlugin/GetDevicePluginOptions", plugin.Empty, plugin.DevicePluginOptions)
LIST_AND_WATCH = Method(
    "/v1beta1.DevicePlugin/ListAndWatch", plugin.Empty, plugin.ListAndWatchResponse, streaming=True
)
GET_PREFERRED = Method(
    "/v1beta1.DevicePlugin/GetPreferredAllocation",
    plugin.PreferredAllocationRequest,
    plugin.PreferredAllocationResponse,
)
ALLOCATE = Method("/v1beta1.DevicePlugin/Allocate", plugin.AllocateRequest, plugin.AllocateResponse)
PRE_START = Method(
    "/v1beta1.DevicePlugin/PreStartContainer",
    plugin.PreStartContainerRequest,
    plugin.PreStartContainerResponse,
)

POD_RESOURCES_LIST = Method(
    "/v1.PodResourcesLister/List", resources.ListPodResourcesRequest, resources.ListPodResourcesResponse
)
POD_RESOURCES_GET = Method(
    "/v1.PodResourcesLister/Get", resources.GetPodResourcesRequest, resources.GetPodResourcesResponse
)
POD_RESOURCES_ALLOCATABLE = Method(
    "/v1.PodResourcesLister/GetAllocatableResources",
    resources.AllocatableResourcesRequest,
    resources.AllocatableResourcesResponse,
)
