"""The words recorded of the API server in tests/diagnose/refused_pods.yaml are still its words."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
import yaml

from support.genuine import genuine_api_server
from support.leftovers import own_folder
from tonnage.cli.locations.binaries import chosen_minor
from tonnage.cli.locations.kubectl import nearest_kubectl

pytestmark = pytest.mark.kubernetes

RECORDED = Path(__file__).parents[2] / "diagnose" / "refused_pods.yaml"
AT_ONCE = 4


def words(stderr: str) -> str:
    """The server's words; kubectl writes several errors one below the other."""
    beginning, _, rest = stderr.strip().partition('error when creating "STDIN": ')
    said = rest or beginning.partition("): ")[2] or beginning.removeprefix("The ")
    first, *errors = said.splitlines()
    return f"{first.strip()} [{', '.join(e.removeprefix('* ') for e in errors)}]" if errors else first


async def said(kubeconfig: Path, manifest: str, limit: asyncio.Semaphore) -> str:
    command = (str(nearest_kubectl(chosen_minor(os.environ))), "--kubeconfig", str(kubeconfig))
    pipe = asyncio.subprocess.PIPE
    async with limit:
        started = await asyncio.create_subprocess_exec(
            *command, "create", "--dry-run=server", "-f", "-", stdin=pipe, stdout=pipe, stderr=pipe
        )
        _, stderr = await started.communicate(manifest.encode())
        return words(stderr.decode()) if started.returncode != 0 else ""


async def test_the_recorded_words_are_still_those_of_the_api_server() -> None:
    cases = yaml.load(RECORDED.read_text(), yaml.CSafeLoader)
    with own_folder() as folder:
        async with genuine_api_server(folder) as kubeconfig:
            limit = asyncio.Semaphore(AT_ONCE)
            found = await asyncio.gather(*(said(kubeconfig, case["manifest"], limit) for case in cases))
    differing = {case["about"]: one for case, one in zip(cases, found, strict=True) if one != case["said"]}
    assert not differing
