"""Every class of reasons by its code, out of the modules beside this one."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

from tonnage.model.reasons import (
    admission,
    claims,
    devices,
    driver_symptoms,
    kubelet,
    pods,
    quota,
    scheduling,
    symptoms,
    volumes,
    workloads,
)
from tonnage.model.reasons.reason import Reason, Symptom

_SYMPTOMS: Final[tuple[type[Symptom], ...]] = (*symptoms.REASONS, *driver_symptoms.REASONS)
_ALL: Final[tuple[type[Reason], ...]] = (
    *admission.REASONS,
    *quota.REASONS,
    *scheduling.REASONS,
    *volumes.REASONS,
    *claims.REASONS,
    *pods.REASONS,
    *kubelet.REASONS,
    *devices.REASONS,
    *workloads.REASONS,
    *_SYMPTOMS,
)


@cache
def reasons() -> Mapping[str, type[Reason]]:
    """All of them, by code.

    >>> reasons()["taint-not-tolerated"].__name__
    'TaintNotTolerated'
    """
    return MappingProxyType({cls.code: cls for cls in _ALL})


@cache
def symptoms_by_code() -> Mapping[str, type[Symptom]]:
    """Those that a message of the catalogue may stand for."""
    return MappingProxyType({cls.code: cls for cls in _SYMPTOMS})
