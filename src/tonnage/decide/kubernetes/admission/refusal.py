"""A refusal by a plugin of admission (admission.Interface, Validate)."""

from __future__ import annotations

from dataclasses import dataclass

from tonnage.model.kubernetes.cluster import Manifest
from tonnage.model.reasons.reason import Reason


@dataclass(frozen=True, slots=True)
class AdmissionRefusal:
    """Why a new object is forbidden. `text`: the server's words, after `pods "x" is forbidden: `."""

    text: str
    reason: Reason


def subject_of(manifest: Manifest) -> str:
    """What a reason calls the manifest: `Deployment ml/train`."""
    kind, namespace = manifest.kind.split(".")[0], manifest.pod.namespace
    return f"{kind} {namespace}/{manifest.name}" if namespace else f"{kind} {manifest.name}"
