"""Pretended devices that are divided."""

from __future__ import annotations

from pathlib import Path

import pytest

from tonnage.adapters.clock import SystemClock
from tonnage.documents.hardware import Hardware
from tonnage.documents.yaml.source import parse_document
from tonnage.model.errors import ConfigError
from tonnage.twin.devices.scenario import ScenarioBackend


async def scanned(
    folder: Path, devices: str
) -> tuple[tuple[bool | None, list[tuple[str, int, int, int]]], ...]:
    """For each device: whether MIG is on, and (profile, memory, GPU slices, compute slices) of its parts."""
    file = folder / "hardware.yaml"
    file.write_text(f"devices: [{devices}]")
    inventory = await ScenarioBackend(file, SystemClock()).scan()
    return tuple(
        (
            device.mig_enabled,
            [(mig.profile, mig.memory_mib, mig.gpu_slices, mig.compute_slices) for mig in device.migs],
        )
        for device in inventory.devices
    )


async def test_parts_are_as_their_profiles_say(tmp_path: Path) -> None:
    text = (
        "{uuid: a, model: A100-40, mig: [3g.20gb, 1c.2g.10gb, 1g.5gb+me]}, {uuid: b, model: A100-40, mig: []}"
    )
    assert await scanned(tmp_path, text + ", {uuid: c, model: A100-40}, {uuid: d, model: T4}") == (
        (True, [("3g.20gb", 19968, 3, 3), ("1c.2g.10gb", 9856, 2, 1), ("1g.5gb+me", 4864, 1, 1)]),
        (True, []),
        (False, []),
        (None, []),
    )


async def test_parts_keep_their_uuids_and_fall_with_their_device(tmp_path: Path) -> None:
    file = tmp_path / "hardware.yaml"
    file.write_text("devices: [{uuid: a, model: A100-40, mig: [1g.5gb, 1g.5gb]}]")
    backend = ScenarioBackend(file, SystemClock())
    before = [mig.uuid for mig in (await backend.scan()).devices[0].migs]
    assert len(set(before)) == 2
    file.write_text("devices: [{uuid: a, model: A100-40, mig: [1g.5gb, 1g.5gb], health: lost}]")
    after = (await backend.scan()).devices[0].migs
    assert [(mig.uuid, mig.healthy, mig.reason) for mig in after] == [
        (uuid, False, "GPU is lost") for uuid in before
    ]


@pytest.mark.parametrize(
    ("device", "what"),
    [
        ("{uuid: a, model: T4, mig: []}", "T4 cannot be divided by MIG"),
        ("{uuid: a, model: A100-40, mig: [9g.20gb]}", "is not a MIG profile"),
        ("{uuid: a, model: A100-40, mig: 1g.5gb}", "a list is expected"),
    ],
)
def test_what_cannot_be_divided_so_is_refused(device: str, what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        parse_document(f"devices: [{device}]", Hardware, source="f")
