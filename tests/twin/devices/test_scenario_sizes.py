"""What MIG devices of pretended boards have, against what NVIDIA's guide says of A100 and H100."""

from __future__ import annotations

import pytest

from tonnage.model.catalog.gpus import gpu_models
from tonnage.twin.devices.scenario_sizes import profile_sizes


@pytest.mark.parametrize(
    ("model", "number", "sizes"),
    [
        ("A100-40", 19, (14, 1, 0, 0, 0)),
        ("A100-40", 20, (14, 1, 1, 1, 1)),
        ("A100-40", 15, (14, 1, 1, 0, 0)),
        ("A100-40", 9, (42, 3, 2, 0, 0)),
        ("A100-40", 0, (98, 7, 5, 1, 1)),
        ("H100-80", 19, (16, 1, 1, 1, 0)),
        ("H100-80", 15, (26, 1, 1, 1, 0)),
        ("H100-80", 9, (60, 3, 3, 3, 0)),
        ("H100-80", 0, (132, 7, 7, 7, 1)),
    ],
)
def test_multiprocessors_and_engines_of_a_profile(model: str, number: int, sizes: tuple[int, ...]) -> None:
    size = profile_sizes(gpu_models()[model])[number]
    assert (
        size.multiprocessors,
        size.copy_engines,
        size.decoders,
        size.jpeg_engines,
        size.optical_flow_engines,
    ) == sizes


def test_every_layout_that_a_board_holds_has_enough_of_each() -> None:
    for model in gpu_models().values():
        sizes = profile_sizes(model)
        if sizes:
            whole = sizes[0]
            assert 7 * sizes[19].multiprocessors <= whole.multiprocessors, model.key
            assert 2 * sizes[9].decoders <= whole.decoders, model.key
    assert not profile_sizes(gpu_models()["T4"])
