"""The reasons that the catalogue of messages stands for; the other families are not loaded with them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from tonnage.model.reasons.messages import driver_symptoms, node_symptoms, symptoms
from tonnage.model.reasons.reason import Symptom


@cache
def symptoms_by_code() -> Mapping[str, type[Symptom]]:
    """Those that a message of the catalogue may stand for."""
    families = (symptoms.REASONS, driver_symptoms.REASONS, node_symptoms.REASONS)
    return MappingProxyType({cls.code: cls for family in families for cls in family})
