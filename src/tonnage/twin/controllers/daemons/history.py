"""A DaemonSet's ControllerRevisions: one per template, the highest number is the present one."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from tonnage.loop.ownership import controller_reference
from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.well_known import CONTROLLER_REVISION_HASH
from tonnage.twin.controllers.pod_templates import kept_template, template_hash, without_label
from tonnage.wire.kinds import CONTROLLER_REVISION, DAEMON_SET
from tonnage.wire.objects import ControllerRevision, DaemonSet


@dataclass(frozen=True, slots=True)
class History:
    """The revision of the present template, None if it has yet to be made, and the others, oldest first."""

    current: ControllerRevision | None
    old: tuple[ControllerRevision, ...]

    @property
    def next_number(self) -> int:
        """The number of the present template's revision."""
        return max((revision.revision for revision in self.old), default=0) + 1


def history_of(daemon_set: DaemonSet, owned: Iterable[ControllerRevision]) -> History:
    """Tell the present revision from the others; of several alike the latest is it."""
    ordered = sorted(owned, key=lambda r: (r.revision, r.metadata.name))
    template = _plain(daemon_set.spec.template)
    alike = [revision for revision in ordered if _plain(_template_in(revision)) == template]
    current = alike[-1] if alike else None
    return History(current, tuple(revision for revision in ordered if revision is not current))


def hash_of(revision: ControllerRevision) -> str:
    """The label's value that pods of this revision carry."""
    return revision.metadata.labels.get(CONTROLLER_REVISION_HASH, "")


def surplus(history: History, limit: int, live: Collection[str]) -> list[ControllerRevision]:
    """Old revisions beyond the history limit that no pod is of any more (`live`: the pods' hashes)."""
    idle = [revision for revision in history.old if hash_of(revision) not in live]
    return idle[: max(len(idle) - limit, 0)]


def revision_body(daemon_set: DaemonSet, number: int) -> JsonObject:
    """The ControllerRevision of the present template, named after the template's hash."""
    template: JsonObject = daemon_set.spec.template
    digest = template_hash(_plain(template), daemon_set.status.collision_count)
    metadata = template.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    return {
        "apiVersion": CONTROLLER_REVISION.api_version,
        "kind": CONTROLLER_REVISION.kind,
        "metadata": {
            "name": f"{daemon_set.metadata.name}-{digest}",
            "namespace": daemon_set.metadata.namespace,
            "labels": {**(labels if isinstance(labels, dict) else {}), CONTROLLER_REVISION_HASH: digest},
            "annotations": {**daemon_set.metadata.annotations},
            "ownerReferences": [controller_reference(daemon_set, DAEMON_SET)],
        },
        "data": kept_template(template),
        "revision": number,
    }


def _template_in(revision: ControllerRevision) -> JsonObject:
    spec = revision.data.get("spec")
    template = spec.get("template") if isinstance(spec, dict) else None
    return (
        {key: value for key, value in template.items() if key != "$patch"}
        if isinstance(template, dict)
        else {}
    )


def _plain(template: JsonObject) -> JsonObject:
    return without_label(template, CONTROLLER_REVISION_HASH)
