"""Messages without the values that they quote.

A value that stands there as it is, or makes up the whole of a quoted word in whatever spelling, is blotted
out. Should a value be found in what is left once escapes are undone, the whole message goes, but for the
words that the catalogue of messages knows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from tonnage.adapters.snapshots.component_messages import is_own
from tonnage.adapters.snapshots.secret_values import SecretValues
from tonnage.adapters.snapshots.spellings import readings, spellings
from tonnage.model.catalog.messages import known_phrases
from tonnage.model.redaction import REDACTED

Span = tuple[int, int]
_QUOTES: Final = ('"', "'", "`")
_GO_QUOTED: Final = re.compile(r'"(?P<text>(?:[^"\\]|\\.)*)"', re.DOTALL)
_QUOTED: Final = tuple(
    re.compile(rf"(?=(?P<escape>\\{{0,7}}){pattern})", re.DOTALL)
    for pattern in (
        r"""(?P<quote>["'`])(?P<text>.{1,2000}?)(?P=escape)(?P=quote)""",
        r'"(?P<text>(?:[^"\\]|\\.){1,2000})"',
        r"'(?P<text>(?:[^']|''){1,2000})'",
    )
)
"""Plainly, as Go and JSON do it, as YAML does it; wherever a quote might open a word."""
_STRUCTURAL: Final = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        r"://(?P<text>[^/\s\"'@]*)@",
        r"https?://[^\s\"'?]*\?(?P<text>[^\s\"']+)",
        r"(?i:\b(?:bearer|basic) )(?P<text>[A-Za-z0-9+/_.~=-]{8,})",
        r"(?i:(?<![\w-])[\w-]{0,64}(?:password|passwd|pwd|token|secret|api[_-]?key|credentials?)[\w-]*=)(?P<text>[^\s,;&\"']+)",
    )
)
"""What is never shown, whoever says it: credentials and queries in URLs, and what calls itself a secret."""
_REFUSED: Final = re.compile(
    r"(?:(?:Invalid|Unsupported|Duplicate) value|Not found): "
    r'(?:"(?P<text>(?:[^"\\]|\\.)*)"|(?P<other>[^"].*))',
    re.DOTALL,
)
"""A value of any field in the API server's words."""
_AMOUNT: Final = re.compile(r"-?[0-9]{1,9}(?:\.[0-9]{1,9})?(?:[numkKMGTPE]i?)?|true|false|null|")
_AMOUNT_THEN: Final = re.compile(rf"(?:{_AMOUNT.pattern})(?:: |$)")
_OF_PROGRAMS: Final = re.compile(r"\b(?:l?stat|open|fork/exec|mkdir|chdir) (?P<text>.+)(?=: )", re.DOTALL)
_MARKS: Final = re.compile(r"[\W_]+")
_CUTS: Final = re.compile(r"\.\.\.|…|(?=\0)|\Z")
_LONGEST: Final = 8192
_MOST_QUOTES: Final = 400
"""Of a longer text, or one of more quotes, nothing is kept but what the catalogue knows."""
_MOST_CUTS: Final = 64
_END: Final = 8
_LEAST: Final = 8
_MOST_COMPARED: Final = 400_000_000
"""Characters of a text times values: beyond that the message goes unread."""


def without_values(text: str, values: SecretValues, shown_words: frozenset[str]) -> str:
    """A message as it may be kept."""
    if is_own(text):
        return text
    if len(text) > _LONGEST or sum(map(text.count, _QUOTES)) > _MOST_QUOTES:
        return _with(REDACTED, _safe_phrases(text[:_LONGEST], values))
    shown = [match.span("text") for match in _GO_QUOTED.finditer(text) if match["text"] in shown_words]
    spans = [*_structural(text, values, shown_words), *_quoted(text, values), *_literal_spans(text, values)]
    spans = [span for span in spans if not any(span[0] >= at and span[1] <= end for at, end in shown)]
    blotted = _blotted(text, spans)
    if not _in_doubt(_blotted(text, [*spans, *shown]), values):
        return _with(blotted, _safe_phrases(text, values)) if spans else blotted
    return _with(REDACTED, _safe_phrases(blotted, values))


def _with(text: str, phrases: Iterable[str]) -> str:
    """With those of the known words that are no longer in it, by which the fault is known."""
    return "\n".join([text, *(words for words in phrases if words not in text)])


def _safe_phrases(text: str, values: SecretValues) -> Iterator[str]:
    return (words for words in known_phrases(text) if not _shows(words, values))


def _shows(words: str, values: SecretValues) -> bool:
    return bool(_quoted(words, values) or _literal_spans(words, values)) or _in_doubt(words, values)


def _structural(text: str, values: SecretValues, shown_words: frozenset[str]) -> Iterator[Span]:
    for pattern in _STRUCTURAL:
        yield from (match.span("text") for match in pattern.finditer(text))
    for match in _REFUSED.finditer(text):
        quoted = match["text"]
        if quoted is None and not _AMOUNT_THEN.match(match["other"]):
            yield match.span("other")
        elif quoted is not None and quoted not in shown_words and not _AMOUNT.fullmatch(quoted):
            yield match.span("text")
    if values.expands:
        quoted = (match for match in _GO_QUOTED.finditer(text) if match["text"])
        yield from (match.span("text") for match in quoted if match["text"] not in shown_words)
        yield from (match.span("text") for match in _OF_PROGRAMS.finditer(text))


def _quoted(text: str, values: SecretValues) -> list[Span]:
    """Quoted words that are a value as a whole, in any spelling."""
    return [
        match.span("text")
        for pattern in _QUOTED
        for match in pattern.finditer(text)
        if any(reading in values.quoted for reading in readings(match["text"]))
    ]


def _literal_spans(text: str, values: SecretValues) -> list[Span]:
    """Where values stand as they are."""
    whole = (span for value in values.anywhere for span in _places(text, value))
    bounded = (span for value in values.bounded for span in _places(text, value) if _stands_alone(text, span))
    quoted = (
        (start + 1, stop - 1)
        for value in values.others
        for quote in _QUOTES
        for start, stop in _places(text, f"{quote}{value}{quote}")
    )
    return [*whole, *bounded, *quoted]


def _places(text: str, value: str) -> Iterator[Span]:
    at = text.find(value)
    while at >= 0:
        yield at, at + len(value)
        at = text.find(value, at + 1)


def _stands_alone(text: str, span: Span) -> bool:
    return not (text[span[0] - 1 : span[0]].isalnum() or text[span[1] : span[1] + 1].isalnum())


def _blotted(text: str, spans: Iterable[Span]) -> str:
    """The text with all that the spans cover, which may overlap, replaced."""
    pieces, at, end = list[str](), 0, -1
    for start, stop in sorted(spans):
        if start > end:
            pieces += [text[at:start], REDACTED]
        at = end = max(end, stop)
    return "".join([*pieces, text[at:]])


def _in_doubt(text: str, values: SecretValues) -> bool:
    """Whether a value may be in a text in any spelling, with other marks, or cut off."""
    if not values.quoted:
        return False
    rest = text.replace(REDACTED, "\0")
    read = spellings(rest)
    if read.plain is None or len(read.plain + read.packed) * len(values.quoted) > _MOST_COMPARED:
        return True
    plain, packed = read.plain, read.packed
    return (
        any(value in plain or value in packed for value in values.anywhere)
        or any(value in packed for value in values.bounded)
        or any(_stands_alone(plain, at) for value in values.bounded for at in _places(plain, value))
        or any(f"{quote}{value}{quote}" in plain for value in values.others for quote in _QUOTES)
        or _bare(plain, values)
        or _cut(plain, values)
    )


def _bare(text: str, values: SecretValues) -> bool:
    """Whether a long value is there with other marks, spaces or cases."""
    bare = _MARKS.sub("", text).casefold()
    marked = (_MARKS.sub("", value).casefold() for value in values.anywhere)
    return any(len(value) >= _LEAST and value in bare for value in marked)


def _cut(text: str, values: SecretValues) -> bool:
    """Whether a text breaks off within a value."""
    ends = {text[max(0, cut.start() - _END) : cut.start()] for cut in _CUTS.finditer(text)}
    if len(ends) > _MOST_CUTS:
        return True
    return any(len(end) == _END and end in value for end in ends for value in values.anywhere)
