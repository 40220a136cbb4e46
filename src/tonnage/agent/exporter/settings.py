"""What the exporter is told at start, in dcgm-exporter's words where it has some."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tonnage.model.node.entity_choice import EntityChoice


@dataclass(frozen=True, slots=True)
class ExporterSettings:
    """`address` is `HOST:PORT`, empty for no exporter; `collectors` a CSV of counters, None for the default.

    `choice` is which devices have rows. `kubernetes`: rows say whose a device is. `each_holder`, `resources`,
    `old_namespace` and `replace_blanks`: see `Attribution`, `holders_of` and `LabelOptions`. `jobs` is a
    folder of HPC jobs. `on_demand`: nothing is read before a page is asked for.
    `pod_labels`: rows carry the pods' labels, with `label_patterns` only those whose name has a match of one.
    `processes`: what is shared is divided by processes. The page has `series_limit` series at most. `alone`:
    the exporter is all that runs, beside an agent.
    `hostname_label` is `Hostname` or `hostname`; `hostname` empty for no such label. `web_config` is a file
    of TLS and users, whose paths are below `web_root`.
    """

    address: str = ""
    collectors: Path | None = None
    interval_s: float = 30.0
    choice: EntityChoice = field(default_factory=EntityChoice)
    kubernetes: bool = True
    each_holder: bool = False
    resources: tuple[str, ...] = ()
    hostname: str = ""
    hostname_label: str = "Hostname"
    old_namespace: bool = False
    replace_blanks: bool = False
    jobs: Path | None = None
    pod_labels: bool = False
    label_patterns: tuple[str, ...] = ()
    pod_uid: bool = False
    series_limit: int = 20_000
    processes: bool = False
    alone: bool = False
    xid_window_ms: int = 300_000
    clock_window_ms: int = 300_000
    web_config: Path | None = None
    web_root: Path = Path("/")
    on_demand: bool = False
