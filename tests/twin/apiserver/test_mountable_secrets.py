"""Accounts whose pods may name no other secrets than theirs."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.twin.apiserver.mountable_secrets import ENFORCED, unmountable

ENV = [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "x", "key": "k"}}}]
FROM = [{"secretRef": {"name": "x"}}]


def account(enforced: str) -> dict[str, Any]:
    metadata = {"name": "tight", "annotations": {ENFORCED: enforced}}
    return {"metadata": metadata, "secrets": [{"name": "mine"}], "imagePullSecrets": [{"name": "reg"}]}


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"volumes": [{"secret": {"secretName": "x"}}]}, 'volume with secret.secretName="x"'),
        (
            {"containers": [{"name": "c", "env": ENV}]},
            'container c with envVar A referencing secret.secretName="x"',
        ),
        (
            {"initContainers": [{"name": "i", "envFrom": FROM}]},
            'init container i with envFrom referencing secret.secretName="x"',
        ),
        ({"imagePullSecrets": [{"name": "reg"}, {"name": "x"}]}, 'imagePullSecrets[1].name="x"'),
    ],
)
def test_what_the_account_has_not_is_refused(spec: dict[str, Any], told: str) -> None:
    assert unmountable(spec, account("true")).startswith(f"{told} is not allowed because service account ")
    assert unmountable(spec, account("false")) == unmountable(spec, account("yes")) == ""


def test_what_the_account_has_is_fine_and_what_debugs_is_looked_at_alone() -> None:
    spec: dict[str, Any] = {
        "volumes": [{"secret": {"secretName": "mine"}}],
        "imagePullSecrets": [{"name": "reg"}],
    }
    assert unmountable(spec, account("1")) == ""
    debugged: dict[str, Any] = {
        "containers": [{"name": "c", "env": ENV}],
        "ephemeralContainers": [{"name": "e", "env": ENV}],
    }
    assert unmountable(debugged, account("t"), ephemeral=True).startswith("ephemeral container e with envVar")
