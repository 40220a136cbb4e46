"""APIServices: one for each group and version that the server serves, and in what order groups are told.

Source: pkg/controlplane/apiserver/aggregator.go, k8s.io/kube-aggregator (controllers/autoregister), v1.35.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tonnage.model.json import JsonObject
from tonnage.model.json_access import at, text
from tonnage.model.timestamps import timestamp
from tonnage.ports import Clock
from tonnage.twin.apiserver.resources import Registry
from tonnage.twin.apiserver.storage.store import Resource, Store

API_SERVICE: Final[Resource] = ("apiregistration.k8s.io", "apiservices")
_MANAGED: Final = "kube-aggregator.kubernetes.io/automanaged"
_GROUPS: Final = {
    "": 18000, "apps": 17800, "events.k8s.io": 17750, "authentication.k8s.io": 17700,
    "authorization.k8s.io": 17600, "autoscaling": 17500, "batch": 17400, "certificates.k8s.io": 17300,
    "networking.k8s.io": 17200, "policy": 17100, "rbac.authorization.k8s.io": 17000,
    "storage.k8s.io": 16800, "apiextensions.k8s.io": 16700, "admissionregistration.k8s.io": 16700,
    "scheduling.k8s.io": 16600, "coordination.k8s.io": 16500, "node.k8s.io": 16300,
    "discovery.k8s.io": 16200, "resource.k8s.io": 16200, "flowcontrol.apiserver.k8s.io": 16100,
}  # fmt: skip
_CUSTOM: Final = (1000, 100)
_VERSIONS: Final = {
    ("", "v1"): 1,
    ("autoscaling", "v2"): 30,
    ("flowcontrol.apiserver.k8s.io", "v1"): 21,
    ("resource.k8s.io", "v1"): 21,
}
_FIRST_VERSION: Final = 15


class ApiServices:
    """Keeps an APIService for every group version that is served here."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        clock: Clock,
        uid: Callable[[], str],
        bring: Callable[[JsonObject], JsonObject],
    ) -> None:
        """`bring` says whose an object's fields are."""
        self._store = store
        self._bring = bring
        self._registry = registry
        self._clock = clock
        self._uid = uid
        self._begun = False

    def settle(self) -> None:
        """Make those that are missing; take those away whose version is served no more.

        Those of built-in kinds are made at the start alone.
        """
        wanted = {
            f"{version}.{group}": (group, version)
            for group, versions in self._registry.group_versions().items()
            for version in versions
            if group != API_SERVICE[0]
        }
        for stored in self._store.list(API_SERVICE):
            name = text(stored.object, "metadata", "name")
            if wanted.pop(name, None) is None and text(stored.object, "metadata", "labels", _MANAGED):
                self._store.delete(API_SERVICE, ("", name), read=stored)
        for name, (group, version) in wanted.items():
            if self._begun and group in _GROUPS:
                continue
            self._store.create(API_SERVICE, ("", name), self._bring(self._made(name, group, version)))
        self._begun = True

    def _made(self, name: str, group: str, version: str) -> JsonObject:
        now = timestamp(self._clock.now())
        built_in = group in _GROUPS
        priorities = (
            _CUSTOM if not built_in else (_GROUPS[group], _VERSIONS.get((group, version), _FIRST_VERSION))
        )
        spec: JsonObject = {
            **({"group": group} if group else {}),
            "version": version,
            "groupPriorityMinimum": priorities[0],
            "versionPriority": priorities[1],
        }
        return {
            "kind": "APIService",
            "apiVersion": "apiregistration.k8s.io/v1",
            "metadata": {
                "name": name,
                "uid": self._uid(),
                "creationTimestamp": now,
                "labels": {_MANAGED: "onstart" if built_in else "true"},
            },
            "spec": spec,
            "status": {"conditions": [_available(now)]},
        }


def availability(api_service: JsonObject, now: str) -> JsonObject:
    """The status of a new APIService: what is served here is there at once."""
    return {} if at(api_service, "spec", "service") is not None else {"conditions": [_available(now)]}


def _available(now: str) -> JsonObject:
    return {
        "type": "Available",
        "status": "True",
        "lastTransitionTime": now,
        "reason": "Local",
        "message": "Local APIServices are always available",
    }


def group_order(group: str) -> tuple[int, str]:
    """Where a group comes in lists of groups: the core, the API of APIServices, then by priority and name."""
    if group in ("", API_SERVICE[0]):
        return (-20000 if group else -20001), group
    return -_GROUPS.get(group, _CUSTOM[0]), group
