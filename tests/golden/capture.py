"""`python -m golden.capture [LAB …]`: run labs; keep clusters before the first question and the last.

A question is a step that asks `tonnage`, or looks into a container; where a lab has none it is the last step.

What is captured differs from run to run (times, names of pods), so records over it change too: a new capture
is a commit of its own.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Final

from golden.clusters import CLUSTERS
from tonnage.cli.locations.labs_and_scenarios import lab_names
from tonnage.documents.lab.steps import LabStep

_PROGRAM: Final = (sys.executable, "-m", "tonnage")


def main() -> None:
    CLUSTERS.mkdir(exist_ok=True)
    for name in sys.argv[1:] or lab_names():
        asyncio.run(_captured(name))


async def _captured(name: str) -> None:
    """Run the lab on a cluster of its own; at its first and last question take a snapshot first."""
    from tonnage.adapters.clock import SystemClock
    from tonnage.cli.lab.environment import surroundings
    from tonnage.cli.lab.runner import RunListener, run_lab
    from tonnage.cli.lab.servers import lab_servers
    from tonnage.cli.locations.labs_and_scenarios import load_lab

    found = load_lab(name)
    with tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as folder:
        environment = {**os.environ, "TONNAGE_STATE": folder}
        kubeconfig = Path(folder) / "kubeconfig"
        _call(environment, "up", "--detach", "--scenario", found.lab.scenario)
        steps = found.lab.steps
        asking = [number for number, step in enumerate(steps, start=1) if _asks(step)] or [len(steps)]
        taken: list[Path] = []

        def before(step: LabStep, number: int, _total: int) -> None:
            if number in (asking[0], asking[-1]) and step is steps[number - 1]:  # no step of the clean-up
                path = Path(folder) / f"{name}.{number:02}.jsonl.gz"
                _call(environment, "snapshot", "--kubeconfig", str(kubeconfig), "-o", str(path))
                taken.append(path)

        try:
            with surroundings(found.lab, found.folder, kubeconfig, environment, own=True) as inside:
                async with lab_servers(found.lab.servers, environment, kubeconfig) as variables:
                    place = replace(inside, environment={**inside.environment, **variables})
                    listener = RunListener(before=before)
                    report = await run_lab(
                        found.lab, place, SystemClock(), listener=listener, variables=variables
                    )
            if not report.passed:
                failed = [step.command for step in report.steps if not step.passed]
                raise SystemExit(f"lab {name} failed; nothing of it is kept: {failed[:1]}")
            for path in CLUSTERS.glob(f"{name}.*"):
                path.unlink()
            for path in taken:
                (CLUSTERS / path.name).write_bytes(path.read_bytes())
        finally:
            _call(environment, "down")
    print(name, sorted(path.name for path in CLUSTERS.glob(f"{name}.*")))


def _asks(step: LabStep) -> bool:
    return step.command.program == "tonnage" or step.run.startswith("kubectl exec ")


def _call(environment: dict[str, str], *words: str) -> None:
    subprocess.run([*_PROGRAM, *words], env=environment, check=True, stdout=subprocess.DEVNULL, timeout=300)


if __name__ == "__main__":
    main()
