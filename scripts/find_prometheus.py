"""Prometheus, promtool, Alertmanager and amtool: out of Debian's packages, kept in the cache folder.

Nothing is installed: the packages are fetched and verified as those of the image are, and unpacked once.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from scripts.image.debian import Apt, require_debian, unpack
from tonnage.cli.locations.folders import cache_folder

PACKAGES: Final[Mapping[str, Mapping[str, str]]] = {
    "prometheus": {"usr/bin/prometheus": "prometheus", "usr/bin/promtool": "promtool"},
    "prometheus-alertmanager": {
        "usr/bin/prometheus-alertmanager": "alertmanager",
        "usr/bin/amtool": "amtool",
    },
}
"""Of each package the programs, and what they are called here."""
_FOLDER: Final = "monitoring"


def monitoring_programs(environment: Mapping[str, str] = os.environ) -> Mapping[str, Path]:
    """The four programs by name. The first call needs a network, later ones none.

    Raises:
        ConfigError: this machine is no Debian, or apt cannot fetch the packages.
    """
    folder = cache_folder(environment) / _FOLDER
    if not folder.is_dir():
        _fetch(folder)
    names = (name for programs in PACKAGES.values() for name in programs.values())
    return {name: folder / name for name in names}


def _fetch(folder: Path) -> None:
    require_debian()
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    apt = Apt(folder.parent / "images" / "apt")
    with apt.locked(), tempfile.TemporaryDirectory(dir=folder.parent) as fresh:
        if folder.is_dir():  # another process was first
            return
        apt.refresh()
        made = Path(fresh, "made")
        for name, programs in PACKAGES.items():
            (file,) = apt.fetch(apt.named([name]))
            unpack(file, made, programs.get)
        made.rename(folder)


if __name__ == "__main__":
    for name, path in monitoring_programs().items():
        print(f"{name}\t{path}")
