"""`tonnage completion`: the script that a shell reads to complete commands, options and names."""

from __future__ import annotations

import click
from click.shell_completion import ShellComplete, get_completion_class

from tonnage.cli.options import examples
from tonnage.cli.terminal.output import printable, say

SHELLS = ("bash", "zsh", "fish")


@click.command(
    help="Print the completion script for a shell.",
    epilog=examples(
        "source <(tonnage completion bash)",
        "tonnage completion fish > ~/.config/fish/completions/tonnage.fish",
    ),
)
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print the completion script for a shell."""
    from tonnage.cli.main import tonnage

    kind = get_completion_class(shell)
    assert kind is not None
    # click's own for bash asks the bash that it finds for its version, and complains where there is none
    script = ShellComplete.source(kind(tonnage, {}, "tonnage", "_TONNAGE_COMPLETE"))
    if shell == "fish":  # a help text goes on behind its first comma
        script = script.replace('string split ","', 'string split --max 1 ","')
    say(printable(script))
