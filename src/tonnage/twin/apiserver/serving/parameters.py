"""Query strings and paths of requests, read strictly where upstream does."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote_plus

from tonnage.decide.kubernetes.api.encoding.body import UNREAD, BodyError
from tonnage.decide.kubernetes.api.encoding.decode import decode
from tonnage.decide.kubernetes.api.problems import (
    Errors,
    FieldError,
    InvalidError,
    forbidden,
    quoted,
    required,
    unsupported,
)
from tonnage.model.durations import nanoseconds
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import text
from tonnage.twin.apiserver.ownership.manager_names import manager_of_agent, manager_problems, options_status
from tonnage.twin.apiserver.reading.listing import ListQuery
from tonnage.twin.apiserver.requests import DeleteOptions, FieldValidation, Options, ResourcePath
from tonnage.twin.apiserver.statuses import bad_request
from tonnage.twin.apiserver.verbs import WatchOptions
from tonnage.twin.apiserver.writing.deletion_options import deletion_options, dry_run_problems
from tonnage.wire.schema import Schema

_FALSE: Final = ("false", "0")
_LARGEST: Final = (1 << 63) - 1
_MOST_SECONDS: Final = 24 * 3600
_NOT_OLDER: Final = "NotOlderThan"
_NO_ESCAPE: Final = re.compile("%(?![0-9A-Fa-f]{2})")


class Query(dict[str, str]):
    """Parameters by name; of one that is given more than once, the first counts."""

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        super().__init__(reversed(pairs))
        self.dry_runs = [value for name, value in pairs if name == "dryRun"]


def pairs_of(raw: str) -> list[tuple[str, str]]:
    """The parameters of a query string, without those that cannot be read.

    Source: net/url (ParseQuery) of Go.

    >>> pairs_of("a=1&b=%zz&c;d=2&e+f=%20")
    [('a', '1'), ('e f', ' ')]
    """
    parts = (part.partition("=") for part in raw.split("&") if part and ";" not in part)
    return [
        (unquote_plus(name), unquote_plus(value))
        for name, _, value in parts
        if not _NO_ESCAPE.search(name) and not _NO_ESCAPE.search(value)
    ]


def check_timeout(query: Mapping[str, str]) -> None:
    """Refuse a `timeout` that is no duration. Raises ApiError 400.

    Source: k8s.io/apiserver, pkg/endpoints/filters/request_deadline.go (v1.35).
    """
    if value := query.get("timeout"):
        try:
            nanoseconds(value)
        except ValueError as error:
            raise bad_request(f"invalid timeout specified in the request URL - {error}") from None


def address_of(segments: list[str]) -> ResourcePath | None:
    """The resource that path segments name, or None.

    >>> address_of(["api", "v1", "namespaces", "ml", "pods", "train", "log"]).subresource
    'log'
    """
    if "" in segments:
        return None
    if segments[:1] == ["api"] and len(segments) > 2:
        group, version, rest = "", segments[1], segments[2:]
    elif segments[:1] == ["apis"] and len(segments) > 3:
        group, version, rest = segments[1], segments[2], segments[3:]
    else:
        return None
    namespace, watched = "", rest[0] == "watch" and len(rest) > 1
    rest = rest[1:] if watched else rest
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource = (*rest[:3], "", "")[:3]
    return ResourcePath((group, version, plural), namespace, name, subresource, tuple(rest[3:]), watched)


def flag_of(query: Mapping[str, str], name: str) -> bool:
    """Whether a parameter is true, as all are that are there and not said to be false.

    >>> flag_of({"watch": "x"}, "watch"), flag_of({"watch": "False"}, "watch"), flag_of({}, "watch")
    (True, False, False)
    """
    return name in query and query[name].lower() not in _FALSE


def count_of(query: Mapping[str, str], name: str, most: int, *, least: int = 0) -> int | None:
    """A parameter's count, None if it is not given. Raises ApiError 400."""
    if name not in query:
        return None
    value = query[name]
    digits = value[1:] if value[:1] in ("-", "+") else value
    if not (digits.isascii() and digits.isdecimal()):
        raise bad_request(f"strconv.ParseInt: parsing {quoted(value)}: invalid syntax")
    if len(digits.lstrip("0")) > len(str(_LARGEST)) or not -_LARGEST - 2 < int(value) <= _LARGEST:
        raise bad_request(f"strconv.ParseInt: parsing {quoted(value)}: value out of range")
    return min(max(int(value), least), most)


def check_listing(query: Mapping[str, str], *, watch: bool) -> None:
    """Refuse options of lists and watches that go not together. Raises ApiError 400, 422.

    Source: k8s.io/apimachinery pkg/apis/meta/internalversion/validation (v1.35).
    """
    count_of(query, "timeoutSeconds", _MOST_SECONDS)
    count_of(query, "limit", _LARGEST)
    wrong = _watch_problems(query) if watch else _list_problems(query)
    if wrong:
        raise InvalidError(options_status("ListOptions", tuple(wrong)))


def _watch_problems(query: Mapping[str, str]) -> list[FieldError]:
    match, where = query.get("resourceVersionMatch", ""), "resourceVersionMatch"
    wrong: list[FieldError] = []
    initial = "sendInitialEvents" in query
    if query.get("continue") and (match or query.get("resourceVersion", "") in ("", "0")):
        wrong.append(forbidden(where, "resourceVersionMatch is forbidden when continue is provided"))
    if initial and match != _NOT_OLDER:
        words = f"sendInitialEvents requires setting resourceVersionMatch to {_NOT_OLDER}"
        wrong.append(forbidden(where, words))
    if match and not initial:
        words = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        wrong.append(forbidden(where, words))
    if match and match != _NOT_OLDER:
        wrong.append(unsupported(where, match, (_NOT_OLDER,)))
    return wrong


def _list_problems(query: Mapping[str, str]) -> list[FieldError]:
    match, where = query.get("resourceVersionMatch", ""), "resourceVersionMatch"
    wrong: list[FieldError] = []
    if match:
        version = query.get("resourceVersion", "")
        if not version:
            words = "resourceVersionMatch is forbidden unless resourceVersion is provided"
            wrong.append(forbidden(where, words))
        if query.get("continue"):
            wrong.append(forbidden(where, "resourceVersionMatch is forbidden when continue is provided"))
        if match not in ("Exact", _NOT_OLDER):
            wrong.append(unsupported(where, match, ("Exact", _NOT_OLDER, "")))
        if match == "Exact" and version == "0":
            words = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            wrong.append(forbidden(where, words))
    if "sendInitialEvents" in query:
        wrong.append(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    return wrong


def list_query(query: Mapping[str, str], address: ResourcePath) -> ListQuery:
    """What to list or watch."""
    fields = query.get("fieldSelector", "")
    if address.name:
        fields = f"metadata.name={address.name}"
    return ListQuery(
        address.namespace,
        query.get("labelSelector", ""),
        fields,
        count_of(query, "limit", 1 << 31) or 0,
        query.get("continue", ""),
        query.get("resourceVersion", ""),
        query.get("resourceVersionMatch", ""),
    )


def watch_options(query: Mapping[str, str], otherwise_s: float) -> WatchOptions:
    """How a watch goes; it ends after `otherwise_s` when the client names no time."""
    timeout = count_of(query, "timeoutSeconds", _MOST_SECONDS, least=-1)
    present_first = flag_of(query, "sendInitialEvents")
    if "sendInitialEvents" not in query:
        present_first = query.get("resourceVersion", "") in ("", "0")
    return WatchOptions(
        flag_of(query, "allowWatchBookmarks"),
        present_first,
        max(float(timeout), 0.0) if timeout else otherwise_s,
    )


def write_options(query: Mapping[str, str], agent: str = "", kind: str = "", wrong: Errors = ()) -> Options:
    """Options of a write by a program of that user agent; refusals call them `kind`. Raises ApiError 422.

    `wrong` is what is wrong with them already.
    """
    manager, validation = query.get("fieldManager", ""), query.get("fieldValidation", "")
    dry_runs = _dry_runs(query)
    wrong = (*wrong, *manager_problems(manager, "fieldManager"), *dry_run_problems(dry_runs))
    if validation not in ("", *FieldValidation):
        wrong = (*wrong, unsupported("fieldValidation", validation, ("", "Ignore", "Strict", "Warn")))
    if wrong:
        raise InvalidError(options_status(kind, wrong))
    return Options(bool(dry_runs), FieldValidation(validation or "Warn"), manager or manager_of_agent(agent))


def _dry_runs(query: Mapping[str, str]) -> list[str]:
    if isinstance(query, Query):
        return query.dry_runs
    return [query["dryRun"]] if "dryRun" in query else []


def patch_problems(query: Mapping[str, str], *, apply: bool) -> Errors:
    """What belongs to the other kind of patch."""
    if apply and not query.get("fieldManager"):
        return (required("fieldManager", "is required for apply patch"),)
    if not apply and "force" in query:
        return (forbidden("force", "may not be specified for non-apply patch"),)
    return ()


def delete_options(schema: Schema, query: Mapping[str, str], body: JsonValue) -> tuple[DeleteOptions, bool]:
    """Options of a deletion, and whether it is only tried. Raises ApiError 400, 422.

    Of a deletion with a body the query says nothing; `body` is None where there is none.

    Source: k8s.io/apiserver, pkg/endpoints/handlers/delete.go; ValidateDeleteOptions of apimachinery (v1.35).
    """
    return deletion_options(_queried(query) if body is None else _deletion_body(schema, body))


def _queried(query: Mapping[str, str]) -> JsonObject:
    """The options of a deletion that a query has."""
    options: JsonObject = {"dryRun": [*_dry_runs(query)]}
    grace = count_of(query, "gracePeriodSeconds", 1 << 31, least=-1)
    if grace is not None:
        options["gracePeriodSeconds"] = grace
    if "propagationPolicy" in query:
        options["propagationPolicy"] = query["propagationPolicy"]
    if "orphanDependents" in query:
        options["orphanDependents"] = flag_of(query, "orphanDependents")
    named = {key: query[key] for key in ("uid", "resourceVersion") if query.get(key)}
    if named:
        options["preconditions"] = {**named}
    return options


def _deletion_body(schema: Schema, body: JsonValue) -> JsonObject:
    """The options of a deletion that its body says."""
    kind = text(body, "kind") or "DeleteOptions"
    if kind != "DeleteOptions":
        version = text(body, "apiVersion") or "v1"
        raise bad_request(
            f'no kind "{kind}" is registered for version "{version}" in scheme "pkg/runtime/scheme.go:111"'
        )
    try:
        return decode(schema, "meta/v1.DeleteOptions", body).value
    except BodyError as error:
        raise bad_request(error.detail.removeprefix(UNREAD)) from None
