"""The classes of NVIDIA's driver, which the twin installs without judging them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random

from tonnage.twin.apiserver.server import ApiServer
from tonnage.twin.clock import VirtualClock
from tonnage.twin.platform import platform_objects
from tonnage.wire.kinds import DEVICE_CLASS

CLASSES = [body for kind, _, body in platform_objects({}, Path("/none")) if kind is DEVICE_CLASS]
INSTALLED = """
import sys
from pathlib import Path
from tonnage.twin.apiserver.server import ApiServer
from tonnage.twin.clock import VirtualClock
from tonnage.twin.platform import platform_objects
from tonnage.wire.kinds import DEVICE_CLASS
server = ApiServer(VirtualClock())
for kind, _, body in platform_objects({}, Path("/none")):
    if kind is DEVICE_CLASS:
        server.install(kind, body)
print("cel_expr_python" in sys.modules)
"""


async def test_the_api_server_would_take_them_as_they_are() -> None:
    judging, installing = (ApiServer(VirtualClock(), random=Random(7)) for _ in range(2))
    for body in CLASSES:
        created = await judging.local().create(DEVICE_CLASS, body)
        installing.install(DEVICE_CLASS, body)
        installing.install(DEVICE_CLASS, body)  # a kept cluster has it already
        installed = await installing.local().get(DEVICE_CLASS, created.metadata.name)
        assert (installed.spec, installed.metadata.labels) == (created.spec, created.metadata.labels)
        assert installed.metadata.generation == created.metadata.generation
    assert [body["metadata"]["name"] for body in CLASSES] == ["gpu.nvidia.com", "mig.nvidia.com"]  # type: ignore[index,call-overload]


def test_the_cel_engine_is_not_loaded_for_them() -> None:
    """It takes 17 MB of every embedded cluster."""
    done = subprocess.run(
        [sys.executable, "-c", INSTALLED], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "False\n"
