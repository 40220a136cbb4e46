"""The `sh` blocks of a page, followed as they are written, on a cluster that is not the twin."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Container, Mapping
from pathlib import Path
from typing import Final

from scripts.find_helm import helm_binary
from tonnage.cli.locations.binaries import chosen_minor
from tonnage.cli.locations.kubectl import nearest_kubectl

ROOT: Final = Path(__file__).resolve().parents[2]
_HEADING: Final = re.compile(r"^#+ (.*)$", re.MULTILINE)
_BLOCK: Final = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
_LIMIT_S: Final = 600.0
_HELM: Final = """#!/bin/sh
case "$1" in
upgrade|install) exec {helm} "$@" --values {values} ;;
esac
exec {helm} "$@"
"""


class PageShell:
    """A folder to type in, which has what the page names, and a kubeconfig.

    `values` is a values file of the site, which Helm gets with every release.
    """

    def __init__(self, page: str, folder: Path, kubeconfig: Path, *, values: str = "{}") -> None:
        self._text = (ROOT / "docs" / "how-to" / f"{page}.md").read_text(encoding="utf-8")
        self.folder = folder
        self._followed: set[tuple[str, int]] = set()
        tools = folder / "bin"
        tools.mkdir()
        (folder / "deploy").symlink_to(ROOT / "deploy")
        (tools / "kubectl").symlink_to(nearest_kubectl(chosen_minor(os.environ)))
        (tools / "tonnage").symlink_to(Path(sys.executable).with_name("tonnage"))
        site = folder / "site.yaml"
        site.write_text(values, encoding="utf-8")
        helm = tools / "helm"
        helm.write_text(_HELM.format(helm=helm_binary(4), values=site), encoding="utf-8")
        helm.chmod(0o755)
        self._environment = {
            "PATH": f"{tools}:/usr/bin:/bin",
            "HOME": str(folder),
            "KUBECONFIG": str(kubeconfig),
            "GOGC": "off",  # short lives need no garbage collector
        }

    def blocks(self, heading: str) -> list[str]:
        """Those between a heading and the next one."""
        parts = _HEADING.split(self._text)
        sections = dict(zip(parts[1::2], parts[2::2], strict=True))
        return _BLOCK.findall(sections[heading])

    def follow(
        self,
        heading: str,
        number: int = 0,
        *,
        words: Mapping[str, str] | None = None,
        ends: Container[int] = (0,),
    ) -> str:
        """Type one block; what it prints. `words` are what the page leaves to its reader, such as NODE.

        AssertionError when a command fails, but for the last one where it `ends` so.
        """
        text = self.blocks(heading)[number]
        self._followed.add((heading, number))
        for word, meaning in (words or {}).items():
            assert word in text, f"{heading} does not say {word}"
            text = text.replace(word, meaning)
        return self.type(text, ends=ends)

    def left(self) -> list[str]:
        """The headings of blocks that nobody has followed, each as often as it has some."""
        headings = dict.fromkeys(_HEADING.findall(self._text))
        return [
            heading
            for heading in headings
            for number, _ in enumerate(self.blocks(heading))
            if (heading, number) not in self._followed
        ]

    def type(self, text: str, *, ends: Container[int] = (0,)) -> str:
        """What commands print; AssertionError when one fails."""
        ended = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", text],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=_LIMIT_S,
        )
        assert ended.returncode in ends, f"{text}\n{ended.stdout}{ended.stderr}"
        return ended.stdout
