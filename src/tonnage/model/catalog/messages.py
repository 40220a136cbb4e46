"""What components say when something is wrong, out of `messages.toml`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from tonnage.model.layer import Layer
from tonnage.model.reasons.messages.by_code import symptoms_by_code
from tonnage.model.reasons.reason import Symptom


@dataclass(frozen=True, slots=True)
class Message:
    """One thing that is said: how it is known, what it means, what to look at, what to do.

    `rows` are those of the matrix of symptoms; `cuda` the numbers of CUDA's errors. A reason that ends in `*`
    stands for all that begin so.
    """

    kind: type[Symptom]
    rows: tuple[int, ...]
    layer: Layer
    patterns: tuple[re.Pattern[str], ...]
    reasons: tuple[str, ...]
    cuda: tuple[int, ...]
    meaning: str
    check: str
    remedy: str
    source: str

    @property
    def code(self) -> str:
        """The code of the reason that it stands for."""
        return self.kind.code

    def symptom(self, named: Mapping[str, str]) -> Symptom:
        """The reason, of nobody yet, with what a pattern names: its groups are facts of the class."""
        facts: dict[str, Any] = {**named}  # texts: which group is which fact is known when it runs
        return self.kind(
            subject="",
            message=self.meaning,
            remedy=self.remedy,
            source=self.source,
            layer=self.layer,
            **facts,
        )

    def has_reason(self, reason: str) -> bool:
        """Whether a word of a status is one of its own."""
        return any(
            reason.startswith(listed[:-1]) if listed.endswith("*") else reason == listed
            for listed in self.reasons
        )


@cache
def messages() -> tuple[Message, ...]:
    """Every message, the more telling before the more general; read once.

    >>> [m.code for m in messages() if 82 in m.rows]
    ['cuda-out-of-memory']
    """
    by_code = symptoms_by_code()
    text = resources.files(__package__).joinpath("messages.toml").read_text(encoding="utf-8")
    return tuple(
        Message(
            kind=by_code[row["code"]],
            rows=tuple(row["rows"]),
            layer=Layer(row["layer"]),
            patterns=tuple(re.compile(pattern, re.MULTILINE) for pattern in row.get("patterns", ())),
            reasons=tuple(row.get("reasons", ())),
            cuda=tuple(row.get("cuda", ())),
            meaning=row["meaning"],
            check=row["check"],
            remedy=row["remedy"],
            source=row["source"],
        )
        for row in tomllib.loads(text)["message"]
    )


def known_phrases(text: str) -> tuple[str, ...]:
    """The known words in a text, what each pattern finds for itself, and nothing else of it.

    >>> known_phrases("step 7\\nRuntimeError: CUDA out of memory. Tried to allocate 2 GiB for alice")
    ('CUDA out of memory',)
    """
    return tuple(dict.fromkeys(match[0] for match in phrase_matches(text)))


def phrase_matches(text: str) -> Iterator[re.Match[str]]:
    """What each pattern that fits finds for itself in a text."""
    matches = (pattern.search(text) for message in messages() for pattern in message.patterns)
    return (match for match in matches if match is not None)
