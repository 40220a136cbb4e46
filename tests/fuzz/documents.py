"""Documents that people write: read, or refused with words."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from support.kubelet_side import FastClock
from tonnage.cli.lint.lint_context import given_for
from tonnage.cli.options import Common
from tonnage.decide.node.advertise import advertise
from tonnage.decide.node.share import share
from tonnage.diagnose.lint.lint import LintContext, lint
from tonnage.diagnose.lint.repair import repaired_texts
from tonnage.diagnose.lint.sheet import Sheet
from tonnage.documents.device_plugin.config import parse_device_plugin_config
from tonnage.documents.device_plugin.mig_strategy import with_mig_strategy
from tonnage.documents.lab.command import parse_command
from tonnage.documents.lab.steps import parse_lab
from tonnage.documents.scenario import parse_scenario
from tonnage.model.devices.inventory import Device, Inventory, MigDevice
from tonnage.model.devices.sharing import NodePlan
from tonnage.model.errors import ConfigError, HardwareError
from tonnage.twin.devices.scenario import ScenarioBackend

MIGS = tuple(
    MigDevice(f"MIG-{place}", place, profile, place, 0, 1)
    for place, profile in enumerate(("1g.5gb", "2g.10gb"))
)
INVENTORY = Inventory(
    (
        Device("GPU-0", 0, "NVIDIA A100-SXM4-40GB", 40960, minor=0, mig_enabled=True, migs=MIGS),
        Device("GPU-1", 1, "NVIDIA A100-SXM4-40GB", 40960, minor=1, mig_enabled=False),
        Device("GPU-2", 2, "Tesla T4", 15360, minor=2, healthy=False, reason="Xid 79"),
    )
)
OWN_IDS = {device.uuid for device in INVENTORY.devices} | {mig.uuid for mig in MIGS}


def text_of(data: bytes) -> str:
    """As files are read that may hold anything."""
    return data.decode("utf-8", "surrogateescape")


def device_plugin_config(data: bytes) -> None:
    under_strategy(text_of(data))
    for lenient in (False, True):
        with suppress(ConfigError):
            config = parse_device_plugin_config(text_of(data), source="x", lenient=lenient)
            check_plan(share(INVENTORY, config), OWN_IDS)


def under_strategy(text: str) -> None:
    """Under another MIG strategy a configuration that can be read says the same but for that."""
    other = with_mig_strategy(text, "mixed")
    assert with_mig_strategy(other, "mixed") == other
    with suppress(ConfigError):
        parse_device_plugin_config(text, source="x", lenient=True)
        assert parse_device_plugin_config(other, source="x", lenient=True).mig_strategy == "mixed"


def check_plan(plan: NodePlan, uuids: set[str]) -> None:
    """Whatever the configuration says: no id twice, each of a device that is there, none in two names."""
    slots = [(shown.resource, slot) for shown in advertise(plan, ()) for slot in shown.slots]
    assert len({slot.id for _, slot in slots}) == len(slots)
    assert {slot.uuid for _, slot in slots} <= uuids
    assert len({slot.uuid for _, slot in slots}) == len({(slot.uuid, name) for name, slot in slots})


def scenario(data: bytes) -> None:
    with suppress(ConfigError):
        parse_scenario(text_of(data), source="x")


@contextmanager
def hardware() -> Iterator[Callable[[bytes], None]]:
    with tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as folder, asyncio.Runner() as runner:
        file = Path(folder) / "hardware.yaml"

        def target(data: bytes) -> None:
            file.write_bytes(data)
            with suppress(ConfigError, HardwareError):
                runner.run(_scan(file))

        yield target


async def _scan(file: Path) -> None:
    backend = ScenarioBackend(file, FastClock())
    try:
        inventory = await backend.scan()
        assert len({device.uuid for device in inventory.devices}) == len(inventory.devices)
    finally:
        await backend.close()


def lab(data: bytes) -> None:
    with suppress(ConfigError):
        parse_lab(text_of(data), source="x", files=frozenset({"pod.yaml"}))


def lab_command(data: bytes) -> None:
    with suppress(ValueError, ConfigError):
        parse_command(text_of(data))


@cache
def offline() -> LintContext:
    """What lint is given without a cluster."""
    return asyncio.run(given_for(Common(), []))


def manifests(data: bytes) -> None:
    """Lint reads or refuses, places what it finds in the text, and repairs until nothing is left."""
    text = text_of(data)
    report = lint([Sheet("f.yaml", text)], offline())
    lines = text.count("\n") + text.count("\r") + text.count("\x85") + len(text.split("\u2028")) + 1
    for finding in report.findings:
        if not 1 <= finding.place.line <= lines or finding.place.column < 1:
            raise AssertionError(f"{finding} is not in the text")
    sheet = Sheet("f.yaml", text)
    once = repaired_texts([sheet], offline()).sheets.get("f.yaml", sheet)
    if repaired_texts([once], offline()).sheets:
        raise AssertionError("a second repair finds something to do")
