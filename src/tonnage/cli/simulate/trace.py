"""`tonnage simulate trace`: what a policy would make of a trace of jobs."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from tonnage.cli.options import Common, common_options, examples
from tonnage.cli.terminal.output import emit, progress, say
from tonnage.cli.terminal.tables import table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tonnage.adapters.snapshots.limit import SizeLimit
    from tonnage.decide.cluster.packing.experiment import PackingOutcome, Trace
    from tonnage.model.json import JsonValue

    Runs = Mapping[str, list[tuple[PackingOutcome, float]]]

_FIRST_SEED: Final = 42
_MARKS: Final = (90, 95, 100, 130)
_FILE: Final = click.Path(dir_okay=False, path_type=Path)


@click.command(
    "trace",
    help="Replay the jobs of a trace under several scheduling policies, and show how much of the GPUs each "
    "policy allocates. NODES and JOBS are CSV files with the columns of "
    "the trace openb, compressed with gzip or not.",
    epilog=examples(
        "tonnage simulate trace openb_node_list_gpu_node.csv.gz openb_pod_list_default.csv.gz",
        "tonnage simulate trace nodes.csv jobs.csv --policy FGD --policy BestFit --seeds 3 -o json",
    ),
)
@click.argument("nodes", type=_FILE)
@click.argument("jobs", type=_FILE)
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="NAME",
    help="Use only this policy. Repeatable [default: all].",
)
@click.option(
    "--seeds",
    type=click.IntRange(1, 1000),
    default=10,
    show_default=True,
    help=f"Orders of arrival to try; the first has the number {_FIRST_SEED}.",
)
@click.option(
    "--arrivals",
    type=click.IntRange(1, 1000),
    default=130,
    show_default=True,
    metavar="PERCENT",
    help="Stop when the jobs have requested this share of all GPUs.",
)
@common_options(output=("text", "json", "yaml"), max_size=True)
def command(
    common: Common, nodes: Path, jobs: Path, policies: tuple[str, ...], seeds: int, arrivals: int
) -> int:
    from tonnage.model.catalog.openb import published

    read = _trace(nodes, jobs, arrivals, common.limit)
    runs = _runs(read, _policies(policies), sorted({*(m for m in _MARKS if m < arrivals), arrivals}), seeds)
    workload = jobs.name.removeprefix("openb_pod_list_").split(".")[0]
    reference = published(workload) if jobs.name.startswith("openb_pod_list_") else {}
    if common.output == "text":
        _show(runs, reference, read, seeds)
    else:
        emit(_answer(runs, reference, seeds), common.output)
    return 0


def _trace(nodes: Path, jobs: Path, arrivals: int, limit: SizeLimit) -> Trace:
    from tonnage.decide.cluster.packing.experiment import Trace
    from tonnage.documents.trace import jobs_from, machines_from

    machines = machines_from(_text(nodes, limit), str(nodes))
    return Trace(machines, jobs_from(_text(jobs, limit), str(jobs)), arrivals)


def _text(path: Path, limit: SizeLimit) -> str:
    """The file's text. Raises ConfigError: it is too large, damaged or no text."""
    import zlib

    from tonnage.adapters.snapshots.load import decompressed
    from tonnage.model.errors import ConfigError, Problem, not_utf8, words_of

    try:
        with path.open("rb") as file:
            return limit.whole(decompressed(file), str(path)).decode()
    except UnicodeDecodeError as error:
        raise ConfigError(not_utf8(error, str(path))) from None
    except (OSError, EOFError, zlib.error) as error:
        raise ConfigError(Problem("not readable", str(path), words_of(error))) from None


def _policies(policies: tuple[str, ...]) -> tuple[str, ...]:
    from tonnage.decide.cluster.packing.experiment import POLICIES

    by_name = {name.casefold(): name for name in POLICIES}
    for name in policies:
        if name.casefold() not in by_name:
            raise click.BadParameter(f"{name[:40]}: there are {', '.join(POLICIES)}", param_hint="--policy")
    return tuple(dict.fromkeys(by_name[name.casefold()] for name in policies)) or POLICIES


def _runs(trace: Trace, policies: tuple[str, ...], marks: list[int], seeds: int) -> Runs:
    """Outcome and seconds of CPU of each policy and order. Raises ConfigError: there is nothing to place."""
    import random
    import time

    from tonnage.decide.cluster.packing.experiment import carry_out
    from tonnage.model.errors import ConfigError, Problem

    outcomes: dict[str, list[tuple[PackingOutcome, float]]] = {policy: [] for policy in policies}
    for done, (policy, seed) in enumerate(_turns(policies, seeds)):
        progress(f"{policy}, order {seed}: {done} of {len(policies) * seeds} done")
        dice = random.Random(seed)  # noqa: S311 an order of arrival that can be had again
        start = time.process_time()
        try:
            outcome = carry_out(trace, policy, marks, dice)
        except ValueError as error:
            raise ConfigError(Problem(str(error))) from None
        outcomes[policy].append((outcome, time.process_time() - start))
    progress("")
    return outcomes


def _turns(policies: tuple[str, ...], seeds: int) -> Iterator[tuple[str, int]]:
    for policy in policies:
        for seed in range(_FIRST_SEED, _FIRST_SEED + seeds):
            yield policy, seed


def _show(runs: Runs, reference: Mapping[str, Mapping[int, float]], trace: Trace, seeds: int) -> None:
    gpus = sum(machine.gpus for machine in trace.machines)
    marks = list(next(iter(runs.values()))[0][0].allocated)
    counted = f"{len(trace.machines)} machines with {gpus} GPUs, {len(trace.jobs)} jobs"
    say(f"{counted}; mean of {seeds} orders of arrival.")
    published = "; in brackets what was published" if reference else ""
    say(f"Percent of the GPUs given out when so much of them was asked for{published}.")
    say()
    rows = []
    for policy, outcomes in runs.items():
        cells = []
        for mark in marks:
            mean = statistics.mean(outcome.allocated[mark] for outcome, _ in outcomes)
            figure = reference.get(policy, {}).get(mark)
            cells.append(f"{mean:.2f}" + (f" ({figure:.2f})" if figure is not None else ""))
        spread = statistics.pstdev(outcome.allocated[marks[-1]] for outcome, _ in outcomes)
        seconds = statistics.median(seconds for _, seconds in outcomes)
        rows.append([policy, *cells, f"{spread:.2f}", f"{seconds:.1f}"])
    say(table(["POLICY", *(f"{mark} %" for mark in marks), "DEVIATION", "SECONDS"], rows))


def _answer(runs: Runs, reference: Mapping[str, Mapping[int, float]], seeds: int) -> JsonValue:
    return {
        "seeds": [*range(_FIRST_SEED, _FIRST_SEED + seeds)],
        "policies": [
            {
                "policy": policy,
                "published": {str(mark): value for mark, value in reference.get(policy, {}).items()},
                "runs": [
                    {
                        "allocatedPercent": {str(mark): value for mark, value in outcome.allocated.items()},
                        "arrivedJobs": outcome.arrived,
                        "refusedJobs": outcome.refused,
                        "seconds": seconds,
                    }
                    for outcome, seconds in outcomes
                ],
            }
            for policy, outcomes in runs.items()
        ],
    }
