"""Draw the README's pictures: commands on the twin in the middle of the inference lab, and what they print.

`make pictures`, that is `python scripts/draw_picture.py docs/images`.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from tonnage.cli.locations.kubectl import kubectl_binary

ROOT = Path(__file__).resolve().parent.parent
LAB = ROOT / "labs" / "inference-sharing"
BEFORE = (
    (
        "kubectl patch configmap device-plugin-config -n tonnage-system --type=merge "
        f"--patch-file {LAB}/timeslice-4.yaml"
    ),
    "kubectl label node t4-0 nvidia.com/device-plugin.config=timeslice-4 tonnage.dev/lab=inference-sharing",
    r"kubectl wait node/t4-0 --for=jsonpath={.status.allocatable.nvidia\.com/gpu\.shared}=4",
    "kubectl create namespace inference-test",
    f"kubectl apply -f {LAB}/services.yaml -f {LAB}/worker-4.yaml",
    "kubectl wait pod --all -n inference-test --for=condition=Ready",
    f"kubectl apply -f {LAB}/worker-5.yaml",
    "kubectl wait pod/inference-worker-5 -n inference-test --for=condition=PodScheduled=False",
)
PICTURES = {
    "inference-sharing": (
        "kubectl get pods -n inference-test",
        "tonnage explain pod inference-worker-5 -n inference-test",
    ),
    "fleet": ("tonnage status",),
    "topology": ("tonnage topo h100-0",),
}
"""File name -> the commands that it shows."""
WIDTH = 140


def main() -> int:
    """Run the commands on a twin of their own and write the pictures."""
    with tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as state:
        kubectl = str(kubectl_binary("1.35"))
        tonnage = str(Path(sys.executable).with_name("tonnage"))
        environment = {
            **os.environ,
            "TONNAGE_STATE": state,
            "KUBECONFIG": f"{state}/kubeconfig",
            "COLUMNS": str(WIDTH),
        }

        def run(command: str) -> str:
            program, *arguments = command.split(" ")
            path = kubectl if program == "kubectl" else tonnage
            return subprocess.run(
                [path, *arguments], env=environment, capture_output=True, text=True, check=False
            ).stdout

        run("tonnage up --detach")
        try:
            for command in BEFORE:
                run(command)
            for name, commands in PICTURES.items():
                _write(Path(sys.argv[1]) / f"{name}.svg", [(command, run(command)) for command in commands])
        finally:
            run("tonnage down")
    return 0


def _write(target: Path, outputs: Sequence[tuple[str, str]]) -> None:
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    for command, output in outputs:
        console.print(Text(f"$ {command}", style="bold cyan"))
        console.print(Text(output))
    svg = console.export_svg(title="tonnage", theme=MONOKAI)
    # The picture must not load fonts from anywhere.
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("\n".join(line.rstrip() for line in svg.splitlines()) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
