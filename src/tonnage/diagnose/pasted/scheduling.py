"""Messages of FailedScheduling in a pasted text: which nodes were refused for what, and the sum."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tonnage.diagnose.pasted.parts import MessagePart, common_releases, part_of, releases_text
from tonnage.diagnose.scheduler_message import SchedulerMessage, parsed_message
from tonnage.model.catalog.refusal_texts import MessageSlot
from tonnage.model.json import JsonObject

_HEAD: Final = re.compile(r"(?<!preemption: )(?<!preemption:\n)\b0/\d{1,7} nodes are available")
_TAIL: Final = re.compile(
    r"\s*(?:preemption:|no new claims|still not|\d+ (?:No preemption|Preemption)|All PostFilter|not found)"
)
_NEXT: Final = re.compile(r"\s*(?:$|Warning |Normal |Events:|Type +Reason|- )")
_CUT: Final = re.compile(r"\s*(?:\.\.\.|…)$")
_FIT: Final = "NodeResourcesFit"
_MOST_MESSAGES: Final = 100
_MOST_LINES: Final = 40
_LONGEST: Final = 1 << 15


@dataclass(frozen=True, slots=True)
class SchedulingText:
    """One message. `cut`: it ends in the middle, as Events longer than 1,024 bytes do."""

    words: str
    nodes: int
    parts: tuple[MessagePart, ...]
    preemption: tuple[MessagePart, ...]
    preemption_nodes: int | None = None
    cut: bool = False

    @property
    def counted(self) -> int | None:
        """How many the counts add up to; None where no nodes were counted."""
        counts = [part.count for part in self.parts if part.count is not None]
        return sum(counts) if counts else None

    @property
    def sum_text(self) -> str:
        """Whether the counts add up to the number of nodes, in words."""
        return sum_text(self.nodes, self.parts, cut=self.cut)

    @property
    def preemption_sum_text(self) -> str:
        """The same of what preemption came to; empty where that counts no nodes."""
        if self.preemption_nodes is None:
            return ""
        return sum_text(self.preemption_nodes, self.preemption, cut=self.cut)

    @property
    def releases(self) -> str:
        """Which releases of Kubernetes write all of it; empty for any."""
        return releases_text(common_releases((*self.parts, *self.preemption)))

    def to_json(self) -> JsonObject:
        """As `explain message -o json` prints it."""
        return {
            "words": self.words,
            "nodes": self.nodes,
            "counted": self.counted,
            "sum": self.sum_text,
            "cut": self.cut,
            "releases": self.releases or None,
            "parts": [part.to_json() for part in self.parts],
            "preemption": [part.to_json() for part in self.preemption],
            "preemptionSum": self.preemption_sum_text or None,
        }


def scheduling_texts(text: str) -> tuple[SchedulingText, ...]:
    """The messages of a text, each once, in their order.

    >>> [message] = scheduling_texts("Warning  FailedScheduling  0/3 nodes are available: 1 Too many pods, "
    ...     "2 Insufficient nvidia.com/gpu.")
    >>> [(part.count, part.meaning.code) for part in message.parts], message.sum_text
    ([(1, 'too-many-pods'), (2, 'insufficient-resource')], 'the counts add up to 3 of 3 nodes')
    """
    messages = dict.fromkeys(_messages(text))
    return tuple(_taken_apart(words) for words in [*messages][:_MOST_MESSAGES])


def _messages(text: str) -> Iterator[str]:
    heads = [match.start() for match in _HEAD.finditer(text)]
    for start, end in zip(heads, [*heads[1:], len(text)], strict=False):
        piece = text[start : min(end, start + _LONGEST)]
        if text[start - 1 : start] == '"':  # a value in JSON
            quoted = re.match(r"(?:[^\"\\\n]|\\.)*", piece)
            piece = re.sub(r"\\(.)", r"\1", quoted[0] if quoted else piece)
        yield _unwrapped(piece)


def _unwrapped(piece: str) -> str:
    """The message's lines as one: a terminal, or a mail, may have broken it."""
    first, *others = piece.split("\n")[:_MOST_LINES]
    words = first.strip()
    for line in others:
        ended = words.endswith(".") and not words.endswith(" ...")
        if _NEXT.match(line) and not _TAIL.match(line):
            break
        if ended and not _TAIL.match(line):
            break
        words = f"{words} {line.strip()}"
    return words


def _taken_apart(words: str) -> SchedulingText:
    cut = _CUT.search(words)
    whole = words[: cut.start()] if cut else words
    message = parsed_message(whole)
    after = parsed_message(message.preemption) if message.preemption else SchedulerMessage()
    parts = [part_of(text, MessageSlot.NODE, count) for count, text in message.parts]
    if message.whole:
        parts = [part_of(message.whole.rstrip("."), MessageSlot.CYCLE)]
    claims = [part_of(text, MessageSlot.PREEMPTION) for text in message.claims.split(", ") if text]
    return SchedulingText(
        words,
        message.nodes or 0,
        tuple(parts),
        (*claims, *_of_preemption(after)),
        after.nodes if after.parts else None,
        bool(cut),
    )


def _of_preemption(after: SchedulerMessage) -> Iterator[MessagePart]:
    """Nodes without victims have words of their own; those with some that do not suffice have a filter's."""
    for count, text in after.parts:
        part = part_of(text, MessageSlot.PREEMPTION, count)
        yield part if part.meaning is not None else part_of(text, MessageSlot.NODE, count)
    if after.whole:
        yield part_of(after.whole.rstrip("."), MessageSlot.PREEMPTION)


def sum_text(nodes: int, parts: tuple[MessagePart, ...], *, cut: bool = False) -> str:
    """Whether counts add up to the nodes, in words; empty where nothing is counted."""
    counts = [part.count for part in parts if part.count is not None]
    if not counts:
        return ""
    total = sum(counts)
    if total == nodes:
        return f"the counts add up to {total} of {nodes} nodes"
    if total < nodes:
        why = "the text is cut off" if cut else "part of the text is missing"
        return f"the counts add up to {total} of {nodes} nodes: {why}"
    several = sum(part.meaning is not None and part.meaning.plugin == _FIT for part in parts)
    why = (
        "a node that lacks several resources counts for each"
        if several > 1
        else "no scheduler counts like this; the text joins two messages or was changed"
    )
    return f"the counts add up to {total} for {nodes} nodes: {why}"
