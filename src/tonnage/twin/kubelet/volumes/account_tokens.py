"""token.Manager: service account tokens, as the kubelet fetches them for a pod's volume: bound to the pod.

Source: pkg/kubelet/token and the projected volume of the service account admission (v1.35).
"""

from __future__ import annotations

from typing import Any, Final

from tonnage.model.json import JsonObject
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.wire.kinds import SERVICE_ACCOUNT
from tonnage.wire.objects import Pod

_LIFE_S: Final = 3607


async def account_token(api: KubernetesApi, pod: Pod, audience: str = "") -> str:
    """A fresh token of the pod's service account, for the API server or another audience. Raises ApiError."""
    meta = pod.metadata
    bound: JsonObject = {"kind": "Pod", "apiVersion": "v1", "name": meta.name, "uid": meta.uid}
    account = pod.spec.service_account_name or "default"
    answer: Any = await api.create_subresource(
        SERVICE_ACCOUNT,
        account,
        "token",
        {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {
                "expirationSeconds": _LIFE_S,
                "audiences": [audience] if audience else None,
                "boundObjectRef": bound,
            },
        },
        namespace=meta.namespace,
    )
    return str(answer["status"]["token"])
