"""What a new pod gets of the service account as which it runs: a volume with its token, and pull secrets.

Source: k8s.io/kubernetes plugin/pkg/admission/serviceaccount (v1.35).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import at, items, mapping, mappings, text
from tonnage.model.kubernetes.well_known import MIRROR
from tonnage.twin.apiserver.object_store import ObjectStore
from tonnage.twin.apiserver.rbac.pod_references import secret_names
from tonnage.twin.apiserver.requests import ApiRequest
from tonnage.twin.apiserver.resource_names import POD, SERVICE_ACCOUNT
from tonnage.twin.apiserver.statuses import forbidden, shown_name

_PREFIX: Final = "kube-api-access-"
_FOLDER: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_AUTOMATIC: Final = "automountServiceAccountToken"
_TOKEN: Final[JsonObject] = {
    "sources": [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {
            "downwardAPI": {
                "items": [
                    {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
                ]
            }
        },
    ],
    "defaultMode": 420,
}
"""Shared by all pods, as nobody changes an object that is stored."""


class ServiceAccounts:
    """A pod runs as an account that is there, and has its token.

    `default` may still be on its way into a new namespace; pods that come before it go without a token.
    """

    def __init__(self, store: ObjectStore, suffix: Callable[[], str]) -> None:
        """`suffix` makes the random end of a volume's name."""
        self._store = store
        self._suffix = suffix

    async def admit(self, request: ApiRequest, obj: JsonObject | None, old: JsonObject | None) -> None:
        """Complete a new pod; refuse one whose account is missing, or has not the secrets that it names."""
        debugs = request.subresource == "ephemeralcontainers"
        if request.resource != POD or obj is None or (not debugs and (old or request.subresource)):
            return
        account = text(obj, "spec", "serviceAccountName")
        if MIRROR in mapping(obj, "metadata", "annotations"):
            _check_mirror(obj)
            return
        stored = self._store.get(SERVICE_ACCOUNT, (request.namespace, account or "default"))
        if stored is not None:
            spec = mapping(obj, "spec")
            if not debugs:
                self._complete(spec, stored.object)
        elif account not in ("", "default"):
            why = (
                f"error looking up service account {request.namespace}/{account}: "
                f'serviceaccount "{account}" not found'
            )
            raise forbidden(POD, shown_name(obj), why)

    def _complete(self, spec: JsonObject, account: JsonObject) -> None:
        mounts_token = spec.get(_AUTOMATIC)
        if (account.get(_AUTOMATIC) if mounts_token is None else mounts_token) is not False:
            self._mount(spec)
        if not at(spec, "imagePullSecrets") and (secrets := mappings(account, "imagePullSecrets")):
            spec["imagePullSecrets"] = [{"name": text(secret, "name")} for secret in secrets]

    def _mount(self, spec: JsonObject) -> None:
        """Mount the token into every container that mounts nothing else where tokens are."""
        lacking = [
            container
            for container in (*mappings(spec, "initContainers"), *mappings(spec, "containers"))
            if all(text(mount, "mountPath") != _FOLDER for mount in mappings(container, "volumeMounts"))
        ]
        if not lacking:
            return
        names = (text(volume, "name") for volume in mappings(spec, "volumes"))
        name = next((name for name in names if name.startswith(_PREFIX)), "")
        if not name:
            name = _PREFIX + self._suffix()
            spec["volumes"] = [*items(spec, "volumes"), {"name": name, "projected": _TOKEN}]
        mount: JsonValue = {"name": name, "readOnly": True, "mountPath": _FOLDER}
        for container in lacking:
            container["volumeMounts"] = [*items(container, "volumeMounts"), mount]


def _check_mirror(pod: JsonObject) -> None:
    """Refuse a mirror of a node's own pod that names what only the cluster has."""
    spec = mapping(pod, "spec")
    sources = (
        source for volume in mappings(spec, "volumes") for source in mappings(volume, "projected", "sources")
    )
    if text(spec, "serviceAccountName"):
        raise forbidden(POD, shown_name(pod), "a mirror pod may not reference service accounts")
    if any(secret_names(spec)):
        raise forbidden(POD, shown_name(pod), "a mirror pod may not reference secrets")
    if any(source.get("serviceAccountToken") is not None for source in sources):
        why = "a mirror pod may not use ServiceAccountToken volume projections"
        raise forbidden(POD, shown_name(pod), why)
