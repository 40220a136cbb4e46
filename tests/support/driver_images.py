"""Images that stand in for NVIDIA's driver containers on a genuine node whose machine is made up.

They have the programs that the pod runs, no module to build, and a driver root with a pretended GPU, which
their container mounts where NVIDIA's has its own.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from support.driver_root import make_driver_root
from support.genuine_node import GenuineNode
from support.images import busybox_archive
from support.installed_agent import CONTROL, MAJOR
from support.nvml.state import DriverState

DRIVER: Final = "nvcr.io/nvidia/driver"
MANAGER: Final = "nvcr.io/nvidia/cloud-native/k8s-driver-manager:v0.12.0"
CONTAINER_ROOT: Final = "/run/nvidia/driver"
"""Where the node has the driver's files while its container runs."""
_BROKEN: Final = """\
#!/bin/sh
echo {words} >&2
exit 1
"""
_INIT: Final = """\
#!/bin/sh
set -eu
root=/run/nvidia/driver
unload() {{
    umount -l $root || :
    rm -rf /sys/module/nvidia
    exit 0
}}
while umount -l $root 2> /dev/null; do :; done
mkdir -p $root /made/dev
{nodes}
mount -o bind /made $root
mkdir -p /sys/module/nvidia
echo 0 > /sys/module/nvidia/refcnt
trap unload TERM
while :; do sleep 3600 & wait $! || :; done
"""
_NOTHING: Final = "#!/bin/sh\nexit 0\n"


@contextmanager
def driver_images(node: GenuineNode, states: Mapping[str, DriverState | str], system: str) -> Iterator[None]:
    """The node has a driver's image for that system of each version, and that of NVIDIA's driver manager.

    A version whose state is a text does not start, and its container says that.
    """
    names = []
    with tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as folder:
        for version, state in states.items():
            names.append(f"{DRIVER}:{version}-{system}")
            busybox_archive(Path(folder), name=names[-1], more=lambda tree, of=state: _driver(tree, of))  # type: ignore[misc]
            node.import_image(Path(folder, "busybox.tar"))
        names.append(MANAGER)
        busybox_archive(
            Path(folder), name=MANAGER, more=lambda tree: _program(tree, "driver-manager", _NOTHING)
        )
        node.import_image(Path(folder, "busybox.tar"))
    try:
        yield
    finally:
        node.ctr("images", "rm", *names)


def _driver(tree: Path, state: DriverState | str) -> None:
    _program(tree, "nvidia-smi", _NOTHING)
    if isinstance(state, str):
        _program(tree, "nvidia-driver", _BROKEN.format(words=state))
        return
    shutil.rmtree(make_driver_root(tree / "made", state) / "dev")  # a layer has no device nodes
    numbers = {f"nvidia{gpu.minor_number}": (MAJOR, gpu.minor_number) for gpu in state.gpus}
    nodes = "\n".join(
        f"mknod -m 666 /made/dev/{name} c {major} {minor}"
        for name, (major, minor) in {**numbers, **CONTROL}.items()
    )
    _program(tree, "nvidia-driver", _INIT.format(nodes=nodes))


def _program(tree: Path, name: str, text: str) -> None:
    file = tree / "bin" / name
    file.write_text(text, encoding="ascii")
    file.chmod(0o755)
