"""What helps a pod that asks for a MIG device: GPUs partitioned for it, a larger MIG device, a whole GPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from tonnage.decide.kubernetes.requests import is_extended
from tonnage.decide.kubernetes.view import ClusterView, NodeView
from tonnage.diagnose.related_resources import profile_of, serves
from tonnage.diagnose.remedies.remedy_edit import RemedyEdit
from tonnage.model.catalog.mig import mig_model
from tonnage.model.kubernetes.cluster import Pod
from tonnage.model.names import GPU, PRODUCT_LABEL
from tonnage.model.node.device_counts import device_count

_CONFIG: Final = "nvidia.com/mig.config"
_STRATEGY: Final = "nvidia.com/mig.strategy"
_UNPARTITIONED: Final = "all-disabled"
_REPAIR: Final = 9
_CONCESSION: Final = 32
"""More than waiting costs: a larger device is kept from those who need all of it."""


def larger_device(pod: Pod, node: NodeView, resource: str) -> RemedyEdit | None:
    """The smallest MIG device that is free on the node and does as well, else a whole GPU."""
    if profile_of(resource) is None:
        return None
    amount = sum(container.requests.get(resource, 0) for container in pod.containers)
    free = {
        name: count - node.requested.get(name, 0)
        for name, count in node.node.allocatable.items()
        if is_extended(name)
    }
    serving = [name for name, left in free.items() if serves(name, resource) and left >= max(1, amount)]
    shares = device_count(node.node, GPU).shared
    if not serving and free.get(GPU, 0) >= max(1, amount) and not (shares and amount > 1):
        serving = [GPU]  # several replicas are no substitute for several devices
    if not serving:
        return None
    name = min(serving, key=lambda other: (_size(other), other))
    whole = f"a {'share of a' if shares else 'whole'} GPU instead of a part"
    instead = whole if name == GPU else "a larger part of a GPU"
    cost = _CONCESSION + (10 if name == GPU else _size(name)[0])
    return RemedyEdit(
        f"rename {resource} {name}",
        f"ask for {name} instead of {resource}: {instead}",
        cost,
        on_pod=renaming(resource, name),
    )


def partition(pod: Pod, node: NodeView, resource: str) -> RemedyEdit | None:
    """Partition the node's GPUs for the profile, where no pod uses any of them."""
    profile, labels = profile_of(resource), node.node.labels
    model = mig_model(labels[PRODUCT_LABEL]) if PRODUCT_LABEL in labels else None
    if profile is None or profile.compute is not None or model is None or _in_use(node):
        return None
    kind = model.profiles.get(str(profile))
    gpus = node.node.capacity.get(GPU, 0)
    if kind is None or gpus < 1 or profile.engines or labels.get(_STRATEGY, "mixed") != "mixed":
        return None
    if labels.get(_CONFIG, _UNPARTITIONED) not in ("", _UNPARTITIONED):
        return None
    config = f"all-{profile}"

    def on_view(view: ClusterView) -> ClusterView:
        current = view.nodes[node.name]
        allocatable = {**current.node.allocatable, GPU: 0, resource: gpus * kind.most}
        return view.with_node(replace(current, node=replace(current.node, allocatable=allocatable)))

    command = f"kubectl label node {node.name} {_CONFIG}={config} --overwrite"
    action = f"partition the GPUs of {node.name}, which no pod uses: {command}"
    return RemedyEdit(f"partition {node.name} {config}", action, _REPAIR, shape="partition", on_view=on_view)


def renaming(resource: str, name: str) -> Callable[[Pod], Pod]:
    """The change that asks for another resource in every container."""

    def on_pod(pod: Pod) -> Pod:
        from_to = {resource: name}
        containers, init = (
            tuple(
                replace(
                    container,
                    requests={from_to.get(n, n): a for n, a in container.requests.items()},
                    limits={from_to.get(n, n): a for n, a in container.limits.items()},
                )
                for container in some
            )
            for some in (pod.containers, pod.init_containers)
        )
        return replace(pod, containers=containers, init_containers=init)

    return on_pod


def _in_use(node: NodeView) -> bool:
    return any(count > 0 for name, count in node.requested.items() if name.startswith("nvidia.com/"))


def _size(resource: str) -> tuple[int, int]:
    profile = profile_of(resource)
    return (profile.slices, profile.gb) if profile is not None else (100, 0)
