"""Lists: selectors, and pages that all show one moment.

A continue token names the revision of the first page and the last name given out. It holds for five to
ten minutes, if the log covers that revision; after that it answers 410, with a token that goes on at the
present one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from tonnage.decide.kubernetes.api.field_selectors import field_terms, parse_fields
from tonnage.decide.kubernetes.api.problems import quoted
from tonnage.decide.kubernetes.api.selectors import labels_of, matches_labels, parse_labels
from tonnage.model.errors import GoneError
from tonnage.model.json import JsonObject
from tonnage.twin.apiserver.object_store import Name, ObjectStore, Stored, TooOldError
from tonnage.twin.apiserver.reading.continue_tokens import LATEST, ContinueToken, read_token
from tonnage.twin.apiserver.reading.watching import Matches, everything
from tonnage.twin.apiserver.resources import COMPONENTS, ServedResource
from tonnage.twin.apiserver.statuses import StatusError, bad_request, expired, too_new
from tonnage.twin.apiserver.versions.events import RENAMED, stored_path

_MOST_DIGITS: Final = 20
_TOO_OLD: Final = (
    "The provided continue parameter is too old to display a consistent list result. "
    "You can start a new list without the continue parameter, or use the continue token in this response "
    "to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent "
    "list - objects that were created, modified, or deleted between the time the first chunk was returned "
    "and now may show up in the list."
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
class ListPage:
    """A part of a list as it was at `revision`; `remaining` is None where the server does not count."""

    items: list[Stored]
    revision: int
    continue_token: str = ""
    remaining: int | None = None

    @property
    def metadata(self) -> JsonObject:
        """The list's metadata."""
        metadata: JsonObject = {"resourceVersion": str(self.revision)} if self.revision else {}
        if self.continue_token:
            metadata["continue"] = self.continue_token
        if self.remaining is not None:
            metadata["remainingItemCount"] = self.remaining
        return metadata


def matcher(served: ServedResource, label_selector: str, field_selector: str) -> Matches:
    """Whether an object meets both selectors. Raises ApiError 400 for one that cannot be read."""
    labels = parse_labels(label_selector) if label_selector else ()
    selectable = served.custom.selectable if served.custom is not None else None
    fields = parse_fields(served.row, field_selector, selectable) if field_selector else ()
    if served.row.api_version == RENAMED:
        fields = tuple(replace(field_term, path=stored_path(field_term.path)) for field_term in fields)
    if not labels and not fields:
        return everything

    def matches(obj: JsonObject) -> bool:
        return all(field.matches(obj) for field in fields) and matches_labels(labels, labels_of(obj))

    return matches


def page(store: ObjectStore, served: ServedResource, query: ListQuery) -> ListPage:
    """The page that a query asks for. Raises ApiError 400, 410."""
    matches = matcher(served, query.label_selector, query.field_selector)
    revision, after = _moment(store, served, query)
    try:
        objects = store.list(served.key, namespace=query.namespace, at=revision, after=after)
    except TooOldError:
        if after is None:
            raise expired("The resourceVersion for the provided list is too old.") from None
        raise GoneError(_TOO_OLD, ContinueToken(LATEST, after).text(query.namespace)) from None
    if query.namespace or not served.row.namespaced:
        objects = _by_name(objects, query.field_selector)
    # What is read from memory at any version is never cut.
    limit = 0 if query.resource_version == "0" else query.limit
    if served.key == COMPONENTS:
        return ListPage(_cut(objects, matches, len(objects))[0], 0)
    shown, rest = _cut(objects, matches, limit or len(objects))
    if not rest:
        return ListPage(shown, revision)
    token = ContinueToken(revision, _name(shown[-1].object)).text(query.namespace)
    return ListPage(shown, revision, token, rest if matches is everything else None)


def _by_name(objects: list[Stored], field_selector: str) -> list[Stored]:
    """Of objects in their place, the one that a selector names: nothing comes after it."""
    named = {
        entry.value for entry in field_terms(field_selector) if entry.path == "metadata.name" and entry.equal
    }
    return [entry for entry in objects if _name(entry.object)[1] in named] if len(named) == 1 else objects


def _cut(objects: list[Stored], matches: Matches, limit: int) -> tuple[list[Stored], int]:
    """The first `limit` that match, and how many come after them, whether those match or not."""
    if matches is everything:
        return objects[:limit], max(len(objects) - limit, 0)
    shown: list[Stored] = []
    for place, stored in enumerate(objects):
        if len(shown) == limit:
            return shown, len(objects) - place
        if matches(stored.object):
            shown.append(stored)
    return shown, 0


def _moment(store: ObjectStore, served: ServedResource, query: ListQuery) -> tuple[int, Name | None]:
    """The revision that a list shows, and the name after which it begins."""
    if query.continue_token:
        namespaced = served.row.namespaced
        token = read_token(query.continue_token, namespaced=namespaced, namespace=query.namespace)
        if query.resource_version not in ("", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        if token.revision > store.durable:
            raise too_new(token.revision, store.durable)
        return (store.durable if token.revision == LATEST else token.revision), token.after
    try:
        requested = revision_of(query.resource_version)
    except ValueError as error:
        raise bad_request(f"invalid resource version: {error}") from None
    if requested > store.durable:
        raise too_new(requested, store.durable)
    exact = query.resource_version_match == "Exact" or (query.limit and not query.resource_version_match)
    return (requested if requested and exact else store.durable), None


def revision_of(version: str) -> int:
    """A resource version as a number, 0 where none is given. Raises ValueError with the server's words."""
    if not version:
        return 0
    why = "invalid syntax"
    if version.isascii() and version.isdigit():
        if len(version.lstrip("0")) <= _MOST_DIGITS and int(version) < 1 << 64:
            return int(version)
        why = "value out of range"
    detail = f"strconv.ParseUint: parsing {quoted(version)}: {why}"
    raise ValueError(f"resourceVersion: Invalid value: {quoted(version)}: {detail}")


def number_of(version: str) -> int:
    """A resource version outside a list. Raises ApiError 500, as upstream does."""
    try:
        return revision_of(version)
    except ValueError as error:
        raise StatusError(500, "", str(error)) from None


def check_version(store: ObjectStore, version: str) -> None:
    """Refuse the version at which somebody wants to read an object. Raises ApiError 500, 504."""
    if (requested := number_of(version)) > store.durable:
        raise too_new(requested, store.durable)


def _name(obj: JsonObject) -> Name:
    metadata = obj.get("metadata")
    assert isinstance(metadata, dict)
    namespace, name = metadata.get("namespace", ""), metadata.get("name", "")
    assert isinstance(namespace, str)
    assert isinstance(name, str)
    return namespace, name
