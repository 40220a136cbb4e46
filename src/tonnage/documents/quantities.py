"""Quantities in documents: positive, in Kubernetes' spelling."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from tonnage.documents.yaml.source import DocumentFieldError
from tonnage.model.kubernetes.quantity import parse_quantity


def _quantity(value: str | int) -> str | int:
    try:
        if parse_quantity(str(value)) <= 0:
            raise ValueError
    except ValueError:
        raise DocumentFieldError(
            f"{str(value)[:64]} is not a positive quantity", remedy="write 32, 500m or 128Gi"
        ) from None
    return value


Quantity = Annotated[str | int, AfterValidator(_quantity)]
