"""The manifests of custom kinds, one for each of their pod templates. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.cluster import Manifest
from tonnage.reading.custom_workloads import PodsUndetermined, TemplateUse, exclusive_topology, template_uses
from tonnage.reading.null_fields import converted
from tonnage.reading.pod_templates import of_template
from tonnage.wire import objects as w


def custom_manifests(body: JsonObject, namespace: str, objects: Sequence[JsonObject]) -> list[Manifest]:
    """What an object of a custom kind makes; nothing where nobody can count it.

    `objects` are all that come with it.

    Raises:
        msgspec.ValidationError: a template cannot be read.
    """
    try:
        uses = template_uses(body, objects)
    except PodsUndetermined:
        return []
    outer = converted({"metadata": body.get("metadata") or {}}, w.Object)
    space, name = outer.metadata.namespace or namespace, outer.metadata.name
    kind, group = str(body.get("kind")), str(body.get("apiVersion")).rpartition("/")[0]
    exclusive = exclusive_topology(body)
    return [
        _with_controller(
            of_template(kind, space, name, use.template, f"{use.pods.where}.spec", group),
            use,
            exclusive=exclusive,
        )
        for use in uses
    ]


def _with_controller(made: Manifest, use: TemplateUse, *, exclusive: bool) -> Manifest:
    """The manifest with what the kind's controller adds to its pods."""
    spec = use.template.get("spec")
    names_one = isinstance(spec, dict) and bool(spec.get("schedulerName"))
    pod = made.pod
    pod = replace(
        pod,
        labels={**pod.labels, **use.pods.labels},
        scheduler_name=pod.scheduler_name if names_one or not use.scheduler else use.scheduler,
        unmodelled=(*pod.unmodelled, "exclusive topology") if exclusive else pod.unmodelled,
    )
    return replace(made, pod=pod, replicas=use.count, pod_set=use.pods)
