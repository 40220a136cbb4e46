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
        "usr/share/prometheus/alertmanager/default.tmpl": "templates/default.tmpl",
        "usr/share/prometheus/alertmanager/email.tmpl": "templates/email.tmpl",
    },
}
"""Of each package the files, and what they are called here."""
PROGRAMS: Final = ("prometheus", "promtool", "alertmanager", "amtool")
_FOLDER: Final = "monitoring"
_TEMPLATES: Final = b"/usr/share/prometheus/alertmanager"
_TEMPLATES_HERE: Final = b"././././././././././././templates/"
"""Debian's Alertmanager looks for its templates there alone; ours, in the folder where it starts."""


def monitoring_programs(environment: Mapping[str, str] = os.environ) -> Mapping[str, Path]:
    """The four programs by name. The first call needs a network, later ones none.

    Raises:
        ConfigError: this machine is no Debian, or apt cannot fetch the packages.
    """
    folder = cache_folder(environment) / _FOLDER
    if not folder.is_dir():
        _fetch(folder)
    return {name: folder / name for name in PROGRAMS}


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
        _look_here_for_templates(made / "alertmanager")
        made.rename(folder)


def _look_here_for_templates(program: Path) -> None:
    """Rewrite the one path of its templates. Those of its pages, which nobody looks at, lie below it."""
    content = program.read_bytes()
    place = content.index(_TEMPLATES)
    program.write_bytes(content[:place] + _TEMPLATES_HERE + content[place + len(_TEMPLATES) :])


if __name__ == "__main__":
    for name, path in monitoring_programs().items():
        print(f"{name}\t{path}")
