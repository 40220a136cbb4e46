"""What `tonnage up` prints once the cluster can be used."""

from __future__ import annotations

from tonnage.cli.locations.state import Running
from tonnage.cli.terminal.output import line, say, shell_word


def say_where(running: Running) -> None:
    """What a person types next."""
    nodes = "1 node" if running.nodes == 1 else f"{running.nodes} nodes"
    say(f"Cluster of {nodes} (scenario {running.scenario}) at {running.server}", err=True)
    say(line("export KUBECONFIG=", shell_word(running.kubeconfig)))
