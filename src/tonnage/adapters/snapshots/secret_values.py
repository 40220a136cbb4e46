"""The values of an object that a snapshot leaves out and a message may quote, whole and in pieces."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Final

from tonnage.adapters.snapshots.spellings import readings
from tonnage.model.catalog.messages import messages
from tonnage.model.json import JsonObject, JsonValue, parsed_json

_SECRETIVE: Final = frozenset(
    (
        "env", "command", "args", "workingDir", "exec", "httpGet", "tcpSocket", "grpc", "lifecycle",
        "volumes", "volumeMounts", "hostAliases", "dnsConfig",
    )
)  # fmt: skip
"""Fields of which only names are kept: variables, command lines, probes, options of volumes, addresses."""
_NAMING: Final = frozenset(
    (
        "name", "secretName", "claimName", "driver", "fsType", "medium", "fieldPath", "apiVersion", "kind",
        "accessModes", "volumeMode", "storageClassName",
    )
)  # fmt: skip
"""Within those, what names an object or is one of a few fixed words."""
_NO_VALUES: Final = frozenset(("nvidia-smi",))
"""A program by whose absence a fault is known."""
_CONSTANTS: Final = ("true", "false", "null", "none")
USERINFO: Final = re.compile(r"^(?:[a-z]+://)?(?P<user>[^/@]*:[^@]*|[^/@]*(?<=//)[^/@]*)@(?!sha[0-9]+:)")
"""In an image's name, which can hold none."""
_SEPARATORS: Final = tuple(
    map(re.compile, (r"[\r\n]+", r"\s+", r"[,;|&]+", r"=+", r"@", r":", r"[/?#\\]+", r"[\"'`()\[\]{}<>$!]+"))
)
_REST: Final = re.compile(r"[=:]")
_IN_URL: Final = re.compile(r"//([^\s]*)@")
_WORD: Final = re.compile(r"[A-Za-z]{4,}(?:-[a-z]+)?")
_SHORT: Final = 4
_SMALL: Final = 8
_EXPANDS: Final = "$("
_REMEMBERED: Final = 1024
_LONGEST_TREE: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class SecretValues:
    """Values by how they are found. `quoted` holds all: each is hidden where it is a whole quoted word.

    `anywhere` are hidden wherever they stand, `bounded` (4 to 7 letters and digits) where no other letter or
    digit touches them, `others` (short ones, common words) nowhere else. `expands`: a command line takes in
    values that the object does not show.
    """

    quoted: frozenset[str]
    anywhere: tuple[str, ...]
    bounded: tuple[str, ...]
    others: tuple[str, ...]
    expands: bool


def secret_values(obj: JsonObject, public: Container[str]) -> SecretValues:
    """The values of an object; what is `public` of it elsewhere is no secret.

    >>> found = secret_values({"env": [{"name": "DB", "value": "pg://joe:p%40ss@db/x"}]}, ())
    >>> "p@ss" in found.quoted, "joe" in found.quoted, found.bounded
    (True, True, ())
    """
    sources = list(dict.fromkeys(_sources(obj)))
    pieces = {
        piece: None
        for source in sources
        if source not in public and source not in _NO_VALUES
        for piece in (_of_source if len(source) < _REMEMBERED else _of_source.__wrapped__)(source)
    }
    hidden = [piece for piece in pieces if piece not in public and piece not in _NO_VALUES]
    telling = [piece for piece in hidden if len(piece) >= _SHORT and piece.lower() not in common_words()]
    small = {piece for piece in telling if len(piece) < _SMALL and piece.isalnum()}
    searched = set(telling)
    return SecretValues(
        frozenset(hidden),
        tuple(piece for piece in telling if piece not in small),
        tuple(piece for piece in telling if piece in small),
        tuple(piece for piece in hidden if piece not in searched),
        any(_EXPANDS in source for source in sources),
    )


@cache
def common_words() -> frozenset[str]:
    """Words that known messages are made of: as values they say as little as short ones."""
    texts = (part.pattern for message in messages() for part in message.patterns)
    return frozenset((*_CONSTANTS, *(word.lower() for text in texts for word in _WORD.findall(text))))


def texts_of(value: JsonValue) -> Iterator[str]:
    """Every text in a value, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        if isinstance(value, dict):
            yield from value
        for part in value.values() if isinstance(value, dict) else value:
            yield from texts_of(part)


def _sources(value: JsonValue) -> Iterator[str]:
    """Texts of which nothing may be quoted."""
    if isinstance(value, list):
        for part in value:
            yield from _sources(part)
    elif isinstance(value, dict):
        for key, part in value.items():
            if key == "annotations":
                yield from _opened(_scalars(part, lambda _: True))
            elif key in _SECRETIVE:
                texts = [*_scalars(part, lambda name: name not in _NAMING)]
                yield from texts
                yield from _opened(texts)
            elif key == "image" and isinstance(part, str):
                yield from (match["user"] for match in [USERINFO.match(part)] if match)
            else:
                yield from _sources(part)


def _scalars(value: JsonValue, takes: Callable[[str], bool]) -> Iterator[str]:
    if isinstance(value, dict):
        for key, part in value.items():
            if takes(key):
                yield from _scalars(part, takes)
    elif isinstance(value, list):
        for part in value:
            yield from _scalars(part, takes)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


def _opened(texts: Iterable[str]) -> Iterator[str]:
    """Texts; of one that is JSON, such as the configuration last applied, the values in it."""
    for text in texts:
        tree = _tree(text)
        if tree is None:
            yield text
        else:
            yield from _opened(_scalars(tree, lambda _: True))


def _tree(text: str) -> JsonValue:
    """The object or list that a text is; None for any other."""
    if text[:1] not in ("{", "[") or len(text) > _LONGEST_TREE:
        return None
    try:
        value = parsed_json(text)
    except ValueError:
        return None
    return value if isinstance(value, dict | list) else None


@lru_cache(8192)
def _of_source(text: str) -> tuple[str, ...]:
    """Pieces of all that a value can stand for; pods of one workload have the same values."""
    pieces: dict[str, None] = {}
    for reading in readings(text):
        _add_pieces(reading, pieces)
    return tuple(pieces)


def _add_pieces(text: str, all_pieces: dict[str, None]) -> None:
    """Add a value, its lines, and what stands between separators, from the widest pieces to the narrowest."""
    pieces = [text]
    _add(pieces, all_pieces)
    for separator in _SEPARATORS:
        if separator.search(text):
            pieces = [part for piece in pieces for part in separator.split(piece) if part]
            _add(pieces, all_pieces)


def _user(text: str) -> tuple[str, ...]:
    name, _, password = text.partition(":")
    return text, name, password


def _add(pieces: list[str], all_pieces: dict[str, None]) -> None:
    """Add pieces, what comes after the first `=` or `:` in them, and who logs in by a URL in them."""
    rests = [piece[match.end() :] for piece in pieces if (match := _REST.search(piece))]
    users = [_user(user) for piece in pieces if "@" in piece for user in _IN_URL.findall(piece)]
    for piece in (*pieces, *rests, *itertools.chain.from_iterable(users)):
        if piece:
            all_pieces[piece] = None
            stripped = piece.strip()
            if stripped:
                all_pieces[stripped] = None
