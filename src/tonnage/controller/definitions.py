"""Definitions of NVIDIA's kinds that the chart has installed, kept at this version's."""

from __future__ import annotations

from typing import Final

from tonnage.loop.performer import Performer
from tonnage.model.actions.cluster import ApplyObject
from tonnage.model.catalog.nvidia_kinds import DEFINITIONS, SERIAL, SERIAL_NOTE, labelled_definition
from tonnage.model.errors import ApiError
from tonnage.model.json_access import text
from tonnage.model.kubernetes.scrape_target import PART_OF
from tonnage.ports.kubernetes import KubernetesReader
from tonnage.wire.kinds import CUSTOM_RESOURCE

_MOST_DIGITS: Final = 9


async def upgrade_definitions(api: KubernetesReader, performer: Performer) -> None:
    """Make those that are missing, and raise those of ours that are older; others are never changed."""
    for plural in DEFINITIONS:
        body = labelled_definition(plural)
        try:
            there = (await api.get(CUSTOM_RESOURCE, text(body, "metadata", "name"))).metadata
        except ApiError as error:
            if error.code != 404:
                raise
        else:
            if PART_OF not in there.labels.items() or not _is_older(there.annotations.get(SERIAL_NOTE, "0")):
                continue
        await performer.perform(ApplyObject.of(body))


def _is_older(serial: str) -> bool:
    """Whether it is a number below this version's; a longer one than any version has is left alone."""
    return serial.isdecimal() and len(serial) <= _MOST_DIGITS and int(serial) < SERIAL
