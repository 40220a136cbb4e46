"""What the catalogue of messages knows of a text, without the names of objects and files that stand in it."""

from __future__ import annotations

import re
from typing import Final

from tonnage.model.catalog.messages import phrase_matches
from tonnage.model.redaction import REDACTED

_NAMING: Final = frozenset(("node", "claim", "command", "path"))
"""Groups of the catalogue's patterns that take in a name."""
_NAMES: Final = re.compile(r'"[^"]*"|(?<![\w.])/[^\s,;:"]+|(?<=key )\S+')
"""Words in quotes, paths, and the key of a Secret or ConfigMap."""


def nameless_phrases(text: str) -> tuple[str, ...]:
    """The known phrases, with every name in them redacted.

    >>> nameless_phrases('HAMi: no binding pod found on node gpu-7, configmap "alice" not found')
    ('no binding pod found on node [redacted]', 'configmap "[redacted]" not found')
    """
    return tuple(dict.fromkeys(map(_nameless, phrase_matches(text))))


def _nameless(match: re.Match[str]) -> str:
    phrase, start = match[0], match.start()
    named = match.re.groupindex
    # Groups without a name take in whatever stands between the words of a pattern.
    gaps = {*range(1, match.re.groups + 1)} - {*named.values()}
    naming = {named[group] for group in _NAMING & named.keys()}
    for begin, end in sorted((match.span(group) for group in gaps | naming if match[group]), reverse=True):
        before = phrase[: begin - start] + REDACTED if begin > start else ""
        phrase = before + phrase[end - start :]
    return _NAMES.sub(lambda name: f'"{REDACTED}"' if name[0].startswith('"') else REDACTED, phrase)
