"""An agent's account writes the ResourceSlices of its own node alone, on the twin."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from random import Random

from support.api_stores import new_store
from support.helm import Helm
from support.slice_policy import keeps_to_its_own_slices
from tonnage.adapters.certificates import Authority
from tonnage.adapters.clock import SystemClock
from tonnage.cli.locations.kubectl import kubectl_binary
from tonnage.twin.apiserver.kubeconfig import kubeconfig_text
from tonnage.twin.apiserver.server import ApiServer


async def test_an_agent_keeps_to_the_slices_of_its_own_node(helm4: Helm, tmp_path: Path) -> None:
    clock = SystemClock()
    server = ApiServer(clock, random=Random(7), store=new_store())
    endpoint = await server.start(Authority.generate(clock.now()))
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.touch(mode=0o600)
    kubeconfig.write_text(kubeconfig_text(endpoint))
    command = [str(kubectl_binary()), "--kubeconfig", str(kubeconfig)]

    def ask(*words: str, given: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*command, *words], input=given, capture_output=True, text=True, check=False, timeout=60
        )

    rendered = helm4.rendered("nvidiaDriverRoot: /\nclaims: {enabled: true}")
    try:
        await asyncio.to_thread(keeps_to_its_own_slices, ask, rendered)
    finally:
        await server.stop()
