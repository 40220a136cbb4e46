"""What `tonnage up` was asked for, in this process or in one of its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tonnage.cli.locations.labs_and_scenarios import load_scenario
from tonnage.cli.locations.state import EngineName
from tonnage.model.kubernetes.feature_gates import check_simulated, parse_feature_gates

if TYPE_CHECKING:
    from tonnage.documents.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Serving:
    """How the API is served: on which port (None: a kept cluster's, or any), by whom, kept and audited."""

    port: int | None = None
    engine: EngineName = "twin"
    keep: bool = False
    audit_log: Path | None = None
    gates: tuple[tuple[str, bool], ...] = ()
    """Feature gates that are not as the release has them by default."""


@dataclass(frozen=True, slots=True)
class UpOptions:
    """What was asked for."""

    scenario: str
    nodes: int | None
    port: int | None
    """None: the one that a kept cluster had, else any that is free."""
    state: Path
    lab: str | None = None
    engine: EngineName = "twin"
    light_nodes: int | None = None
    keeps: bool = False
    """Whether the state folder keeps the cluster for the next start."""
    audit_log: Path | None = None
    feature_gates: str = ""
    pauses: bool = True
    """Whether a lab may wait for Enter."""

    @property
    def serving(self) -> Serving:
        """What of it concerns the API server. Raises ConfigError: a feature gate cannot be chosen."""
        gates = parse_feature_gates(self.feature_gates)
        if self.engine == "twin":
            check_simulated(gates)
        return Serving(self.port, self.engine, self.keeps, self.audit_log, gates)


def asked_scenario(options: UpOptions) -> Scenario:
    """The scenario, with as many nodes as were asked for.

    Raises ConfigError: there is no such scenario, or it cannot be used as written or with so many nodes.
    """
    scenario = load_scenario(options.scenario)
    scenario = scenario if options.nodes is None else scenario.scaled(options.nodes)
    return scenario if options.light_nodes is None else scenario.with_light(options.light_nodes)
