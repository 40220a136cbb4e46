"""The page on NodeGPUStatus has every field of it, and no other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from pydantic import BaseModel

from tonnage.documents.node.gpu_status import NodeGPUStatusBody

PAGE = Path(__file__).resolve().parents[2] / "docs/reference/node-gpu-status.md"


def fields(model: type[BaseModel]) -> Iterator[str]:
    for name, field in model.model_fields.items():
        yield field.alias or name
        kinds = [field.annotation, *get_args(field.annotation)]
        for kind in kinds:
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                yield from fields(kind)


def test_every_field_is_named() -> None:
    text = PAGE.read_text(encoding="utf-8")
    named = set(re.findall(r"`(\w+)`", text))
    assert set(fields(NodeGPUStatusBody)) - named == set()
    rows = re.findall(r"^\| (`[^|]+) \|", text, flags=re.MULTILINE)
    assert {word for row in rows for word in re.findall(r"`(\w+)`", row)} <= set(fields(NodeGPUStatusBody))
