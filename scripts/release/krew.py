"""The plugin `gpu` for krew: an archive of launcher, wheel and pinned requirements, and its manifest.

Tonnage is Python with compiled parts, which differ by Python and platform. The archive holds no copy of them:
the launcher makes a virtual environment at the first call, from the package index, by `uv.lock`'s hashes.
Source: https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import yaml

NAME: Final = "gpu"
"""krew's name of the plugin: `kubectl gpu`."""
NOWHERE: Final = "https://tonnage.invalid/releases"
"""Where releases lie until there is a place: a host that resolves nowhere."""
ARCHITECTURES: Final = ("amd64", "arm64")
LAUNCHER: Final = """\
#!/bin/sh
# kubectl gpu: makes Tonnage's environment at the first call, in a folder that appears when it is whole.
set -eu
here=$(dirname "$(readlink -f "$0")")
version=@VERSION@
cache=${XDG_CACHE_HOME:-$HOME/.cache}/tonnage
environment=$cache/krew-$version
if [ ! -x "$environment/bin/python" ]; then
    python=${TONNAGE_PYTHON:-python3}
    "$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null || {
        echo "error: kubectl gpu needs Python 3.11, 3.12 or 3.13, and $python is none of them" >&2
        echo "  remedy: TONNAGE_PYTHON=/usr/bin/python3.12 kubectl gpu ..." >&2
        exit 2
    }
    echo "kubectl gpu: installing Tonnage $version into $environment (once, about a minute) ..." >&2
    mkdir -p "$cache"
    new=$(mktemp -d "$cache/.krew-XXXXXX")
    trap 'rm -rf "$new"' EXIT
    install() {
        "$new/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: "$@" >&2
    }
    if ! { "$python" -m venv "$new" >&2 \\
        && install --require-hashes --requirement "$here/requirements.txt" \\
        && install --no-deps --no-index "$here/@WHEEL@"; }; then
        echo "error: Tonnage $version could not be installed; pip's or venv's reason stands above" >&2
        echo "  remedy: a network that reaches the package index, or your own in PIP_INDEX_URL" >&2
        exit 2
    fi
    # Somebody else's call may have been first; its environment is as good.
    mv -T "$new" "$environment" 2>/dev/null || [ -x "$environment/bin/python" ]
fi
# -P: modules come from there, never from the folder that the call is made in.
exec "$environment/bin/python" -P -m tonnage "$@"
"""


def plugin_files(wheel: Path, requirements: str, licence: bytes, version: str) -> dict[str, bytes]:
    """Path -> content of the plugin's archive. `requirements` carries a hash for each package."""
    launcher = LAUNCHER.replace("@VERSION@", version).replace("@WHEEL@", wheel.name)
    return {
        "kubectl-gpu": launcher.encode(),
        "requirements.txt": requirements.encode(),
        wheel.name: wheel.read_bytes(),
        "LICENSE": licence,
    }


def manifest(archive: Path, version: str, address: str) -> str:
    """krew's manifest of the plugin; the archive lies in `address`/v`version`."""
    with archive.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    document = {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": NAME},
        "spec": {
            "version": f"v{version}",
            "homepage": address.removesuffix("/releases"),
            "shortDescription": "Explain pending GPU pods and show GPU fleets",
            "description": (
                "Says why a pod waits although GPUs are free, what each node has and who holds it,\n"
                "what is wrong with a node, and what a change would bring. It changes nothing.\n"
            ),
            "caveats": (
                "Needs Python 3.11 to 3.13. The first call installs Tonnage into ~/.cache/tonnage\n"
                "from the package index, each package by its hash.\n"
            ),
            "platforms": [
                _platform(architecture, f"{address}/v{version}/{archive.name}", digest)
                for architecture in ARCHITECTURES
            ],
        },
    }
    return yaml.safe_dump(document, sort_keys=False, width=100)


def _platform(architecture: str, uri: str, digest: str) -> Mapping[str, object]:
    return {
        "selector": {"matchLabels": {"os": "linux", "arch": architecture}},
        "uri": uri,
        "sha256": digest,
        "bin": "kubectl-gpu",
        "files": [{"from": "*", "to": "."}],
    }
