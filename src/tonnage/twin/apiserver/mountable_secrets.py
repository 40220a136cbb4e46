"""Service accounts whose annotation lets their pods name no other secrets than the account does.

Source: plugin/pkg/admission/serviceaccount of k8s.io/kubernetes (limitSecretReferences), v1.35.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.model.json import JsonObject
from tonnage.twin.apiserver.access import at, mapping, mappings, text

ENFORCED: Final = "kubernetes.io/enforce-mountable-secrets"
_TRUE: Final = ("1", "t", "T", "true", "TRUE", "True")
_KINDS: Final = (("initContainers", "init container"), ("containers", "container"))
_EPHEMERAL: Final = (("ephemeralContainers", "ephemeral container"),)


def unmountable(spec: JsonObject, account: JsonObject, *, ephemeral: bool = False) -> str:
    """Why a pod may not run as the account, empty if it may. `ephemeral`: only what debugs it counts."""
    if text(account, "metadata", "annotations", ENFORCED) not in _TRUE:
        return ""
    name = text(account, "metadata", "name")
    own = {text(one, "name") for one in mappings(account, "secrets")}
    for what, secret in _in_containers(spec, _EPHEMERAL) if ephemeral else _named(spec):
        if secret not in own:
            return f"{what} is not allowed because service account {name} does not reference that secret"
    pulling = {text(one, "name") for one in mappings(account, "imagePullSecrets")}
    for index, one in enumerate([] if ephemeral else mappings(spec, "imagePullSecrets")):
        if (secret := text(one, "name")) not in pulling:
            return (
                f'imagePullSecrets[{index}].name="{secret}" is not allowed because service account {name} '
                "does not reference that imagePullSecret"
            )
    return ""


def _named(spec: JsonObject) -> Iterator[tuple[str, str]]:
    """Places that name a secret, and the secret."""
    for volume in mappings(spec, "volumes"):
        if at(volume, "secret") is not None:
            secret = text(volume, "secret", "secretName")
            yield f'volume with secret.secretName="{secret}"', secret
    yield from _in_containers(spec, _KINDS)


def _in_containers(spec: JsonObject, kinds: tuple[tuple[str, str], ...]) -> Iterator[tuple[str, str]]:
    for container, kind in ((one, kind) for key, kind in kinds for one in mappings(spec, key)):
        who = f"{kind} {text(container, 'name')}"
        for one in mappings(container, "env"):
            if reference := mapping(one, "valueFrom", "secretKeyRef"):
                secret = text(reference, "name")
                place = f"{who} with envVar {text(one, 'name')}"
                yield f'{place} referencing secret.secretName="{secret}"', secret
        for one in mappings(container, "envFrom"):
            if reference := mapping(one, "secretRef"):
                secret = text(reference, "name")
                yield f'{who} with envFrom referencing secret.secretName="{secret}"', secret
