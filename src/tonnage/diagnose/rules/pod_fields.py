"""What the API server refuses about a pod's spec outside of its containers, as `lint` has it, too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.diagnose.case import FieldError
from tonnage.documents.pod_fields import faults, written_path
from tonnage.documents.pod_placement import PodFault
from tonnage.model.cluster import Manifest
from tonnage.model.verdict import Layer, Reason

_SOURCE: Final = "API server, pod validation"


def errors(manifest: Manifest) -> Iterator[FieldError]:
    """Every refused field of the pod, or of the workload's template."""
    spec = manifest.written.get("spec")
    kind = manifest.kind.split(".")[0]
    where = {"Pod": "spec", "CronJob": "spec.jobTemplate.spec.template.spec"}.get(kind, "spec.template.spec")
    for fault in faults(spec if isinstance(spec, dict) else {}):
        yield _error(fault, f"{where}{written_path(fault.path)}")


def _error(fault: PodFault, where: str) -> FieldError:
    told = f"{where}: {fault.told}"
    reason = Reason(fault.code, Layer.ADMISSION, "Pod", told, {"field": where}, fault.remedy, _SOURCE)
    return FieldError(where, fault.text, reason)
