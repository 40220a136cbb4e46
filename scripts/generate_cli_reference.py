"""Writes docs/reference/cli.md out of the commands' own help; `--check` fails when the page differs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from tonnage.cli.main import COMMANDS, tonnage

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "cli.md"
HEAD = """\
# Commands

`tonnage` and `kubectl gpu` are the same program. This page is the program's own help; after a change of an
option write it again with `python scripts/generate_cli_reference.py`.

| exit status | means |
|---|---|
| 0 | done, and nothing is wrong |
| 1 | done, and what was asked about is refused, failing or degraded |
| 2 | wrong usage or unreadable input |
| 3 | the cluster or device could not be reached |
| 70 | a defect of Tonnage; `-v` shows where |
| 130, 141 | interrupted; the reader of the output left |

An error is one block on stderr: what, where, why, remedy. Colour appears only on a terminal.

| environment | means |
|---|---|
| `KUBECONFIG` | as for kubectl, where `--kubeconfig` is not given; `lab run` never reads it |
| `TONNAGE_STATE` | state folder of the embedded cluster [default: `~/.local/state/tonnage`, by XDG] |
| `TONNAGE_KUBECTL` | the kubectl that labs run [default: from `PATH`, then from its PyPI package] |
| `TONNAGE_KUBERNETES_BIN` | folder with the programs of `--engine kubernetes` [default: in the cache] |
| `KUBERNETES_VERSION` | minor version of those in the cache, 1.34 to 1.37 [default: the scenario's] |
| `XDG_RUNTIME_DIR` | where sockets lie, if short [default: `/tmp/tonnage-<uid>-<hash>`, or `tn-…` if taken] |
| `NO_COLOR` | no colour |

## A first session

<!-- runs on the twin -->

```console
$ eval "$(tonnage up --detach)"
Cluster of 8 nodes (scenario inference) at …
$ tonnage version
tonnage …
$ tonnage status -o wide
NODE …
$ kubectl get nodes,pods -A -o json | tonnage status --snapshot -
NODE …
$ kubectl create namespace gpu-admission
namespace/gpu-admission created
$ tonnage explain -f labs/admission/whole.yaml
Pod gpu-admission/whole: FITS …
$ tonnage explain -f labs/admission/whole.yaml -o json
"verdict": "FITS",
$ kubectl delete namespace gpu-admission
namespace "gpu-admission" deleted
$ tonnage lab list
inference-sharing …
$ tonnage lab run admission
Lab admission passed: …
$ source <(tonnage completion bash)
$ tonnage down
Stopped the embedded cluster in …
```
"""


def sections() -> Iterator[str]:
    """The page, a command at a time."""
    yield HEAD
    root = click.Context(tonnage, info_name="tonnage", terminal_width=100)
    for name in COMMANDS:
        command = tonnage.get_command(root, name)
        assert command is not None
        yield from _section(command, click.Context(command, root, info_name=name, terminal_width=100))


def _section(command: click.Command, context: click.Context) -> Iterator[str]:
    if isinstance(command, click.Group):
        if command.invoke_without_command:
            yield _own(command, context)
        for name, child in command.commands.items():
            yield from _section(child, click.Context(child, context, info_name=name, terminal_width=100))
        return
    yield _own(command, context)


def _own(command: click.Command, context: click.Context) -> str:
    help_text = "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
    return f"## {context.command_path}\n\n```text\n{help_text}\n```\n"


def main() -> int:
    """Write the page, or with `--check` say whether it is up to date."""
    os.environ.pop("COLUMNS", None)
    page = "\n".join(sections())
    if "--check" in sys.argv:
        if PAGE.read_text(encoding="utf-8") == page:
            return 0
        print(f"{PAGE} differs from the help; run python scripts/generate_cli_reference.py", file=sys.stderr)
        return 1
    PAGE.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
