"""What registries answer, the secrets that they are asked with, and the note of the image before."""

from __future__ import annotations

import base64
from contextlib import suppress
from typing import Final

from tonnage.adapters.http.registry import login_for, token_host, token_in
from tonnage.controller.operator.driver_images import docker_config
from tonnage.decide.cluster.operate.drivers.rollback import rollbacks
from tonnage.model.drivers.daemon_set import StandingDaemonSet
from tonnage.model.drivers.policy import DriverOwner, DriverOwnerKind
from tonnage.wire.objects import Secret

_HOST: Final = "registry.example.com"
_KEY: Final = ".dockerconfigjson"
_OWNER: Final = DriverOwner(DriverOwnerKind.CLUSTER_POLICY, "p", "u")


def pull_secret(data: bytes) -> None:
    """As the API server has it, and within its Base64; a login may stand in a header."""
    for text in (data.decode("utf-8", "replace"), base64.b64encode(data).decode()):
        with suppress(ValueError):
            login = login_for(docker_config(Secret(data={_KEY: text})), _HOST)
            if login is not None:
                base64.b64decode(login, validate=True)
                assert login.isascii()
                assert login.isprintable()


def token_answer(data: bytes) -> None:
    """A token may stand in a header; a host is reached encrypted, but on this machine."""
    token = token_in(data)
    assert token.isascii()
    assert not token or token.isprintable()
    realm = data.decode("latin-1")
    host = token_host(realm)
    assert not host or realm.startswith(f"https://{host}") or host.startswith(("127.0.0.1", "localhost"))


def image_note(data: bytes) -> None:
    """The image fields that a DaemonSet notes, and the patch that takes a policy back to them."""
    text = data.decode("utf-8", "replace")
    note = '{"version": "2"}'
    for current, previous in ((note, text), (text, note)):
        standing = StandingDaemonSet("d", "u", "x", current, previous, "ClusterPolicy u")
        for change in rollbacks([_OWNER], [standing]):
            assert set(change.patch) == {"spec"}
