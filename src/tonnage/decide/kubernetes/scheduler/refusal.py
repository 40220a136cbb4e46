"""FilterPlugin: the shape of a filter, and its refusal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from tonnage.decide.kubernetes.view import ClusterView, NodeView
from tonnage.model.kubernetes.cluster import Pod
from tonnage.model.reasons.reason import Reason


@dataclass(frozen=True, slots=True)
class PluginRefusal:
    """Why one plugin refuses one node. `texts` are upstream's words, each counted once in its message.

    `unresolvable`: preemption cannot help (UnschedulableAndUnresolvable). `fatal`: the plugin fails, and with
    it the attempt on all nodes; `texts` is the error then. `unknown`: what hides the answer.
    """

    plugin: str
    texts: tuple[str, ...]
    unresolvable: bool
    reasons: tuple[Reason, ...]
    fatal: bool = False
    unknown: str = ""


Check: TypeAlias = Callable[[NodeView], PluginRefusal | None]
"""Judges one node for the pod it was prepared for."""


class Filter(Protocol):
    """A filter is a module: its upstream name, and a function that looks at the cluster once per pod."""

    @property
    def NAME(self) -> str:  # noqa: N802 a module constant seen as a property
        """The plugin's name upstream."""
        ...

    def prepare(self, pod: Pod, view: ClusterView, /) -> Check | None:
        """The check for every node, or None when the filter has nothing to say about this pod."""
        ...
