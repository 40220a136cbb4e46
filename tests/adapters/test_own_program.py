"""What identifies the installed program."""

from __future__ import annotations

from pathlib import Path

import pytest

import tonnage
from tonnage.adapters.own_program import digest_of


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of two files in the place of this one."""
    for name in ("__init__.py", "reader.py", "other.py"):
        (tmp_path / name).write_text(name)
    monkeypatch.setattr(tonnage, "__file__", str(tmp_path / "__init__.py"))
    return tmp_path


def test_another_version_is_another_program(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = digest_of(["read*.py"])
    monkeypatch.setattr(tonnage, "__version__", "99")
    assert digest_of(["read*.py"]) != before


def test_a_file_that_is_another_is_another_program_if_it_is_named(package: Path) -> None:
    before = digest_of(["read*.py"])
    (package / "other.py").write_text("new")
    assert digest_of(["read*.py"]) == before
    (package / "reader.py").write_text("new")
    assert digest_of(["read*.py"]) != before
