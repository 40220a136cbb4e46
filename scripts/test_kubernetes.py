"""Run the tests on genuine Kubernetes programs; arguments go to pytest.

As root everything, in a network of its own. Without root the tests on a genuine node are left out, and said
to be; in CI (`CI` is set) that is a failure.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
LEFT_OUT: Final = (
    "the tests on a genuine node (kubelet, containerd, the chart): they need root for namespaces and mounts"
)


def main(arguments: Sequence[str], environment: Mapping[str, str], user: int) -> int:
    """The exit status of pytest, or 1 when what CI needs is not here."""
    everything = user == 0
    if everything:
        sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]
        from support.images import prepare_images
        from support.own_network import enter_own_network

        prepare_images()
        enter_own_network()
    elif environment.get("CI"):
        print(f"error: CI cannot run {LEFT_OUT}\nremedy: run it as root", file=sys.stderr)
        return 1
    else:
        print(f"Left out: {LEFT_OUT} (sudo make test-kubernetes).", flush=True)
    chosen = "kubernetes" if everything else "kubernetes and not node"
    command = [sys.executable, "-m", "pytest", "-m", chosen, "-p", "no:randomly", *arguments]
    return os.execv(sys.executable, command)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ, os.geteuid()))
