"""What rules look at beside the object itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tonnage.decide.kubernetes.claims.supply import Gates
from tonnage.diagnose.cluster_view import Ground
from tonnage.diagnose.lint.finding import Draft
from tonnage.diagnose.lint.manifest_objects import ManifestObject, PodSite
from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.api_answer import ApiServer
from tonnage.model.kubernetes.cluster import Manifest


class FieldShape(Protocol):
    """What a field of a built-in kind holds; the words are those of `wire.schema.Field`."""

    @property
    def type(self) -> str: ...
    @property
    def item(self) -> str: ...
    @property
    def ref(self) -> str: ...


@dataclass(frozen=True, slots=True)
class KindFields:
    """The fields of built-in kinds: the type of a kind by (group, version, kind), the fields of a type.

    `minor` is the version of Kubernetes whose they are.
    """

    kinds: Mapping[tuple[str, str, str], str] = field(default_factory=dict)
    types: Mapping[str, Mapping[str, FieldShape]] = field(default_factory=dict)
    minor: int = 35

    def knows(self, api_version: str, kind: str) -> bool:
        """Whether the kind is a built-in one."""
        group, _, version = api_version.rpartition("/")
        return (group, version, kind) in self.kinds

    def versions(self, group: str, kind: str) -> tuple[str, ...]:
        """The apiVersions of a built-in kind, sorted; empty for any other."""
        prefix = f"{group}/" if group else ""
        return tuple(sorted(f"{prefix}{version}" for g, version, k in self.kinds if (g, k) == (group, kind)))


ExistingNames = Mapping[tuple[str, str, str], bool]
"""(kind, namespace or empty, name) -> whether there is such an object; what is absent is not known."""


@dataclass(frozen=True, slots=True)
class LintCluster:
    """A cluster that manifests would meet."""

    ground: Ground
    existing: ExistingNames = field(default_factory=dict)
    kinds: frozenset[str] | None = None
    """Kinds of which every object is known; None: all that a snapshot does not miss."""
    namespace: str = ""
    """The only namespace that was looked at; empty for all."""

    def looked_at(self, kind: str, namespace: str = "") -> bool:
        """Whether the cluster's objects of a kind are known; `namespace` of kinds that have one."""
        if self.kinds is not None and kind not in self.kinds:
            return False
        if namespace and self.namespace not in ("", namespace):
            return False
        snapshot = self.ground.view.snapshot
        return kind not in (snapshot.unread_in(namespace) if namespace else snapshot.missing)


@dataclass(frozen=True, slots=True)
class RuleInputs:
    """Everything beside the object: the other objects, the cluster (None: nothing is known of it).

    `mig_parted` are the files that are meant to be such configurations, whatever they look like.
    """

    items: tuple[ManifestObject, ...]
    shapes: KindFields
    read_pod: Callable[[JsonObject], Manifest | None]
    cluster: LintCluster | None = None
    minor: int = 35
    mig_parted: frozenset[str] = frozenset()
    server: ApiServer | None = None
    """The API server's own rules, where they are at hand."""
    gates: Gates | None = None
    """The server's, as far as its version and its objects show; None: the version is not told."""
    _own: dict[tuple[str, str], list[ManifestObject]] = field(default_factory=dict)

    def own(self, kind: str, namespace: str, name: str) -> ManifestObject | None:
        """The object of the files by that name; `namespace` empty for kinds without."""
        if not self._own:
            for manifest in self.items:
                self._own.setdefault((manifest.kind, manifest.name), []).append(manifest)
        candidates = self._own.get((kind, name), ())
        return next(
            (manifest for manifest in candidates if not namespace or manifest.namespace == namespace), None
        )


class ItemRule(Protocol):
    """A rule about objects, or documents without a kind."""

    def of_manifest(self, manifest: ManifestObject, inputs: RuleInputs, /) -> Iterable[Draft]: ...


class PodRule(Protocol):
    """A rule about pods, wherever they are."""

    def of_pod(self, site: PodSite, inputs: RuleInputs, /) -> Iterable[Draft]: ...
