"""Texts that do not match a field's pattern: the message says what they must be, without the pattern."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from tonnage.documents import changes, hardware, scenario
from tonnage.documents.lab import steps
from tonnage.documents.yaml import spelling
from tonnage.documents.yaml.source import Document, parse_document
from tonnage.documents.yaml.spelling import words_of
from tonnage.model.errors import ConfigError

_PATTERN: Final = re.compile(r"\[[^\]]+-[^\]]+\]|\\|\{[0-9]")


@pytest.mark.parametrize(
    ("text", "document", "says"),
    [
        ("devices: [{uuid: a, model: T4, mig: [9g.1gb]}]", hardware.Hardware, '"9g.1gb" is not a MIG'),
        ("devices: [{uuid: ../a, model: A100-80}]", hardware.Hardware, '"../a" is not a UUID'),
        ("{name: No_Name, groups: []}", scenario.Scenario, '"No_Name" is not a name'),
        ("{name: A, title: t, scenario: s, steps: []}", steps.Lab, '"A" is not a name'),
        ("{alternatives: [{name: ' ', changes: []}]}", changes.ChangesDocument, '" " is not a name'),
    ],
)  # fmt: skip
def test_no_message_shows_a_pattern(text: str, document: type[Document], says: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_document(text, document, source="f")
    messages = [problem.what for problem in raised.value.problems]
    assert any(message.startswith(says) for message in messages), messages
    assert not any(_PATTERN.search(message) for message in messages)


def test_every_pattern_of_a_field_has_words() -> None:
    folder = Path(scenario.__file__).parent
    fields = [
        (file, name)
        for file in folder.rglob("*.py")
        for name in re.findall(r"Field\([^)]*?pattern=([^,)]+)", file.read_text())
    ]
    assert len(fields) > 5
    for file, name in fields:
        assert words_of(getattr(spelling, name, "")), (file, name)
