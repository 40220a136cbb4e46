"""What `tonnage simulate` tries: its flags, and the file of alternatives; manifests are read where named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeVar

from tonnage.cli.locations.labs_and_scenarios import read_text
from tonnage.documents.changes import amount_of, chosen_nodes, parse_changes
from tonnage.model import changes as m
from tonnage.model.errors import ConfigError, Problem
from tonnage.model.kubernetes.cluster import Manifest, Snapshot

AFTER: Final = "after"
_MOST: Final = 1_000_000
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ChangeFlags:
    """The flags as they were given; each may be repeated."""

    add_nodes: Sequence[str] = ()
    set_mig: Sequence[str] = ()
    set_sharing: Sequence[str] = ()
    uncordon: Sequence[str] = ()
    cordon: Sequence[str] = ()
    drain: Sequence[str] = ()
    remove_nodes: Sequence[str] = ()
    add_workload: Sequence[str] = ()
    scale: Sequence[str] = ()
    replay: bool = False


def alternatives_of(flags: ChangeFlags, filename: Path | None, namespace: str) -> tuple[m.Alternative, ...]:
    """What is tried: the alternatives of the file, each after the changes of the flags; or those alone.

    Raises:
        ConfigError: everything that is wrong with flags and file.
    """
    problems: list[Problem] = []
    changes = [*_changes(flags, namespace, problems)]
    alternatives: tuple[m.Alternative, ...] = (m.Alternative(AFTER),)
    if filename is not None:
        try:
            alternatives = parse_changes(read_text(filename), source=str(filename), namespace=namespace)
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(*problems)
    return tuple(
        replace(alternative, changes=(*changes, *alternative.changes)) for alternative in alternatives
    )


def with_manifests(
    alternatives: tuple[m.Alternative, ...], snapshot: Snapshot, namespace: str, folder: Path
) -> tuple[tuple[m.Alternative, ...], Snapshot]:
    """The same with the files of workloads read; and the cluster with the claims and classes that they bring.

    A file named in a file lies relative to that one's `folder`. Raises ConfigError: all that is wrong.
    """
    from tonnage.reading.documents import in_file
    from tonnage.reading.manifests import added_manifests, read_manifests

    problems: list[Problem] = []
    read: dict[str, tuple[Manifest, ...]] = {}
    for change in (change for alternative in alternatives for change in alternative.changes):
        if isinstance(change, m.AddWorkload) and change.source not in read:
            flag = change.where.startswith("--")
            try:
                path = Path(change.source) if flag else folder / change.source
                documents = read_manifests(read_text(path), str(path))
                read[change.source], snapshot = added_manifests(documents, snapshot, namespace)
            except ConfigError as error:
                problems += in_file(error, str(path)).problems
                read[change.source] = ()
    if problems:
        raise ConfigError(*problems)

    def filled(change: m.Change) -> m.Change:
        if not isinstance(change, m.AddWorkload):
            return change
        return replace(change, manifests=read[change.source])

    return tuple(
        replace(alternative, changes=tuple(map(filled, alternative.changes))) for alternative in alternatives
    ), snapshot


def _changes(flags: ChangeFlags, namespace: str, problems: list[Problem]) -> list[m.Change]:
    """The flags' changes: nodes come, are set, are cordoned and go; then workloads."""
    changes: list[m.Change] = []

    def add_each(name: str, values: Sequence[str], make: Callable[[str, str], m.Change], form: str) -> None:
        for value in values:
            where = f"--{name} {value[:200]}"
            try:
                changes.append(make(value, where))
            except ValueError as error:
                problems.append(Problem(str(error), where, remedy=f"write --{name} {form}"))

    add_each("add-nodes", flags.add_nodes, _add_nodes, "2=a100-0 or 2=H100-80x8,cpu=96,memory=1Ti")
    add_each("set-mig", flags.set_mig, _set_mig, "'a100-*=all-1g.10gb' or 'pool=a100=3g.40gb:1,1g.10gb:3'")
    add_each("set-sharing", flags.set_sharing, _set_sharing, "'t4-*=4' or 't4-*=4,rename'")
    add_each(
        "uncordon", flags.uncordon, lambda v, w: m.CordonNode(chosen_nodes(v), undo=True, where=w), "'a100-*'"
    )
    add_each("cordon", flags.cordon, lambda v, w: m.CordonNode(chosen_nodes(v), where=w), "'a100-*'")
    add_each("drain", flags.drain, lambda v, w: m.Drain(chosen_nodes(v), w), "'a100-*'")
    add_each("remove-nodes", flags.remove_nodes, lambda v, w: m.RemoveNodes(chosen_nodes(v), w), "'a100-*'")
    add_each("add-workload", flags.add_workload, _add_workload, "train.yaml or train.yaml=4")
    add_each(
        "scale",
        flags.scale,
        lambda v, w: _scale(v, w, namespace),
        "deployment/chat=6 or ml/deployment/chat=6",
    )
    if flags.replay:
        changes.append(m.Replay("--replay"))
    return changes


def _halves(text: str) -> tuple[str, str]:
    left, equals, right = text.rpartition("=")
    if not (equals and left and right):
        raise ValueError("= is missing, or a side of it is empty")
    return left, right


def _number(text: str, noun: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 8) or int(text) > _MOST:
        raise ValueError(f"{text[:40]} is not a number of {noun}")
    return int(text)


def _set_mig(text: str, where: str) -> m.Change:
    nodes, layout = _halves(text)
    return m.SetMig(chosen_nodes(nodes), layout, where=where)


def _set_sharing(text: str, where: str) -> m.Change:
    nodes, how = _halves(text)
    count, comma, rename = how.partition(",")
    if comma and rename != "rename":
        raise ValueError(f"{rename[:40]} is not rename")
    replicas = _number(count, "replicas")
    if not 1 <= replicas <= 1000:
        raise ValueError("1 to 1000 replicas")
    return m.SetSharing(chosen_nodes(nodes), replicas, bool(comma), where=where)


def _add_nodes(text: str, where: str) -> m.Change:
    number, equals, description = text.partition("=")
    count = _number(number, "nodes")
    kind, *more = description.split(",")
    if not (equals and kind and 1 <= count <= 50_000):
        raise ValueError("1 to 50000 nodes, and what they are like")
    amounts = {}
    for part in more:
        name, _, value = part.partition("=")
        if name not in ("cpu", "memory", "pods"):
            raise ValueError(f"{name[:40]} is not cpu, memory or pods")
        amounts[name] = amount_of(name, value)
    product, _, gpus = kind.rpartition("x")
    if product and gpus.isdigit() and amounts:
        return m.AddNodes(count, product=product, gpus=_number(gpus, "GPUs"), amounts=amounts, where=where)
    return m.AddNodes(count, like=kind, amounts=amounts, where=where)


def _add_workload(text: str, where: str) -> m.Change:
    source, equals, number = text.rpartition("=")
    if not equals or not source:
        return m.AddWorkload(text, where=where)
    return m.AddWorkload(source, _number(number, "pods"), where=where)


def _scale(text: str, where: str, namespace: str) -> m.Change:
    name, number = _halves(text)
    *before, last = name.split("/")
    if len(before) > 2 or not all((*before, last)):
        raise ValueError("a workload is NAME, KIND/NAME or NAMESPACE/KIND/NAME")
    kind = before[-1] if before else ""
    space = before[0] if len(before) == 2 else namespace
    return m.ScaleWorkload(kind, space, last, _number(number, "pods"), where)
