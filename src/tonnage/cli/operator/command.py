"""`tonnage operator`: what a ClusterPolicy comes to on each node, now and before it is applied."""

from __future__ import annotations

from typing import Final

import click

from tonnage.cli.awaited import awaited
from tonnage.cli.operator.adopt import adopt, release
from tonnage.cli.operator.bundle import bundle
from tonnage.cli.operator.drivers import rollback
from tonnage.cli.operator.namespaces import named_namespaces, operator_namespaces
from tonnage.cli.operator.plan import plan
from tonnage.cli.operator.policy_view import OperatorPlace, operator_view, show_view
from tonnage.cli.options import Common, common_options, examples
from tonnage.model.errors import ConfigError, Problem

_NO_POLICY: Final = "no ClusterPolicy: the controller does nothing without one"


@click.group(help="Show what a ClusterPolicy does on each node, or would do once it is applied.")
def command() -> None:
    pass


@command.command(
    "status",
    help="Show the ClusterPolicy in force, and what each GPU node waits for.",
    epilog=examples("tonnage operator status", "tonnage operator status -o json"),
)
@operator_namespaces
@common_options(output=("text", "wide", "json", "yaml"), cluster=True)
def status(common: Common, operator_namespace: str, agents_namespace: str) -> int:
    """Exit status 1 unless every GPU node is ready."""
    place = OperatorPlace(operator_namespace, agents_namespace, named_namespaces())
    shown = awaited(operator_view(common, place))
    if shown is None:
        raise ConfigError(Problem(_NO_POLICY, remedy="apply one, or run tonnage status for the nodes"))
    view, drivers = shown
    show_view(view, drivers, common, planned=False)
    return 0 if view.judgement.state == "ready" else 1


command.add_command(rollback)
command.add_command(plan)
command.add_command(adopt)
command.add_command(release)
command.add_command(bundle)
