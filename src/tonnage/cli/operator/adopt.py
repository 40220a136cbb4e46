"""`tonnage operator adopt` and `release`: nodes taken over from NVIDIA's operator, and given back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import click

from tonnage.cli.cluster import connected
from tonnage.cli.operator.namespaces import (
    OPERATOR_NAMESPACE,
    agents_namespace_option,
    named_namespaces,
    operator_namespace_option,
    require_namespaces,
)
from tonnage.cli.options import Common, common_options, examples
from tonnage.cli.terminal.output import emit, line, say
from tonnage.cli.terminal.tables import table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tonnage.adapters.kubernetes.http import HttpKubernetes
    from tonnage.cli.operator.handover import (
        Direction,
        HandoverOptions,
        HandoverView,
        NodeEnd,
    )
    from tonnage.decide.cluster.adopt.node_steps import AdoptionStep
    from tonnage.model.json import JsonValue

_NOBODY: Final = "No node has a device plugin of NVIDIA's operator."
_NONE_ADOPTED: Final = "No node is adopted."


def _options(wrapped: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option(
            "--timeout",
            default=300,
            show_default=True,
            metavar="SECONDS",
            type=click.IntRange(1, 86400),
            help="How long one node may take; then it goes back, or is left waiting.",
        ),
        click.option(
            "--parallel",
            default=1,
            show_default=True,
            metavar="N",
            type=click.IntRange(1, 1000),
            help="How many nodes change hands at a time.",
        ),
        agents_namespace_option,
        operator_namespace_option(
            "Where NVIDIA's operator and its DaemonSets are; nodes that were adopted have it noted."
        ),
        click.option(
            "-l",
            "--selector",
            default="",
            metavar="LABELS",
            help="Only nodes with these labels, as kubectl selects them.",
        ),
        click.option(
            "--node", "nodes", multiple=True, metavar="NAME", help="Only this node; may be repeated."
        ),
        click.option("--dry-run", is_flag=True, help="Show the next steps without taking them."),
    ):
        wrapped = option(wrapped)
    return wrapped


@click.command(
    help="Take GPU nodes over from a running NVIDIA operator, one after another.\n\n"
    "The agents must wait for it (Helm: adoption.enabled=true). The operator is scaled to 0; each node is"
    " cordoned, its NVIDIA device plugin taken off, and the agent offers the devices in its place. A node"
    " whose devices are not as before goes back, and the command stops. Pods keep their GPUs throughout."
    " It may be stopped and run again at any time.",
    epilog=examples(
        "tonnage operator adopt --dry-run",
        "tonnage operator adopt --node gpu-0",
        "tonnage operator adopt --parallel 10",
        "tonnage operator adopt --finish",
    ),
)
@_options
@click.option(
    "--finish",
    is_flag=True,
    help="NVIDIA's operator is uninstalled: take the labels and notes of the handover off the nodes.",
)
@common_options(output=("text", "json", "yaml"), cluster=True)
def adopt(common: Common, *, finish: bool, **values: Any) -> int:
    """Exit status 1 unless every node is adopted."""
    from tonnage.cli.operator.handover import Direction

    if finish:
        return asyncio.run(_finish(common, **values))
    return asyncio.run(_run(common, Direction.ADOPT, **values))


@click.command(
    help="Give adopted GPU nodes back to NVIDIA's operator, one after another.\n\n"
    "The agent withdraws the devices, NVIDIA's pods come back, and once no node is adopted any more the"
    " operator has the replicas that it had before. Pods keep their GPUs throughout. It may be stopped and"
    " run again at any time.",
    epilog=examples("tonnage operator release --dry-run", "tonnage operator release"),
)
@_options
@common_options(output=("text", "json", "yaml"), cluster=True)
def release(common: Common, **values: Any) -> int:
    """Exit status 1 unless every node is back."""
    from tonnage.cli.operator.handover import Direction

    return asyncio.run(_run(common, Direction.RELEASE, **values))


async def _run(common: Common, direction: Direction, *, dry_run: bool, **values: Any) -> int:
    from tonnage.adapters.clock import SystemClock
    from tonnage.cli.operator.handover import Direction, Handover

    named, as_text = named_namespaces(), common.output == "text"
    options = _handover_options(**values)

    def say_step(node: str, words: str) -> None:
        if as_text:
            say(line(f"{node}: {words}" if node else words))

    async with connected(common) as api:
        options = await _placed(api, options, named)
        handover = Handover(api, SystemClock(), options, say_step)
        if dry_run:
            return _show_plan(await handover.look(), direction, common.output)
        ends = await handover.run(direction)
    nobody = _NOBODY if direction is Direction.ADOPT else _NONE_ADOPTED
    return _show_ends(ends, common.output, nobody)


async def _finish(common: Common, *, dry_run: bool, **values: Any) -> int:
    from tonnage.adapters.clock import SystemClock
    from tonnage.cli.operator.finish import finish_adoption, steps_to_finish
    from tonnage.cli.operator.handover import Handover

    named, as_text = named_namespaces(), common.output == "text"
    options = _handover_options(**values)

    def say_step(node: str, words: str) -> None:
        if as_text:
            say(line(f"{node}: {words}"))

    async with connected(common) as api:
        options = await _placed(api, options, named)
        handover = Handover(api, SystemClock(), options, say_step)
        if dry_run:
            steps = steps_to_finish(await handover.look())
            return _show_steps("NVIDIA's operator: no Deployment", steps, _NONE_ADOPTED, common.output)
        ends = await finish_adoption(handover, api, SystemClock(), options.patience_s, say_step)
    return _show_ends(ends, common.output, f"{_NONE_ADOPTED} There is nothing to finish.")


async def _placed(api: HttpKubernetes, options: HandoverOptions, named: Mapping[str, str]) -> HandoverOptions:
    """The options with the namespace from which nodes were adopted, which may be gone by now.

    Raises ConfigError: an option contradicts it, or names a namespace that does not exist.
    """
    from tonnage.cli.operator.adopted_from import recorded_operator_namespace

    recorded = await recorded_operator_namespace(api, named.get(OPERATOR_NAMESPACE))
    if recorded is None:
        await require_namespaces(api, named)
        return options
    await require_namespaces(
        api, {option: name for option, name in named.items() if option != OPERATOR_NAMESPACE}
    )
    return replace(options, operator_namespace=recorded)


def _handover_options(
    nodes: tuple[str, ...],
    selector: str,
    operator_namespace: str,
    agents_namespace: str,
    parallel: int,
    timeout: int,
) -> HandoverOptions:
    from tonnage.cli.operator.handover import HandoverOptions

    if nodes and selector:
        raise click.UsageError("--node and --selector exclude each other")
    return HandoverOptions(operator_namespace, agents_namespace, nodes, selector, parallel, float(timeout))


def _show_plan(view: HandoverView, direction: Direction, output: str) -> int:
    """The next step of each node; exit status 1 where one waits or is refused."""
    from tonnage.cli.operator.handover import Direction
    from tonnage.decide.cluster.adopt.node_steps import next_adoption, next_release

    decide = next_adoption if direction is Direction.ADOPT else next_release
    steps = {name: decide(facts) for name, facts in view.nodes.items()}
    return _show_steps(_operator_words(view, direction), steps, _NOBODY, output)


def _show_steps(operator: str, steps: Mapping[str, AdoptionStep], nobody: str, output: str) -> int:
    rows = [(name, *_step_words(step)) for name, step in steps.items()]
    if output == "text":
        say(operator)
        say(table(("NODE", "NEXT", "WHY"), rows) if rows else nobody)
    else:
        nodes: list[JsonValue] = [{"node": node, "next": state, "why": why} for node, state, why in rows]
        emit({"operator": operator, "nodes": nodes}, output)
    return int(any(state in ("wait", "refused") for _, state, _ in rows))


def _step_words(step: AdoptionStep) -> tuple[str, str]:
    from tonnage.decide.cluster.adopt.node_steps import AwaitNode, ChangeNode, RefuseNode

    if isinstance(step, ChangeNode):
        return "change", step.why
    if isinstance(step, AwaitNode):
        return "wait", step.why
    if isinstance(step, RefuseNode):
        return "refused", str(step)
    return "none", step.why


def _operator_words(view: HandoverView, direction: Direction) -> str:
    """What would become of NVIDIA's operator."""
    from tonnage.cli.operator.handover import Direction
    from tonnage.decide.cluster.adopt.operator_deployment import paused, resumed
    from tonnage.model.reasons.cluster.operator import OperatorScaledUp

    operator = view.operator
    if operator is None:
        return "NVIDIA's operator: no Deployment"
    where = f"Deployment {operator.namespace}/{operator.name}"
    if direction is Direction.ADOPT:
        step = paused(operator)
        if isinstance(step, OperatorScaledUp):
            return str(line(f"{where}: {step.message}"))
        return str(line(f"{where}: {'stays at 0' if step is None else 'would be scaled to 0'}"))
    back = resumed(operator)
    words = "stays as it is" if back is None else f"would be scaled to {back.replicas} at the end"
    return str(line(f"{where}: {words}"))


def _show_ends(ends: Mapping[str, tuple[NodeEnd, str]], output: str, nobody: str) -> int:
    from tonnage.cli.operator.handover import NodeEnd

    done = sum(1 for end, _ in ends.values() if end is NodeEnd.DONE)
    if output == "text" and not ends:
        say(nobody)
    elif output == "text":
        rows = [
            (name, end.value, why) for name, (end, why) in sorted(ends.items()) if end is not NodeEnd.DONE
        ]
        if rows:
            say(table(("NODE", "STATE", "WHY"), rows))
        say(f"{done} of {len(ends)} nodes are done.")
    else:
        nodes: list[JsonValue] = [
            {"node": name, "state": end.value, "why": why} for name, (end, why) in sorted(ends.items())
        ]
        emit({"nodes": nodes}, output)
    return 0 if done == len(ends) else 1
