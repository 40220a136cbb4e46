"""`tonnage mig`: what GPUs can be divided into, what that takes, and whether a configuration is right."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final, NamedTuple, TypedDict, Unpack

import click
from click.core import ParameterSource

from tonnage.cli.awaited import awaited
from tonnage.cli.mig.products import layouts, profiles
from tonnage.cli.options import Common, common_options, examples
from tonnage.cli.terminal.output import emit, lines, say
from tonnage.model.errors import ConfigError, Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tonnage.decide.node.mig.goal import GpuGoal, MigGpu
    from tonnage.diagnose.mig.resets import Resets
    from tonnage.model.json import JsonObject, JsonValue
    from tonnage.model.mig.layouts import MigConfigs
    from tonnage.model.node.gpu_status import GpuStatus

_DEMAND: Final = re.compile(r"([0-9]{1,6})x([0-9]{1,7})(Mi|Gi)?B?")
_MOST_GPUS: Final = 64


class MigRequest(TypedDict):
    """What is wanted, and of which GPUs."""

    config: str | None
    layout: str | None
    demand: tuple[str, ...]
    node: str | None
    product: str | None
    gpus: int
    try_evictions: bool


@click.group(help="Plan MIG layouts and check mig-parted configurations.")
def command() -> None:
    pass


command.add_command(profiles)
command.add_command(layouts)


@command.command(
    "plan",
    help="Plan a MIG layout: which instances stay, which are created, which pods must leave first.\n\n"
    "The goal is a layout, a configuration of a mig-parted FILE (each without --config), or a demand for "
    "memory. The GPUs are those of a node, or whole ones of a product. Nothing is changed. Exit status 1 "
    "if the plan is impossible, or a pod must leave first.",
    epilog=examples(
        "tonnage mig plan --node a100-0 --layout all-balanced",
        "tonnage mig plan --node a100-0 mig-parted.yaml --config mixed-workload",
        "tonnage mig plan --node a100-0 --layout all-1g.10gb --try-evictions",
        "tonnage mig plan --product A100-80 --layout 3g.40gb:1,2g.20gb:1,1g.10gb:2",
        "tonnage mig plan --product A100-80 --gpus 4 mig-parted.yaml",
        "tonnage mig plan --product A100-80 --demand 10x9800Mi --demand 2x40000Mi",
    ),
)
@click.argument("file", required=False, metavar="[FILE]")
@click.option("--config", metavar="NAME", help="The configuration of FILE to plan.")
@click.option(
    "--layout", metavar="LAYOUT", help="all-balanced, all-1g.10gb, all-disabled, or 1g.10gb:2,3g.40gb:1."
)
@click.option(
    "--demand",
    multiple=True,
    metavar="NxMEMORY",
    help="Plan for N services of this much memory each: 10x9800Mi.",
)
@click.option("--node", metavar="NODE", help="Node whose GPUs are partitioned.")
@click.option(
    "--product", metavar="PRODUCT", help="Plan for whole GPUs of this product instead of a node: A100-80."
)
@click.option(
    "--gpus",
    type=click.IntRange(1, _MOST_GPUS),
    default=1,
    show_default=True,
    help="Number of GPUs of --product.",
)
@click.option(
    "--try-evictions",
    is_flag=True,
    help="Ask the API server, in a dry run, whether the pods that must leave could be evicted now.",
)
@common_options(output=("text", "json", "yaml"), cluster=True, snapshot=True)
def plan(common: Common, file: str | None, **arguments: Unpack[MigRequest]) -> int:
    """Exit status 1 when it cannot be done, or somebody must go first."""
    layout, demand, config = arguments["layout"], arguments["demand"], arguments["config"]
    if sum((file is not None, layout is not None, bool(demand))) != 1:
        raise click.UsageError("give exactly one of FILE, --layout and --demand")
    if (arguments["node"] is None) == (arguments["product"] is None):
        raise click.UsageError("give --node or --product")
    if config is not None and file is None:
        raise click.UsageError("--config needs FILE")
    gpus_typed = click.get_current_context().get_parameter_source("gpus") is not ParameterSource.DEFAULT
    if gpus_typed and (demand or arguments["node"] is not None):
        raise click.UsageError(
            "--gpus says how many of --product are divided: a node has its own, and --demand finds it out"
        )
    if arguments["try_evictions"] and (arguments["node"] is None or common.snapshot is not None):
        raise click.UsageError("--try-evictions asks about the pods of a node in a live cluster: give --node")
    if demand:
        return _show_demand(common, arguments["product"], demand)
    gpus = _gpus(common, arguments["node"], arguments["product"] or "", arguments["gpus"])
    if gpus is None:
        return _show_unknown(common, arguments["node"] or "")
    planned = _goals(gpus, file, config, layout or "")
    node = arguments["node"]
    tried = _tried(common, node, planned) if arguments["try_evictions"] and node else {}
    return _show(common, planned, gpus.resets, tried)


def _tried(common: Common, node: str, planned: Mapping[str, tuple[GpuGoal, ...]]) -> Mapping[str, str]:
    """What the API server says to the eviction of whoever must go, by `namespace/name`."""
    from tonnage.agent.mig.eviction import ask_to_leave
    from tonnage.cli.cluster import connected
    from tonnage.decide.node.mig.obstacles import eviction_words
    from tonnage.loop.effects import ActionPorts
    from tonnage.loop.performer import Performer

    pods = sorted({pod for group in planned.values() for goal in group for pod in goal.evicts})

    async def ask() -> dict[str, str]:
        async with connected(common) as api:
            performer = Performer(ActionPorts(api=api))
            return {
                pod: eviction_words(
                    await ask_to_leave(api, performer, node, *pod.split("/", 1), dry_run=True)
                )
                for pod in pods
                if "/" in pod
            }

    return awaited(ask())


@command.command(
    "lint",
    help="Check mig-parted configurations, also in ConfigMaps: syntax, profiles and placement.",
    epilog=examples("tonnage mig lint mig-parted.yaml", "tonnage mig lint configmap.yaml -o json"),
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@common_options(output=("text", "json", "yaml", "sarif"))
def check(common: Common, files: tuple[str, ...]) -> int:
    """Exit status 1 for errors and warnings, 2 for what cannot be read."""
    from tonnage.cli.lint.command import check_mig_parted

    return check_mig_parted(common, files)


class _Gpus(NamedTuple):
    """The GPUs that are divided, which are reset together, and what their node's agent says of them."""

    gpus: tuple[MigGpu, ...]
    resets: Resets
    status: GpuStatus | None = None


def _gpus(common: Common, node: str | None, product: str, count: int) -> _Gpus | None:
    """None: what the node's agent reports may not be read, which is said. Raises ConfigError."""
    from tonnage.diagnose.mig.plans import gpus_of, pretended_gpus
    from tonnage.diagnose.mig.resets import resets_among

    if node is None:
        pretended = pretended_gpus(product, count)
        return _Gpus(pretended, resets_among(pretended))
    from tonnage.cli.cluster import snapshot_of, unread_of

    snapshot = awaited(snapshot_of(common, "mig plan"))
    statuses = snapshot.gpu
    if node not in statuses and unread_of(snapshot, "mig plan", "NodeGPUStatus"):
        return None
    if node not in statuses:
        near = get_close_matches(node, statuses, n=1)
        agents = f"nodes whose agent does: {', '.join([*statuses][:10])}"
        none = "install Tonnage's chart, or name a --product"
        if not snapshot.complete:
            none = "the file has no NodeGPUStatus: take it with tonnage snapshot, or name a --product"
        remedy = f"use {near[0]} if you meant that" if near else agents if statuses else none
        raise ConfigError(Problem(f"no agent reports the GPUs of node {node[:253]}", remedy=remedy))
    gpus = gpus_of(statuses[node])
    return _Gpus(gpus, resets_among(gpus, statuses[node]), statuses[node])


def _show_unknown(common: Common, node: str) -> int:
    if common.output != "text":
        emit({"items": [], "unread": ["NodeGPUStatus"]}, common.output)
    subject = f"the GPUs of {node[:253]} and their MIG layout are in NodeGPUStatus objects"
    say(f"UNKNOWN: {subject}, which were not read.", err=True)
    return 1


def _goals(
    there: _Gpus, file: str | None, config: str | None, layout: str
) -> Mapping[str, tuple[GpuGoal, ...]]:
    from tonnage.decide.node.mig.goal import goals_by_entries, goals_by_layout
    from tonnage.diagnose.mig.plans import healthy_goals

    gpus, status = there.gpus, there.status
    if file is None:
        return {layout: healthy_goals(goals_by_layout(gpus, layout), status)}
    configs = _read(file)
    if config is not None and config not in configs:
        near = get_close_matches(config, configs, n=1)
        remedy = f"use {near[0]} if you meant that" if near else f"there are {', '.join([*configs][:20])}"
        raise ConfigError(Problem(f"no configuration {config[:60]}", file, remedy=remedy))
    chosen = [config] if config is not None else [*configs]
    return {name: healthy_goals(goals_by_entries(gpus, configs[name]), status) for name in chosen}


def _read(name: str) -> MigConfigs:
    from tonnage.cli.lint.files import read_files
    from tonnage.documents.mig.layouts import parse_mig_parted

    files = read_files((name,), recursive=False)
    if files.problems or len(files.texts) != 1:
        raise ConfigError(*(files.problems or (Problem("give one file", name),)))
    return parse_mig_parted(files.texts[0].content, source=name)


def _show(
    common: Common, planned: Mapping[str, tuple[GpuGoal, ...]], resets: Resets, tried: Mapping[str, str]
) -> int:
    from tonnage.diagnose.mig.plans import goal_json, goal_lines

    goals = [goal for group in planned.values() for goal in group]
    if common.output != "text":
        items: list[JsonValue] = [
            {"config": name, "gpus": [goal_json(goal, resets) for goal in group]}
            for name, group in planned.items()
        ]
        evictions: list[JsonValue] = [{"pod": pod, "answer": answer} for pod, answer in tried.items()]
        answers: JsonObject = {"evictions": evictions} if tried else {}
        emit({"items": items, **answers}, common.output)
    else:
        for name, group in planned.items():
            say(f"{name}{_unmeant(group)}")
            turned = frozenset(goal.gpu.index for goal in group if goal.mode)
            for line in (line for goal in group for line in goal_lines(goal, resets, turned)):
                say(f"  {line}")
        if tried:
            say("evictions, in a dry run")
        for pod, answer in tried.items():
            say(f"  {pod}: {_in_a_dry_run(answer)}")
    return int(any(goal.refusal is not None or goal.evicts for goal in goals))


def _unmeant(goals: tuple[GpuGoal, ...]) -> str:
    """That a configuration says nothing of any of the GPUs, most often by its filters."""
    if any(goal.plan is not None or goal.refusal is not None for goal in goals):
        return ""
    products = sorted({goal.gpu.product for goal in goals})
    return f": none of its entries is for {' or '.join(products) or 'these GPUs'}" if products else ""


def _in_a_dry_run(answer: str) -> str:
    return (
        "would be evicted"
        if answer == "evicted"
        else answer.replace("not evicted:", "would not be evicted:", 1)
    )


def _show_demand(common: Common, product: str | None, demand: tuple[str, ...]) -> int:
    from tonnage.diagnose.mig.plans import demand_json, demand_lines, demand_on
    from tonnage.model.reasons.gpu.mig import MigMemoryShort

    if product is None:
        raise click.UsageError("--demand is packed on whole GPUs: give --product")
    packed = demand_on(product, _services(demand))
    if common.output != "text":
        emit(demand_json(packed), common.output)
    else:
        say(lines(demand_lines(packed)))
    return int(isinstance(packed.packing, MigMemoryShort))


def _services(demand: tuple[str, ...]) -> dict[int, int]:
    services: dict[int, int] = {}
    wrong: list[str] = []
    for text in (part.strip() for text_of_flag in demand for part in text_of_flag.split(",")):
        match = _DEMAND.fullmatch(text)
        count, mib = (int(match[1]), int(match[2]) * (1024 if match[3] == "Gi" else 1)) if match else (0, 0)
        if not count or not mib:
            wrong.append(f"--demand {text[:60]}: write number x memory, such as 10x9800Mi or 2x40Gi")
        services[mib] = services.get(mib, 0) + count
    if wrong:
        raise click.UsageError("\n".join(wrong))
    return services
