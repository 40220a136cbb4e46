"""Pages that are followed on a cluster: what runs is what stands there, and what is wrong there fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import page_shell
from support.page_shell import PageShell

PAGE = """# Page

Text, and `sh` without a block.

## First

```sh
echo one NODE
```

```console
$ echo is left to those who read the twin's pages
```

```sh
echo two
ecko three
echo four
```

## Second

```sh
echo five | false | cat
```
"""


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PageShell:
    monkeypatch.setattr(page_shell, "ROOT", tmp_path)
    pages = tmp_path / "docs" / "how-to"
    pages.mkdir(parents=True)
    (pages / "page.md").write_text(PAGE, encoding="utf-8")
    folder = tmp_path / "folder"
    folder.mkdir()
    return PageShell("page", folder, tmp_path / "kubeconfig")


def test_what_stands_there_is_typed(shell: PageShell) -> None:
    assert shell.follow("First") == "one NODE\n"
    assert shell.follow("First", words={"NODE": "gpu-0"}) == "one gpu-0\n"


def test_a_command_that_is_wrong_fails_wherever_it_stands(shell: PageShell) -> None:
    with pytest.raises(AssertionError, match="ecko: command not found"):
        shell.follow("First", 1)
    with pytest.raises(AssertionError, match="echo five"):
        shell.follow("Second")


def test_a_page_that_lost_a_heading_a_block_or_a_word_fails(shell: PageShell) -> None:
    with pytest.raises(KeyError):
        shell.follow("Third")
    with pytest.raises(IndexError):
        shell.follow("Second", 1)
    with pytest.raises(AssertionError, match="Second does not say NODE"):
        shell.follow("Second", words={"NODE": "gpu-0"})


def test_blocks_that_nobody_followed_are_named(shell: PageShell) -> None:
    assert shell.left() == ["First", "First", "Second"]
    shell.follow("First")
    assert shell.left() == ["First", "Second"]
