"""What lint holds manifests against: the fields of built-in kinds and, where it is asked for, a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from tonnage.cli.api_rules import api_server, custom_definitions
from tonnage.cli.options import Common
from tonnage.cli.terminal.output import say
from tonnage.diagnose.lint.lint import LintContext
from tonnage.diagnose.lint.manifest_objects import items_of
from tonnage.diagnose.lint.rule_inputs import FieldShape, KindFields, LintCluster
from tonnage.model.errors import ConfigError
from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.cluster import Manifest
from tonnage.model.kubernetes.feature_gates import ON_SINCE
from tonnage.wire.schema import load_schema

if TYPE_CHECKING:
    from tonnage.diagnose.lint.manifest_objects import ManifestObject
    from tonnage.diagnose.lint.sheet import Sheet
    from tonnage.model.kubernetes.cluster import Snapshot
    from tonnage.reading.object_names import Name, ObjectNames

_MINOR: Final = 35


async def given_for(common: Common, sheets: Sequence[Sheet]) -> LintContext:
    """What a person asked to lint with. Of a live cluster only what is named is asked, one by one.

    Raises:
        ConfigError: an unreadable snapshot.
        ClusterError: the cluster cannot be reached.
    """
    if all(word is None for word in (common.snapshot, common.kubeconfig, common.context, common.as_user)):
        from tonnage.decide.kubernetes.claims.supply import gates_of

        minor, gates = _MINOR, None
        if common.server_version is not None:
            from tonnage.decide.kubernetes.versions import profile_for

            minor = profile_for(common.server_version).minor
            gates = gates_of(minor)
        namespace = common.namespace or "default"
        objects = [entry.value for entry in _items(sheets, namespace)]
        # with all gates on, where nothing says which: what only some servers refuse is not refused unasked
        server = api_server(objects, (gates or gates_of(ON_SINCE)).as_features)
        return LintContext(shapes(objects), read_pod, None, minor, namespace, server=server, gates=gates)
    from tonnage.diagnose.lint.named_objects import named_objects

    if common.snapshot is not None:
        from tonnage.cli.cluster import read_file
        from tonnage.reading.object_names import ObjectNames

        file, namespace = read_file(common.snapshot, common.limit), common.namespace or "default"
        # objects are looked up by name in files alone: of what comes by stdin only nodes and pods are judged
        names = file.object_names() if str(common.snapshot) != "-" else ObjectNames()
        items = _items(sheets, namespace)
        return _context(common, items, file.snapshot, names.existing(named_objects(items)), namespace, names)
    from tonnage.adapters.kubernetes.existence import known_objects
    from tonnage.cli.cluster import connected, seen_of

    async with connected(common) as api:
        namespace = common.namespace or api.namespace or "default"
        items = _items(sheets, namespace)
        existing = await known_objects(api, named_objects(items))
        snapshot = await seen_of(api, "lint", (namespace,))
        return _context(common, items, snapshot, existing, namespace)


def _items(sheets: Sequence[Sheet], namespace: str) -> list[ManifestObject]:
    """The objects of the texts that everybody can read."""
    return [entry for sheet in sheets if not sheet.problems for entry in items_of(sheet, namespace)]


def _context(
    common: Common,
    items: Sequence[ManifestObject],
    snapshot: Snapshot,
    existing: dict[Name, bool],
    namespace: str,
    names: ObjectNames | None = None,
) -> LintContext:
    """The cluster as if the claims, templates and classes of the texts were there, as far as they are any."""
    from tonnage.cli.access.unseen import say_unseen
    from tonnage.diagnose.cluster_view import ground_of
    from tonnage.reading.added_objects import with_readable_claims

    say_unseen(snapshot, "lint")
    unlisted = sorted(snapshot.missing - snapshot.forbidden) if not snapshot.complete else []
    if unlisted:
        say(f"not read: {', '.join(unlisted)}. What depends on them is not judged.", err=True)
    snapshot = with_readable_claims([entry.value for entry in items], snapshot, namespace=namespace)
    ground = ground_of(snapshot, version=common.server_version or "")
    kinds, only = (names.kinds, names.namespace) if names is not None else (None, "")
    cluster = LintCluster(ground, existing, kinds, only)
    minor = ground.view.profile.minor
    objects = [entry.value for entry in items]
    gates = ground.view.supply.gates
    server = api_server(objects, gates.as_features)
    return LintContext(shapes(objects), read_pod, cluster, minor, namespace, server=server, gates=gates)


def shapes(objects: Iterable[JsonObject] = ()) -> KindFields:
    """The tables of built-in kinds, and of the custom kinds whose definitions are at hand."""
    schema = load_schema()
    kinds = {key: row.type for key, row in schema.index.items()}
    types: dict[str, Mapping[str, FieldShape]] = {name: row.fields for name, row in schema.types.items()}
    for key, definition in custom_definitions(objects).items():
        from tonnage.decide.kubernetes.api.custom.definitions import fields_of

        kinds[key] = definition.type_name
        types |= fields_of(definition)
    return KindFields(kinds, types, int(schema.source["k8s.io/kubernetes"].split(".")[1]))


def read_pod(pod: JsonObject) -> Manifest | None:
    """The pod as the engine sees it; None for one that cannot be decoded."""
    from tonnage.reading.documents import manifests_from_documents

    try:
        return manifests_from_documents([pod])[0]
    except ConfigError:
        return None
