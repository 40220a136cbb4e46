"""A genuine API server answers the documents' manifests as it was recorded, and so as the twin does.

OPR-1, OPR-4, OPR-5, DRA-1 to 3, ADM-1, ADM-9.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from support.first_hour import DOCUMENTS, Answer, Player, recorded, scenes
from support.genuine import genuine_api_server
from support.leftovers import own_folder
from tonnage.cli.locations.binaries import chosen_minor
from tonnage.cli.locations.kubectl import kubectl_binary

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.skipif(chosen_minor(os.environ) != "1.35", reason="the answers are those of 1.35"),
]
_TRIES = 40


async def test_the_documents_manifests_are_answered_as_recorded() -> None:
    """The scenes share one server, in the order of the book: what each creates is there for the next."""
    differing: dict[str, tuple[Answer, Answer]] = {}
    with own_folder() as folder:
        async with genuine_api_server(folder) as kubeconfig:
            for scene in scenes(DOCUMENTS):
                own = Path(tempfile.mkdtemp(dir=folder))
                player = Player(kubectl_binary("1.35"), kubeconfig, own, scene)
                for command, expected in recorded(DOCUMENTS)[scene.name]:
                    answer = await player.ask_until(command, lambda got: got.code == 0, _TRIES)
                    if "--dry-run=server" in command and answer != expected:
                        differing[command] = (expected, answer)
    assert not differing
