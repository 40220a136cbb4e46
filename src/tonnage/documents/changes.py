"""What a what-if tries: named alternatives of changes, out of YAML.

alternatives:
- name: small
  changes:
  - setMig: {nodes: "a100-*", layout: all-1g.10gb}
  - addWorkload: {file: inference.yaml, replicas: 12}
- name: mixed
  changes:
  - setMig: {nodes: "pool=a100", layout: {3g.40gb: 1, 1g.10gb: 3}, devices: [0, 1]}
  - setSharing: {nodes: "t4-*", replicas: 4, rename: true}
  - addNodes: {count: 2, like: a100-0}
  - addNodes: {count: 1, product: H100-80, gpus: 8, cpu: 96, memory: 1Ti}
  - scale: {kind: Deployment, namespace: ml, name: chat, replicas: 6}
  - drain: {nodes: a100-3}            # and cordon, uncordon, removeNodes
  - removeWorkload: {namespace: ml, name: old}
  - replay: {}
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, model_validator

from tonnage.documents.node_groups import parse_taint
from tonnage.documents.yaml.reader import MarkedDocument, parse_yaml
from tonnage.documents.yaml.reader import Path as FieldPath
from tonnage.documents.yaml.source import Document, DocumentFieldError, validate
from tonnage.documents.yaml.spelling import ALTERNATIVE_NAME
from tonnage.model import changes as m
from tonnage.model.errors import ConfigError, Problem
from tonnage.model.kubernetes.quantity import integer_value, milli_value

MOST_ALTERNATIVES: Final = 16
MOST_CHANGES: Final = 1000
MOST_COUNT: Final = 1_000_000
_Count = Annotated[int, Field(ge=0, le=MOST_COUNT)]
_Text = Annotated[str, Field(min_length=1, max_length=253)]


def chosen_nodes(text: str) -> m.NodeSelection:
    """Nodes by a pattern of their name and by labels, separated by commas.

    >>> str(chosen_nodes("a100-*")), str(chosen_nodes("pool=a100,zone=a"))
    ('a100-*', 'pool=a100,zone=a')

    Raises:
        ValueError: a part that is empty, or more than one pattern.
    """
    names, labels = [], {}
    for part in (part.strip() for part in text.split(",")):
        key, equals, value = part.partition("=")
        if equals and key:
            labels[key] = value
        elif part and not equals:
            names.append(part)
        else:
            raise ValueError(f"no nodes are chosen by {text[:60]!r}")
    if len(names) > 1:
        raise ValueError(f"more than one pattern of names: {', '.join(names)[:60]}")
    return m.NodeSelection(names[0] if names else "*", labels)


def _nodes(text: str) -> str:
    try:
        chosen_nodes(text)
    except ValueError as error:
        raise DocumentFieldError(
            str(error), remedy="write a pattern of names (a100-*) or labels (pool=a100)"
        ) from None
    return text


Nodes = Annotated[str, AfterValidator(_nodes)]


class _OfNodes(Document):
    nodes: Nodes


class _SetMig(_OfNodes):
    layout: Annotated[str, Field(max_length=200)] | Annotated[dict[str, _Count], Field(max_length=32)]
    devices: tuple[Annotated[int, Field(ge=0, lt=64)], ...] | None = None
    strategy: Literal["", "single", "mixed"] = ""

    @model_validator(mode="after")
    def _some(self) -> _SetMig:
        if self.devices is not None and not 0 < len(self.devices) <= MOST_CHANGES:
            raise DocumentFieldError("devices is empty", remedy="give indices, or leave devices out for all")
        return self


class _SetSharing(_OfNodes):
    replicas: Annotated[int, Field(ge=1, le=1000)]
    rename: bool = False
    resource: Annotated[str, Field(max_length=63)] = ""


class _AddNodes(Document):
    count: Annotated[int, Field(ge=1, le=50_000)]
    like: Annotated[str, Field(max_length=253)] = ""
    product: Annotated[str, Field(max_length=63)] = ""
    gpus: Annotated[int, Field(ge=0, le=64)] = 0
    cpu: str | int | None = None
    memory: str | int | None = None
    pods: str | int | None = None
    labels: Annotated[dict[str, str], Field(max_length=100)] = Field(default={})
    taints: Annotated[tuple[str, ...], Field(max_length=100)] = ()

    @model_validator(mode="after")
    def _one_kind(self) -> _AddNodes:
        if bool(self.like) == bool(self.product):
            raise DocumentFieldError(
                "give either like or product", remedy="like: a100-0, or product: H100-80"
            )
        if self.product and not self.gpus:
            raise DocumentFieldError("the number of GPUs of a node is missing", remedy="gpus: 8")
        return self


class _AddWorkload(Document):
    file: Annotated[str, Field(min_length=1, max_length=4096)]
    replicas: _Count | None = None


class _Workload(Document):
    kind: Annotated[str, Field(max_length=63)] = ""
    namespace: Annotated[str, Field(max_length=63)] = ""
    name: _Text


class _Scale(_Workload):
    replicas: _Count


class _Nothing(Document):
    pass


class ChangeDocument(Document):
    """One change: just one of the fields."""

    set_mig: _SetMig | None = None
    set_sharing: _SetSharing | None = None
    drain: _OfNodes | None = None
    cordon: _OfNodes | None = None
    uncordon: _OfNodes | None = None
    remove_nodes: _OfNodes | None = None
    add_nodes: _AddNodes | None = None
    add_workload: _AddWorkload | None = None
    scale: _Scale | None = None
    remove_workload: _Workload | None = None
    replay: _Nothing | None = None

    @model_validator(mode="after")
    def _exactly_one_kind(self) -> ChangeDocument:
        set_kinds = [name for name, value in self if value is not None]
        if len(set_kinds) != 1:
            names = ", ".join(field.alias or name for name, field in type(self).model_fields.items())
            raise DocumentFieldError("a change must have exactly one kind", remedy=f"one of {names}")
        return self


class _Alternative(Document):
    name: Annotated[str, Field(pattern=ALTERNATIVE_NAME)]
    changes: Annotated[tuple[ChangeDocument, ...], Field(max_length=MOST_CHANGES)] = ()


class ChangesDocument(Document):
    """The whole file."""

    alternatives: Annotated[tuple[_Alternative, ...], Field(max_length=MOST_ALTERNATIVES)]

    @model_validator(mode="after")
    def _names(self) -> ChangesDocument:
        names = [alternative.name for alternative in self.alternatives]
        if not names:
            raise DocumentFieldError(
                "no alternative", remedy="name one: alternatives: [{name: a, changes: []}]"
            )
        again = next((name for name in names if names.count(name) > 1 or name == "before"), None)
        if again is not None:
            raise DocumentFieldError(
                f"the name {again} is taken", remedy="give each alternative a name of its own"
            )
        return self


def parse_changes(text: str, *, source: str, namespace: str = "default") -> tuple[m.Alternative, ...]:
    """The alternatives of a file. Workloads are named by their file, which is yet to be read.

    Raises:
        ConfigError: everything that is wrong with it.
    """
    located = parse_yaml(text, source=source)
    document = validate(located, ChangesDocument)
    problems: list[Problem] = []
    alternatives = []
    for number, alternative in enumerate(document.alternatives):
        changes: list[m.Change] = []
        for index, change in enumerate(alternative.changes):
            path: FieldPath = ("alternatives", number, "changes", index)
            try:
                changes.append(_change(change, located, path, namespace))
            except ValueError as error:
                problems.append(Problem(str(error), located.where(path)))
        alternatives.append(m.Alternative(alternative.name, tuple(changes)))
    if problems:
        raise ConfigError(*problems)
    return tuple(alternatives)


def _change(document: ChangeDocument, located: MarkedDocument, path: FieldPath, namespace: str) -> m.Change:
    where = located.where(path)
    if document.set_mig is not None:
        mig = document.set_mig
        layout = mig.layout if isinstance(mig.layout, str) else written_layout(mig.layout)
        return m.SetMig(chosen_nodes(mig.nodes), layout, mig.devices, mig.strategy, where)
    if document.set_sharing is not None:
        sharing = document.set_sharing
        nodes = chosen_nodes(sharing.nodes)
        return m.SetSharing(nodes, sharing.replicas, sharing.rename, sharing.resource, where)
    if document.add_nodes is not None:
        return _added(document.add_nodes, where)
    if document.add_workload is not None:
        return m.AddWorkload(document.add_workload.file, document.add_workload.replicas, where=where)
    workload = document.scale or document.remove_workload
    if workload is not None:
        replicas = document.scale.replicas if document.scale is not None else 0
        return m.ScaleWorkload(workload.kind, workload.namespace or namespace, workload.name, replicas, where)
    return _plain(document, where)


def _plain(document: ChangeDocument, where: str) -> m.Change:
    if document.drain is not None:
        return m.Drain(chosen_nodes(document.drain.nodes), where)
    if document.cordon is not None:
        return m.CordonNode(chosen_nodes(document.cordon.nodes), where=where)
    if document.uncordon is not None:
        return m.CordonNode(chosen_nodes(document.uncordon.nodes), undo=True, where=where)
    if document.remove_nodes is not None:
        return m.RemoveNodes(chosen_nodes(document.remove_nodes.nodes), where)
    return m.Replay(where)


def _added(nodes: _AddNodes, where: str) -> m.AddNodes:
    quantities = {"cpu": nodes.cpu, "memory": nodes.memory, "pods": nodes.pods}
    amounts = {name: amount_of(name, value) for name, value in quantities.items() if value is not None}
    taints = tuple(parse_taint(text) for text in nodes.taints)
    return m.AddNodes(
        nodes.count, nodes.like, nodes.product, nodes.gpus, amounts, nodes.labels, taints, where
    )


def amount_of(name: str, value: str | int) -> int:
    """An amount in the scheduler's units. Raises ValueError."""
    text = str(value)
    amount = milli_value(text) if name == "cpu" else integer_value(text)
    if amount <= 0:
        raise ValueError(f"{name}: {text[:40]} is not positive")
    return amount


def written_layout(counts: dict[str, int]) -> str:
    """A layout as a text: `3g.40gb:1,1g.10gb:3`."""
    return ",".join(f"{profile}:{count}" for profile, count in counts.items())
