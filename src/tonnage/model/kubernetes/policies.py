"""What the API server asks before it lets a pod exist: quotas' scopes, limit ranges, classes and webhooks.

Source: the Kubernetes API: core v1, node.k8s.io v1, admissionregistration.k8s.io v1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tonnage.model.kubernetes.selectors import Labels, LabelSelector, Toleration


@dataclass(frozen=True, slots=True)
class QuotaScope:
    """One of a quota's scopes, of which a pod must match all; those under `spec.scopes` are `Exists`."""

    name: str
    operator: str = "Exists"
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LimitItem:
    """A row of a LimitRange, quantities as written; `type` is `Container`, `Pod` or another."""

    type: str
    least: Labels = field(default_factory=dict)
    most: Labels = field(default_factory=dict)
    default: Labels = field(default_factory=dict)
    default_request: Labels = field(default_factory=dict)
    ratio: Labels = field(default_factory=dict)
    """The most that a limit may be, as a multiple of the request."""


@dataclass(frozen=True, slots=True)
class LimitRange:
    """What containers and pods of a namespace may ask for, and what they get that do not ask."""

    namespace: str
    name: str
    items: tuple[LimitItem, ...] = ()


@dataclass(frozen=True, slots=True)
class RuntimeClass:
    """A runtime class: what it adds to a pod. `overhead` is in the scheduler's units."""

    name: str
    handler: str = ""
    overhead: Mapping[str, int] = field(default_factory=dict)
    node_selector: Labels = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()


@dataclass(frozen=True, slots=True)
class WebhookRule:
    """What a webhook is asked about; `*` stands for all."""

    operations: tuple[str, ...]
    groups: tuple[str, ...]
    resources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Webhook:
    """A webhook of a configuration, or a validating `policy` that denies. `service` is (namespace, name),
    None for one at a URL; `query` is what stands behind the name in its URL: port, path, timeout.

    `must_answer`: a pod is refused when it cannot be asked. `conditional`: CEL conditions decide further.
    """

    configuration: str
    name: str
    mutating: bool
    service: tuple[str, str] | None = None
    must_answer: bool = True
    conditional: bool = False
    namespaces: LabelSelector = field(default_factory=LabelSelector)
    objects: LabelSelector = field(default_factory=LabelSelector)
    rules: tuple[WebhookRule, ...] = ()
    query: str = ""
    policy: bool = False


@dataclass(frozen=True, slots=True)
class Quota:
    """A ResourceQuota: hard limits and what is used, as written; with scopes it counts only some pods.

    `counted`: the quota controller has been there, so `hard` and `used` are its own. `spec_hard`: as the spec
    asks, which the controller may have yet to take over.
    """

    namespace: str
    name: str
    hard: Labels = field(default_factory=dict)
    used: Labels = field(default_factory=dict)
    scopes: tuple[QuotaScope, ...] = ()
    counted: bool = False
    spec_hard: Labels = field(default_factory=dict)
