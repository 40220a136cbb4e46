"""What belongs to a code: its layer, how bad it is, one line on it, and where the rule comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from tonnage.diagnose.lint.finding import LintCode
from tonnage.model.layer import Layer
from tonnage.model.severity import Severity

_ANY: Final = "API server, validation"
_API: Final = "API server, pod validation"
_DECODING: Final = "API server, strict decoding"
_ADMISSION: Final = "API server, admission"
_DRA: Final = "API server, resource.k8s.io"
_QUOTA: Final = "Kubernetes ResourceQuota, pod evaluator"
_PLUGIN: Final = "NVIDIA/k8s-device-plugin, api/config/v1"
_MIG: Final = "NVIDIA/mig-parted, api/spec/v1"
_OPERATOR: Final = "NVIDIA/gpu-operator, nvidia.com/v1"
_TOOLKIT: Final = "NVIDIA/nvidia-container-toolkit, NRI plugin"
_SCHEDULER: Final = "kube-scheduler"


@dataclass(frozen=True, slots=True)
class CodeFacts:
    """What every finding of a code shares."""

    layer: Layer
    severity: Severity
    summary: str
    source: str


def _error(layer: Layer, summary: str, source: str) -> CodeFacts:
    return CodeFacts(layer, Severity.ERROR, summary, source)


def _warning(layer: Layer, summary: str, source: str) -> CodeFacts:
    return CodeFacts(layer, Severity.WARNING, summary, source)


def _note(layer: Layer, summary: str, source: str) -> CodeFacts:
    return CodeFacts(layer, Severity.NOTE, summary, source)


_ADM, _QTA, _SCH, _PLG, _RUN = (
    Layer.ADMISSION,
    Layer.QUOTA,
    Layer.SCHEDULER,
    Layer.PLUGIN,
    Layer.RUNTIME,
)

FACTS: Final[Mapping[LintCode, CodeFacts]] = MappingProxyType({
    LintCode.API_WARNING: _warning(_ADM, "What the API server warns about.", _ANY),
    LintCode.CLAIM_INVALID: _error(_ADM, "A resource claim that the API server refuses.", _DRA),
    LintCode.CLAIM_UNKNOWN: _error(_ADM, "A container names a claim that its pod does not have.", _DRA),
    LintCode.CLASS_MISSING: _error(_SCH, "A DeviceClass that does not exist.", _DRA),
    LintCode.COMPARISON: _error(_SCH, "Gt or Lt with what is no whole number.", _SCHEDULER),
    LintCode.CONFIG_MAP: _warning(_RUN, "A ConfigMap that does not exist.", "kubelet"),
    LintCode.DEVICE_ANNOTATION: _warning(_ADM, "An annotation that gets devices nobody counts.", _TOOLKIT),
    LintCode.FIELD_UNKNOWN: _error(_ADM, "A field that the kind does not have.", _DECODING),
    LintCode.FIELD_INVALID: _error(_ADM, "A field of a pod that the API server refuses.", _API),
    LintCode.FITS_NOWHERE: _error(_SCH, "No node would ever take the pod.", _SCHEDULER),
    LintCode.GPU_CONFIG: _error(_PLG, "A device-plugin configuration that is refused.", _PLUGIN),
    LintCode.LIMIT_MISSING: _error(_ADM, "A device under requests alone.", _API),
    LintCode.LIMIT_RANGE: _error(_ADM, "A LimitRange that the API server refuses.", "API server, LimitRange"),
    LintCode.LIMIT_RANGE_GIVES: _warning(
        _ADM, "A LimitRange that gives devices to every container.", "API server, LimitRange"
    ),
    LintCode.MIG_CONFIG: _error(_PLG, "A MIG configuration that mig-parted refuses.", _MIG),
    LintCode.MIG_LAYOUT: _error(_PLG, "More MIG devices than a GPU has room for.", _MIG),
    LintCode.MIG_PROFILE: _warning(_PLG, "A MIG profile that no known GPU has.", _MIG),
    LintCode.NODE_AFFINITY: _error(_ADM, "Node affinity that the API server refuses.", _API),
    LintCode.NEGATIVE: _error(_ADM, "An amount below zero.", _API),
    LintCode.NOT_ADVERTISED: _error(_PLG, "A resource that no node offers.", _SCHEDULER),
    LintCode.NOT_AN_INTEGER: _error(_ADM, "A part of a device.", _API),
    LintCode.NOT_WRAPPED: _error(_ADM, "A claim's request without exactly.", _DRA),
    LintCode.OBJECT_REFUSED: _error(_ADM, "A field of any kind that the API server refuses.", _ANY),
    LintCode.OBJECT_UNREADABLE: _error(_ADM, "An object that the API server cannot decode.", _DECODING),
    LintCode.PLACEMENT_INVALID: _error(_ADM, "Spreading or affinity that the API server refuses.", _API),
    LintCode.POD_LEVEL: _error(_ADM, "A device under the resources of the whole pod.", _API),
    LintCode.POLICY_DEPRECATED: _note(_PLG, "A ClusterPolicy field without effect.", _OPERATOR),
    LintCode.POLICY_INCOMPLETE: _note(_PLG, "A ClusterPolicy without a required section.", _OPERATOR),
    LintCode.POLICY_KEY: _warning(_PLG, "A field that ClusterPolicy does not have.", _OPERATOR),
    LintCode.POLICY_VALUE: _error(_PLG, "A value that ClusterPolicy does not take.", _OPERATOR),
    LintCode.PRIORITY_CLASS: _error(_ADM, "A PriorityClass that does not exist.", _ADMISSION),
    LintCode.PRODUCT: _warning(_SCH, "A product name that is not the label's.", "GPU feature discovery"),
    LintCode.QUANTITY: _error(_ADM, "An amount that is no quantity.", "Kubernetes quantity"),
    LintCode.QUOTA_GAP: _note(_QTA, "Devices under names that the quota does not count.", _QUOTA),
    LintCode.QUOTA_INVALID: _error(_QTA, "A quota key that the API server refuses.", _QUOTA),
    LintCode.QUOTA_WITHOUT_EFFECT: _warning(_QTA, "A quota key that is accepted and never enforced.", _QUOTA),
    LintCode.REQUEST_LIMIT_UNEQUAL: _error(_ADM, "A device's request is not its limit.", _API),
    LintCode.RESOURCE_NAME: _warning(_ADM, "A resource name close to a known one.", _API),
    LintCode.RUNTIME_CLASS: _error(_ADM, "A RuntimeClass that does not exist.", _ADMISSION),
    LintCode.SELECTOR_DOUBTFUL: _note(_SCH, "A device selector that compiles and may not mean it.", _DRA),
    LintCode.SELECTOR_REFUSED: _error(_ADM, "A device selector that the API server refuses.", _DRA),
    LintCode.SELECTS_NOTHING: _error(_SCH, "Node labels that no node has.", _SCHEDULER),
    LintCode.SERVICE_ACCOUNT: _error(
        _ADM, "A ServiceAccount that does not exist.", _ADMISSION
    ),
    LintCode.SHARED_NOT_RENAMED: _warning(_PLG, "Shared GPUs under the name of whole ones.", _PLUGIN),
    LintCode.SINGLE_NODE: _warning(_SCH, "What is asked for, one node alone offers.", _SCHEDULER),
    LintCode.TAINT: _error(_SCH, "Every node that would do has a taint that is not tolerated.", _SCHEDULER),
    LintCode.TOLERATION_IDLE: _warning(_SCH, "A toleration that matches no taint there is.", _SCHEDULER),
    LintCode.TOLERATION_INVALID: _error(_ADM, "A toleration that the API server refuses.", _API),
    LintCode.VALUE_TYPE: _error(_ADM, "A value of another type than the field's.", _DECODING),
    LintCode.VOLUME_CLAIM: _warning(_SCH, "A PersistentVolumeClaim that does not exist.", _SCHEDULER),
    LintCode.WHOLE_AND_SHARED: _warning(_SCH, "A pod that asks for whole and for shared GPUs.", _SCHEDULER),
})  # fmt: skip
