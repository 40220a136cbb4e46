"""Lists: selectors, and pages that all show one moment.

A continue token names the revision of the first page and the last name given out. It holds as long as the log
covers that revision; after that it answers 410, and the client starts again.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, cast

import msgspec

from tonnage.model.json import JsonObject
from tonnage.twin.apiserver.event_versions import RENAMED, stored_path
from tonnage.twin.apiserver.objects.selectors import matches_labels, parse_fields, parse_labels
from tonnage.twin.apiserver.resources import Served
from tonnage.twin.apiserver.statuses import bad_request, expired
from tonnage.twin.apiserver.store import Name, Store, Stored, TooOldError
from tonnage.twin.apiserver.watching import Matches, everything

_TOO_OLD: Final = (
    "The provided continue parameter is too old to display a consistent list result. "
    "You must start a new list without the continue parameter."
)


@dataclass(frozen=True, slots=True)
class ListQuery:
    """What to list; `limit` 0 means all."""

    namespace: str = ""
    label_selector: str = ""
    field_selector: str = ""
    limit: int = 0
    continue_token: str = ""
    resource_version: str = ""
    resource_version_match: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list as it was at `revision`; `remaining` is None where the server does not count."""

    items: list[Stored]
    revision: int
    continue_token: str = ""
    remaining: int | None = None

    @property
    def metadata(self) -> JsonObject:
        """The list's metadata."""
        result: JsonObject = {"resourceVersion": str(self.revision)}
        if self.continue_token:
            result["continue"] = self.continue_token
        if self.remaining is not None:
            result["remainingItemCount"] = self.remaining
        return result


class _Token(msgspec.Struct, rename={"revision": "rv"}):
    revision: int
    start: tuple[str, str]


def matcher(served: Served, label_selector: str, field_selector: str) -> Matches:
    """Whether an object meets both selectors. Raises ApiError 400 for one that cannot be read."""
    labels = parse_labels(label_selector) if label_selector else ()
    selectable = served.custom.selectable if served.custom is not None else ()
    fields = parse_fields(served.row, field_selector, selectable) if field_selector else ()
    if served.row.api_version == RENAMED:
        fields = tuple(replace(one, path=stored_path(one.path)) for one in fields)
    if not labels and not fields:
        return everything

    def matches(obj: JsonObject) -> bool:
        return all(field.matches(obj) for field in fields) and matches_labels(labels, _labels(obj))

    return matches


def page(store: Store, served: Served, query: ListQuery) -> Page:
    """The page that a query asks for. Raises ApiError 400, 410."""
    matches = matcher(served, query.label_selector, query.field_selector)
    after: Name | None = None
    revision = _asked_revision(store, query)
    if query.continue_token:
        token = _read_token(query.continue_token)
        revision, after = token.revision, token.start
    try:
        found = store.list(served.key, namespace=query.namespace, at=revision, after=after)
    except TooOldError:
        raise expired(
            _TOO_OLD if after else "The resourceVersion for the provided list is too old."
        ) from None
    if matches is not everything:
        found = [one for one in found if matches(one.object)]
    if not query.limit or len(found) <= query.limit:
        return Page(found, revision)
    shown = found[: query.limit]
    token_text = _token_text(_Token(revision, _name(shown[-1].object)))
    counted = matches is everything
    return Page(shown, revision, token_text, len(found) - query.limit if counted else None)


def _asked_revision(store: Store, query: ListQuery) -> int:
    asked = query.resource_version
    if asked in ("", "0") or query.continue_token:
        return store.kept
    if not asked.isdecimal() or len(asked) > 18:
        raise bad_request(f'resourceVersion: Invalid value: "{asked}": strconv.ParseUint: invalid syntax')
    if int(asked) > store.kept:
        raise expired(f"Too large resource version: {asked}, current: {store.kept}")
    return int(asked) if query.resource_version_match == "Exact" else store.kept


def _token_text(token: _Token) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode().rstrip("=")


def _read_token(value: str) -> _Token:
    try:
        raw = base64.urlsafe_b64decode(value + "=" * (-len(value) % 4))
        return msgspec.json.decode(raw, type=_Token)
    except (ValueError, msgspec.MsgspecError):
        raise bad_request("continue key is not valid: incorrect encoded start key") from None


def _name(obj: JsonObject) -> Name:
    metadata = obj.get("metadata")
    assert isinstance(metadata, dict)
    namespace, name = metadata.get("namespace", ""), metadata.get("name", "")
    assert isinstance(namespace, str)
    assert isinstance(name, str)
    return namespace, name


def _labels(obj: JsonObject) -> Mapping[str, str]:
    metadata = obj.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    # Not copied: what is stored has been decoded, so values are strings.
    return cast("dict[str, str]", labels) if isinstance(labels, dict) else {}
