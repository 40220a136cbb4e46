"""Marked blocks in TOML: what a person wrote stays, and undoing leaves no trace."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.decide.node.runtime.toml_block import has_block, with_flag, without_blocks
from tonnage.model.node.runtime_change import FileEdit
from tonnage.model.reasons.node.runtime_plans import RuntimeNotConfigured

FILE = "/etc/containerd/config.toml"
HEAD = '[plugins."io.containerd.grpc.v1.cri"]'
CRI = ("plugins", "io.containerd.grpc.v1.cri")

PLACES = {
    "below the header of the table": '[plugins."io.containerd.grpc.v1.cri"]\n  a = 1 # kept\n[x]\n',
    "the header is the last line, without an end": "[plugins.'io.containerd.grpc.v1.cri']",
    "in the place of another value": f"{HEAD}\n  enable_cdi = false # no\n  b = 2\n",
    "in the place of the last line, without an end": (
        '[plugins."io.containerd.grpc.v1.cri"]\n"enable_cdi" = false'
    ),
    "only the table's children have headers": (
        'version = 2\n[plugins."io.containerd.grpc.v1.cri".containerd]\n  x = "y"'
    ),
    "there is no such table": "# mine\nversion = 2\n",
    "lines end as on Windows": f"version = 2\r\n{HEAD}\r\nenable_cdi = false\r\n",
    "an array of tables follows": '[plugins."io.containerd.grpc.v1.cri"]\na = 1\n[[b]]\nenable_cdi = false\n',
    "a table of another name has the key": "[other]\nenable_cdi = false\n",
    "an empty file": "",
}


def _after(edit: FileEdit | RuntimeNotConfigured) -> str:
    assert isinstance(edit, FileEdit)
    assert edit.after is not None
    return edit.after


@pytest.mark.parametrize("text", PLACES.values(), ids=PLACES)
def test_the_setting_is_there_everything_else_stays_and_undoing_gives_the_same_bytes(text: str) -> None:
    made = _after(with_flag(FILE, text, CRI, "enable_cdi", "true"))
    assert tomllib.loads(made)["plugins"]["io.containerd.grpc.v1.cri"]["enable_cdi"] is True
    assert all(line in made for line in text.splitlines())
    assert has_block(made)
    assert not has_block(text)
    assert _after(without_blocks(FILE, made)) == text


REFUSED = {
    "inline": 'plugins = {"io.containerd.grpc.v1.cri" = {a = 1}}\n',
    "with dotted keys": '[plugins]\n"io.containerd.grpc.v1.cri".enable_cdi = false\n',
    "as no table": '[plugins]\n"io.containerd.grpc.v1.cri" = 1\n',
    "in a text of several lines": (
        '[plugins."io.containerd.grpc.v1.cri"]\ntext = """\nenable_cdi = false\n"""\nenable_cdi = false\n'
    ),
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_added_to_is_refused(text: str) -> None:
    made = with_flag(FILE, text, CRI, "enable_cdi", "true")
    assert isinstance(made, RuntimeNotConfigured)
    assert made.remedy


def test_broken_toml_is_told_with_line_and_column() -> None:
    made = with_flag(FILE, "version = 2\n[plugins\n", CRI, "enable_cdi", "true")
    assert isinstance(made, RuntimeNotConfigured)
    assert made.where == f"{FILE}:2:9"


def test_what_somebody_changed_in_a_block_stays_and_is_told() -> None:
    made = _after(with_flag(FILE, "version = 2\n", CRI, "enable_cdi", "true"))
    left = without_blocks(FILE, made.replace("= true", "= false"))
    assert isinstance(left, RuntimeNotConfigured)
    assert (left.where, left.message) == (f"{FILE}:2", "what Tonnage wrote there has been changed since")


def test_what_somebody_wrote_after_a_block_stays_on_a_line_of_its_own() -> None:
    made = _after(with_flag(FILE, "version = 2", CRI, "enable_cdi", "true"))
    assert _after(without_blocks(FILE, f"{made}[debug]\n")) == "version = 2\n[debug]\n"


_KEYS = st.sampled_from(["enable_cdi", "a", "sandbox_image"])
_VALUES = st.sampled_from(["true", "false", "1", '"x"', "[1,\n 2]", "'''\n[a]\n'''"])
_TABLES = st.sampled_from(
    [
        "",
        "[plugins]",
        '[plugins."io.containerd.grpc.v1.cri"]',
        "[plugins.'io.containerd.grpc.v1.cri'.cni]",
        "[x]",
    ]
)
_SECTION = st.tuples(_TABLES, st.dictionaries(_KEYS, _VALUES, max_size=3), st.sampled_from(["", "# c", "\t"]))


@given(st.lists(_SECTION, max_size=4), st.booleans())
def test_of_any_file_the_bytes_come_back(
    sections: list[tuple[str, dict[str, str], str]], ended: bool
) -> None:
    lines = [
        line
        for head, pairs, tail in sections
        for line in (head, *(f"{key} = {value}" for key, value in pairs.items()), tail)
        if line
    ]
    text = "\n".join(lines) + ("\n" if ended else "")
    edit = with_flag(FILE, text, CRI, "enable_cdi", "true")
    if isinstance(edit, FileEdit):
        made = _after(edit)
        assert tomllib.loads(made)["plugins"]["io.containerd.grpc.v1.cri"]["enable_cdi"] is True
        assert _after(without_blocks(FILE, made)) == text


@given(st.text(max_size=200))
def test_any_text_without_a_block_stays_as_it_is(text: str) -> None:
    if not has_block(text):
        assert _after(without_blocks(FILE, text)) == text
