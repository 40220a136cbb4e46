"""Query strings, headers and paths of requests, read strictly where upstream does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tonnage.model.json import JsonValue
from tonnage.twin.apiserver.access import at, items, text
from tonnage.twin.apiserver.listing import ListQuery
from tonnage.twin.apiserver.objects.problems import FieldError, InvalidError, forbidden, required, unsupported
from tonnage.twin.apiserver.ownership.names import manager_of_agent, manager_problems, options_status
from tonnage.twin.apiserver.requests import Address, DeleteOptions, FieldValidation, Options
from tonnage.twin.apiserver.statuses import bad_request
from tonnage.twin.apiserver.verbs import WatchOptions

_FALSE: Final = ("false", "0")
_MOST_DIGITS: Final = 18
_MOST_SECONDS: Final = 24 * 3600
_NOT_OLDER: Final = "NotOlderThan"


def address_of(segments: list[str]) -> Address | None:
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
    namespace = ""
    if (
        rest[0] == "namespaces"
        and len(rest) > 2
        and not (len(rest) == 3 and rest[2] in ("status", "finalize"))
    ):
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource = (*rest[:3], "", "")[:3]
    return Address((group, version, plural), namespace, name, subresource, tuple(rest[3:]))


def flag_of(query: Mapping[str, str], name: str) -> bool:
    """Whether a parameter is true, as all are that are there and not said to be false.

    >>> flag_of({"watch": "x"}, "watch"), flag_of({"watch": "False"}, "watch"), flag_of({}, "watch")
    (True, False, False)
    """
    return name in query and query[name].lower() not in _FALSE


def count_of(query: Mapping[str, str], name: str, most: int) -> int | None:
    """A parameter's count, None if it is not given. Raises ApiError 400."""
    value = query.get(name, "")
    if not value:
        return None
    digits = value.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal()):
        raise bad_request(f'strconv.ParseInt: parsing "{value}": invalid syntax')
    if len(value) > _MOST_DIGITS:
        raise bad_request(f'strconv.ParseInt: parsing "{value}": value out of range')
    return min(max(int(value), 0), most)


def check_listing(query: Mapping[str, str], *, watch: bool) -> None:
    """Refuse options of lists and watches that go not together. Raises ApiError 400, 422.

    Source: k8s.io/apimachinery pkg/apis/meta/internalversion/validation (v1.35).
    """
    count_of(query, "timeoutSeconds", _MOST_SECONDS)
    match, where = query.get("resourceVersionMatch", ""), "resourceVersionMatch"
    wrong: list[FieldError] = []
    if watch:
        initial = "sendInitialEvents" in query
        if initial and match != _NOT_OLDER:
            words = f"sendInitialEvents requires setting resourceVersionMatch to {_NOT_OLDER}"
            wrong.append(forbidden(where, words))
        if match and not initial:
            words = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            wrong.append(forbidden(where, words))
        if match and match != _NOT_OLDER:
            wrong.append(unsupported(where, match, (_NOT_OLDER,)))
    elif match:
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
    if not watch and "sendInitialEvents" in query:
        wrong.append(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    if wrong:
        raise InvalidError(options_status("ListOptions", tuple(wrong)))


def list_query(query: Mapping[str, str], address: Address) -> ListQuery:
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
    timeout = count_of(query, "timeoutSeconds", _MOST_SECONDS)
    return WatchOptions(
        flag_of(query, "allowWatchBookmarks"),
        flag_of(query, "sendInitialEvents"),
        float(timeout) if timeout else otherwise_s,
    )


def write_options(query: Mapping[str, str], agent: str = "", kind: str = "") -> Options:
    """Options of a write by a program of that user agent; refusals call them `kind`. Raises ApiError."""
    manager = query.get("fieldManager", "")
    wrong = manager_problems(manager, "fieldManager")
    if wrong:
        raise InvalidError(options_status(kind, wrong))
    dry_run, validation = query.get("dryRun", ""), query.get("fieldValidation", "") or "Warn"
    if dry_run not in ("", "All"):
        raise bad_request(f'dryRun: Unsupported value: "{dry_run}": supported values: "All"')
    if validation not in list(FieldValidation):
        supported = '"Ignore", "Strict", "Warn"'
        raise bad_request(
            f'fieldValidation: Unsupported value: "{validation}": supported values: {supported}'
        )
    return Options(dry_run == "All", FieldValidation(validation), manager or manager_of_agent(agent))


def check_patch(query: Mapping[str, str], *, apply: bool) -> None:
    """Refuse what belongs to the other kind of patch. Raises ApiError 422."""
    wrong: list[FieldError] = []
    if apply and not query.get("fieldManager"):
        wrong.append(required("fieldManager", "is required for apply patch"))
    if not apply and query.get("force"):
        wrong.append(forbidden("force", "may not be specified for non-apply patch"))
    if wrong:
        raise InvalidError(options_status("PatchOptions", tuple(wrong)))


def delete_options(query: Mapping[str, str], body: JsonValue) -> tuple[DeleteOptions, bool]:
    """Options of a deletion, and whether it is only tried; the body wins. Raises ApiError 400."""
    grace = at(body, "gracePeriodSeconds")
    if not isinstance(grace, int):
        grace = count_of(query, "gracePeriodSeconds", 1 << 31)
    propagation = text(body, "propagationPolicy") or query.get("propagationPolicy", "")
    if at(body, "orphanDependents") is not None and not propagation:
        propagation = "Orphan" if at(body, "orphanDependents") is True else "Background"
    if propagation not in ("", "Background", "Foreground", "Orphan"):
        supported = '"Background", "Foreground", "Orphan"'
        raise bad_request(
            f'propagationPolicy: Unsupported value: "{propagation}": supported values: {supported}'
        )
    dry_run = "All" in items(body, "dryRun") or query.get("dryRun") == "All"
    options = DeleteOptions(
        grace,
        propagation,
        text(body, "preconditions", "uid"),
        text(body, "preconditions", "resourceVersion"),
    )
    return options, dry_run


def wanted_form(accept: str) -> str:
    """How the client wants objects: `Table`, `PartialObjectMetadata`, `PartialObjectMetadataList` or ``."""
    for choice in accept.split(","):
        kind, *rest = (part.strip() for part in choice.split(";"))
        words = dict(part.partition("=")[::2] for part in rest)
        if kind == "application/json" and words.get("g") == "meta.k8s.io":
            return words.get("as", "")
        if kind in ("application/json", "application/*", "*/*"):
            return ""
    return ""
