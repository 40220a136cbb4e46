"""`DCGM_EXP_P2P_STATUS`: whether NVLink joins each GPU with each other one, a row for each pair and way.

Source: dcgm-exporter d5e5f51, p2p_status_collector.go and const.go; NVML's numbers are nvmlGpuP2PStatus_t.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from tonnage.decide.node.exporter.page import family_text
from tonnage.decide.node.exporter.rows import EntityRows
from tonnage.model.node.telemetry import Entity, ExportedCounter

_UNKNOWN: Final = "Unknown"
_STATUSES: Final = (
    *("OK", "ChipsetNotSupported", "GPUNotSupported", "TopologyNotSupported", "DisabledByRegKey"),
    *("NotSupported", _UNKNOWN),
)
"""NVML's numbers in dcgm-exporter's words."""


def link_status(number: int) -> str:
    """NVML's number in dcgm-exporter's words.

    >>> link_status(0), link_status(5), link_status(99)
    ('OK', 'NotSupported', 'Unknown')
    """
    return _STATUSES[number] if 0 <= number < len(_STATUSES) else _UNKNOWN


def peer_family(
    counter: ExportedCounter,
    statuses: Mapping[Entity, Mapping[int, int]],
    rows: Mapping[Entity, EntityRows],
) -> str:
    """The family's text. `statuses` are NVML's, of each GPU by the index of the other."""
    return family_text(counter, _lines(counter.name, statuses, rows))


def _lines(
    name: str, statuses: Mapping[Entity, Mapping[int, int]], rows: Mapping[Entity, EntityRows]
) -> Iterator[str]:
    for entity, of_peers in statuses.items():
        for peer, status in sorted(of_peers.items()):
            labels = {"peer_gpu": str(peer), "link_status": link_status(status)}
            for row in rows[entity].rows:
                yield f"{name}{{{row.labels.text(labels)}}} {status}\n"
