"""What is made quickly is what the constructor makes."""

from __future__ import annotations

import copy
from dataclasses import FrozenInstanceError, fields, replace

import pytest

from tonnage.adapters.snapshots.fast_dataclasses import quickly
from tonnage.model.kubernetes.cluster import Owner, Pod
from tonnage.model.node.gpu_status import GpuDevice, GpuStatus

USUAL = (Pod("p", uid="u", owner=Owner("Job", "j")), GpuDevice("GPU-1"), GpuStatus("n"), Owner("Job", "j"))


@pytest.mark.parametrize("usual", USUAL, ids=lambda usual: type(usual).__name__)
def test_it_is_the_same(usual: Pod | GpuDevice | GpuStatus | Owner) -> None:
    made = quickly(type(usual))(*(getattr(usual, part.name) for part in fields(usual)))
    assert type(made) is type(usual)
    assert made == usual == copy.copy(made) == replace(made)
    assert repr(made) == repr(usual)
    with pytest.raises(FrozenInstanceError):
        setattr(made, fields(usual)[0].name, "other")


def test_a_field_too_few_is_refused() -> None:
    with pytest.raises(TypeError):
        quickly(Owner)("Job")
