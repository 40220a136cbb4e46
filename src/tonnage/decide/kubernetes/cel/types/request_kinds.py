"""Types of what expressions know of a request.

Source: k8s.io/apiserver pkg/admission/plugin/cel (compile.go, composition.go), v1.35.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tonnage.decide.kubernetes.cel.types.kinds import (
    AUTHORIZER,
    BOOL,
    DYN,
    INT,
    RESOURCE_CHECK,
    STRING,
    STRINGS,
    CelKind,
    KnownKinds,
)

_TIME: Final = CelKind("timestamp")
_TEXTS: Final = CelKind("map", STRING)
VARIABLES: Final = "variables"


def _object(title: str, **fields: CelKind) -> CelKind:
    return CelKind("object", fields=tuple(fields.items()), title=f"kubernetes.{title}")


_KIND: Final = _object("GroupVersionKind", group=STRING, version=STRING, kind=STRING)
_RESOURCE: Final = _object("GroupVersionResource", group=STRING, version=STRING, resource=STRING)
_USER: Final = _object("UserInfo", username=STRING, uid=STRING, groups=STRINGS, extra=CelKind("map", STRINGS))
_REQUEST: Final = _object(
    "AdmissionRequest",
    kind=_KIND,
    resource=_RESOURCE,
    subResource=STRING,
    requestKind=_KIND,
    requestResource=_RESOURCE,
    requestSubResource=STRING,
    name=STRING,
    namespace=STRING,
    operation=STRING,
    userInfo=_USER,
    dryRun=BOOL,
    options=DYN,
)
_CONDITION: Final = _object(
    "NamespaceCondition", status=STRING, type=STRING, lastTransitionTime=_TIME, message=STRING, reason=STRING
)
_META: Final = _object(
    "NamespaceMetadata",
    name=STRING,
    generateName=STRING,
    namespace=STRING,
    labels=_TEXTS,
    annotations=_TEXTS,
    UID=STRING,
    creationTimestamp=_TIME,
    deletionGracePeriodSeconds=INT,
    deletionTimestamp=_TIME,
    generation=INT,
    resourceVersion=STRING,
    finalizers=STRINGS,
)
_NAMESPACE: Final = _object(
    "Namespace",
    metadata=_META,
    spec=_object("NamespaceSpec", finalizers=STRINGS),
    status=_object("NamespaceStatus", conditions=CelKind("list", _CONDITION), phase=STRING),
)
KINDS: Final[Mapping[str, CelKind]] = {
    "request": _REQUEST,
    "namespaceObject": _NAMESPACE,
    "authorizer": CelKind(AUTHORIZER),
    "authorizer.requestResource": CelKind(RESOURCE_CHECK),
    VARIABLES: _object("variables"),
}
"""Types of names; all others are of any."""


def with_variable(declared: KnownKinds, name: str, kind: CelKind) -> KnownKinds:
    """What is known with a policy's own variable besides, if that is a name at all."""
    if not name.isidentifier() or not name.isascii():
        return declared
    held = dict(declared)
    before = held.get(VARIABLES, KINDS[VARIABLES])
    held[VARIABLES] = CelKind(
        "object", fields=tuple({**dict(before.fields), name: kind}.items()), title=before.title
    )
    held[f"{VARIABLES}.{name}"] = kind
    return tuple(held.items())
