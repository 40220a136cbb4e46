"""Which known messages a text holds: of a status, a termination message, or a log."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from tonnage.model.catalog.messages import Message, messages
from tonnage.model.catalog.xids import xids
from tonnage.model.json import JsonObject
from tonnage.model.reasons.messages.driver_symptoms import GpuXid
from tonnage.model.reasons.reason import Symptom
from tonnage.model.whole_numbers import whole_number

LONGEST_TEXT: Final = 1 << 20
"""Of a longer text the end is looked at: a log says last what ended it."""
_LONGEST_WORDS: Final = 400
_CUDA_NUMBER: Final = re.compile(
    r"(?:CUDA|cuda)[^\n]{0,80}?(?:[Ee]rror(?: code)?|returned)[ :=(]{1,3}(?P<number>\d{1,3})\b"
)


@dataclass(frozen=True, slots=True)
class MessageMatch:
    """A known message, the line in which it stands, and its reason with what the line names."""

    message: Message
    words: str
    symptom: Symptom

    def to_json(self) -> JsonObject:
        """As `explain message -o json` prints it."""
        return {
            "code": self.message.code,
            "layer": self.message.layer.value,
            "rows": [*self.message.rows],
            "words": self.words,
            "facts": self.symptom.facts,
            "meaning": self.message.meaning,
            "check": self.message.check,
            "remedy": self.message.remedy,
            "source": self.message.source,
        }


def matches_in(text: str) -> tuple[MessageMatch, ...]:
    """Known messages in a text, each once, the more telling first.

    >>> [(h.message.code, h.symptom.facts) for h in matches_in("unresolvable CDI devices nvidia.com/gpu=0")]
    [('cdi-device-unresolvable', {'device': 'nvidia.com/gpu=0'})]
    >>> matches_in("all is well")
    ()
    """
    text = text[-LONGEST_TEXT:]
    if not text.strip():
        return ()
    numbers = {int(match["number"]): match for match in _CUDA_NUMBER.finditer(text)}
    matched: list[MessageMatch] = []
    for message in messages():
        matches = (pattern.search(text) for pattern in message.patterns)
        match = next((candidate for candidate in matches if candidate is not None), None)
        match = match or next((numbers[n] for n in message.cuda if n in numbers), None)
        if match is not None and message.code not in {candidate.message.code for candidate in matched}:
            named = {name: value for name, value in match.groupdict().items() if value and name != "number"}
            matched.append(MessageMatch(message, line_of(text, match), message.symptom(named)))
    return tuple(matched)


def match_lines(match: MessageMatch) -> list[str]:
    """A known message for a person: what it is, what it means, what to look at, what to do."""
    message = match.message
    number = match.symptom.xid if isinstance(match.symptom, GpuXid) else None
    xid = xids().get(whole_number(number or "") or 0)
    xid_text = f"Xid {xid.code}: {xid.name}; it asks for {xid.fault_class.value}" if xid is not None else ""
    return [
        f"{message.code} (layer: {message.layer})",
        f"  said: {match.words}",
        f"  means: {message.meaning}{f' ({xid_text})' if xid_text else ''}",
        f"  look at: {message.check}",
        f"  do: {message.remedy}",
    ]


def message_by_reason(reason: str) -> Message | None:
    """The message that a word of a status stands for (`ImagePullBackOff`)."""
    return next((message for message in messages() if reason and message.has_reason(reason)), None)


def line_of(text: str, match: re.Match[str]) -> str:
    """The line of a match; of a very long one what stands around the match."""
    start = text.rfind("\n", 0, match.start()) + 1
    end = text.find("\n", match.end())
    end = len(text) if end < 0 else end
    if end - start > _LONGEST_WORDS:
        start = max(start, match.start() - _LONGEST_WORDS // 4)
        end = min(end, start + _LONGEST_WORDS)
    return text[start:end].strip()
