"""The reasons that the catalogue of messages stands for; the other families are not loaded with them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from tonnage.model.reasons import driver_symptoms, symptoms
from tonnage.model.reasons.reason import Symptom


@cache
def symptoms_by_code() -> Mapping[str, type[Symptom]]:
    """Those that a message of the catalogue may stand for."""
    return MappingProxyType({cls.code: cls for cls in (*symptoms.REASONS, *driver_symptoms.REASONS)})
