"""What a request to the API server asks for, in the words of RBAC and of audit logs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

OnAnswer: TypeAlias = Callable[[str, str, str], None]
"""Called with verb, resource and status code of every answer."""

_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def request_info(method: str, path: str, *, watch: bool = False) -> tuple[str, str]:
    """Verb and resource; a subresource stands behind a slash, the resource of other paths is empty.

    >>> request_info("GET", "/api/v1/namespaces/default/pods", watch=True)
    ('watch', 'pods')
    >>> request_info("PATCH", "/apis/tonnage.dev/v1alpha1/nodegpustatuses/a/status")
    ('patch', 'nodegpustatuses/status')
    >>> request_info("GET", "/version")
    ('get', '')
    """
    root, *rest = path.strip("/").split("/")
    skipped = {"api": 1, "apis": 2}.get(root)
    if skipped is None or len(rest) <= skipped:
        return method.lower(), ""
    parts = rest[skipped:]
    if parts[0] == "namespaces" and len(parts) > 2 and parts[2] not in ("status", "finalize"):
        parts = parts[2:]
    resource = "/".join((parts[0], *parts[2:3]))
    if method in ("GET", "HEAD"):
        return ("get" if len(parts) > 1 else "watch" if watch else "list"), resource
    verb = _VERBS.get(method, method.lower())
    return ("deletecollection" if verb == "delete" and len(parts) == 1 else verb), resource
