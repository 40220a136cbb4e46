"""What the image says of the revision it is made from, and what is told when git does not say."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from scripts.image.checkout import Git


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    folder.mkdir()
    who = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false")
    for words in (("init", "--quiet"), (*who, "commit", "--quiet", "--allow-empty", "-m", "first")):
        subprocess.run(["git", *words], cwd=folder, check=True, timeout=60)
    return folder


@pytest.fixture
def told() -> list[str]:
    return []


def test_a_checkout_says_its_revision(checkout: Path, told: list[str]) -> None:
    assert len(Git(checkout, told.append).says("rev-parse", "HEAD")) == 40
    assert told == []


def test_sources_without_a_checkout_have_no_revision_and_that_is_fine(
    tmp_path: Path, told: list[str]
) -> None:
    assert Git(tmp_path, told.append).says("rev-parse", "HEAD") == ""
    assert told == []


def test_a_checkout_of_another_user_is_told_once_with_the_remedy(
    checkout: Path, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")  # git's own way to try it
    git = Git(checkout, told.append)
    assert (git.says("rev-parse", "HEAD"), git.says("log", "-1", "--format=%ct")) == ("", "")
    assert len(told) == 2
    assert "names no revision and no time of one: fatal: detected dubious ownership" in told[0]
    assert told[1].endswith(f"git config --global --add safe.directory {checkout}")


def test_a_broken_checkout_is_told(checkout: Path, told: list[str]) -> None:
    (checkout / ".git/HEAD").write_text("ref: refs/heads/lost\n")
    assert Git(checkout, told.append).says("rev-parse", "HEAD") == ""
    assert told[1].endswith(f"git -C {checkout} status")


def test_a_machine_without_git_is_told_when_there_is_a_checkout(
    checkout: Path, told: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert Git(tmp_path, told.append).says("rev-parse", "HEAD") == ""
    assert told == []
    assert Git(checkout, told.append).says("rev-parse", "HEAD") == ""
    assert told[1] == "  remedy: install git"
