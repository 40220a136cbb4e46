"""In which form a client wants its answer: by `Accept`, the parameter `pretty` and its name.

Source: k8s.io/apiserver, pkg/endpoints/handlers/negotiation (v1.35); go-restful, Route.matchesAccept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tonnage.twin.apiserver.requests import ApiRequest
from tonnage.twin.apiserver.resources import REVIEWS, ServedResource, internal_package
from tonnage.twin.apiserver.statuses import StatusError

JSON: Final = "application/json"
YAML: Final = "application/yaml"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
MEDIA: Final = (JSON, YAML, PROTOBUF)
STREAMED: Final = (f"{JSON};stream=watch", f"{PROTOBUF};stream=watch")
_NO_TABLES: Final = ("approval", "binding", "ephemeralcontainers", "eviction", "token")
"""Subresources that are not shown as tables."""
_META: Final = ("v1", "v1beta1")
_HUMANS: Final = ("curl", "Wget", "Mozilla/5.0")
_TRUE: Final = ("1", "t", "T", "TRUE", "true", "True")


@dataclass(frozen=True, slots=True)
class Form:
    """A media type, and the kind of `meta.k8s.io` that is wanted instead of the object, if any."""

    media: str = JSON
    kind: str = ""
    version: str = ""
    pretty: bool = False


@dataclass(frozen=True, slots=True)
class _Clause:
    type: str
    subtype: str
    quality: float = 1.0
    parameters: Mapping[str, str] = field(default_factory=dict)

    def matches(self, media: str) -> bool:
        kind, _, sub = media.partition("/")
        return (self.type, self.subtype) in ((kind, sub), (kind, "*"), ("*", "*"))


Allows = Callable[[str, str, str, str], bool]
"""Whether an endpoint answers in a media type with a group, a version and a kind instead of its own."""


def negotiated(
    accept: str, offered: tuple[str, ...], allows: Allows, *, pretty: bool, own: tuple[str, ...] = MEDIA
) -> Form | None:
    """The first form that a client accepts, of those that are offered, or None.

    `own`: in which media types objects are shown as they are.

    >>> negotiated("application/json;q=0.5, application/yaml", MEDIA, nothing_else, pretty=False).media
    'application/yaml'
    """
    if not accept:
        return Form(offered[0], pretty=pretty)
    versions = ("",) if allows is nothing_else else ("", "v1")
    for clause in _clauses(accept):
        parameters = clause.parameters
        form = [parameters.get(key, "") for key in ("g", "v", "as")]
        for media in offered:
            streams = parameters.get("stream", "") in ("", "watch") and parameters.get("sv", "") in versions
            plain = media in own and not {"g", "v", "as"} & set(parameters)
            if not clause.matches(media) or not streams or not (plain or allows(media, *form)):
                continue
            return Form(media, form[2], form[1], pretty or parameters.get("pretty") == "1")
    return None


def nothing_else(_media: str, _group: str, _version: str, _kind: str) -> bool:
    """What endpoints allow that show only what they have."""
    return False


def tables_too(media: str, group: str, version: str, kind: str) -> bool:
    """What endpoints of resources allow: tables, and the metadata alone."""
    tables = kind == "Table" and media != PROTOBUF and group == "meta.k8s.io" and version in _META
    return tables or metadata_too(media, group, version, kind)


def metadata_too(_media: str, group: str, version: str, kind: str) -> bool:
    """What endpoints allow that know no tables: the metadata alone."""
    is_meta = group == "meta.k8s.io" and version in _META
    return is_meta and kind in ("PartialObjectMetadata", "PartialObjectMetadataList")


def aggregated_form(accept: str) -> Form | None:
    """In which form a client takes all groups and kinds at once, None if it wants them one by one.

    >>> aggregated_form("application/yaml;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io").media
    'application/yaml'
    """
    form = negotiated(accept, MEDIA, _all_at_once, pretty=False)
    return form if form is not None and form.kind else None


def _all_at_once(_media: str, group: str, version: str, kind: str) -> bool:
    return (group, version, kind) == ("apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList")


def wants_pretty(query: Mapping[str, str], agent: str) -> bool:
    """Whether a person reads the answer."""
    if query.get("pretty"):
        return query["pretty"] in _TRUE
    return agent.startswith(_HUMANS)


def reads_any(accept: str, offered: tuple[str, ...]) -> bool:
    """Whether a client reads one of these, whatever else it says of it.

    >>> reads_any("application/json;as=Table", (JSON,)), reads_any("text/*", (JSON,))
    (True, False)
    """
    return any(clause.matches(media) for clause in _clauses(accept or "*/*") for media in offered)


def check_route(accept: str, offered: tuple[str, ...]) -> None:
    """Refuse what no route of a path answers with, whatever its parameters. Raises ApiError 406."""
    kinds = [clause.partition(";")[0].strip() for clause in (accept or "*/*").split(",")]
    if not any(kind == "*/*" or kind in offered for kind in kinds):
        listed = ", ".join(offered)
        message = f"406: Not Acceptable\n\nAvailable representations: {listed}"
        raise StatusError(406, "NotAcceptable", message, details={})


def form_for(accept: str, request: ApiRequest, *, single: bool, pretty: bool) -> Form:
    """In which form a resource answers; `single` where the path names an object. Raises ApiError 406."""
    served = request.served
    own = MEDIA if served.custom is None else MEDIA[:2]
    listed = MEDIA if single else (*MEDIA, *STREAMED)
    if served.custom is None:
        check_route(accept, listed)
    allows: Allows = nothing_else if served.row.group in REVIEWS else tables_too
    if request.subresource in _NO_TABLES:
        allows = metadata_too
    form = negotiated(accept, MEDIA, allows, own=own, pretty=pretty)
    if form is None:
        raise not_acceptable(MEDIA)
    if request.verb == "watch" and form.media == YAML:
        raise not_acceptable(STREAMED if served.custom is None else STREAMED[:1])
    return form


def no_such_form(form: Form, served: ServedResource, kind: str) -> StatusError:
    """406 of the metadata of a list where an object is, or of an object where a list is."""
    shown = f"*{internal_package(served.row.group)}.{kind}"
    if served.custom is not None:
        if form.kind.endswith("List") and kind != "Scale":
            return StatusError(500, "", "content is not a list")
        shown = "*v1.Scale" if kind == "Scale" else "*unstructured.UnstructuredList"
    listed = "is not a list" if form.kind.endswith("List") else "is a list"
    return StatusError(
        406, "NotAcceptable", f"you requested {form.kind}, but the requested object {listed} ({shown})"
    )


def not_acceptable(offered: tuple[str, ...]) -> StatusError:
    """406 of an answer in a form that its endpoint has not."""
    return StatusError(
        406, "NotAcceptable", f"only the following media types are accepted: {', '.join(offered)}"
    )


def _clauses(accept: str) -> list[_Clause]:
    """The clauses of the header, the most wanted first."""
    clauses: list[_Clause] = []
    for part in accept.split(","):
        media, *rest = part.split(";")
        kind, *sub = (piece.strip() for piece in media.split("/"))
        if len(sub) > 1 or (not sub and kind != "*"):
            continue
        parameters = {
            name.strip(): value.strip()
            for name, equals, value in (piece.partition("=") for piece in rest)
            if equals
        }
        clauses.append(_Clause(kind, sub[0] if sub else "*", _quality(parameters.pop("q", "1")), parameters))
    return sorted(clauses, key=lambda piece: (-piece.quality, piece.type == "*", piece.subtype == "*"))


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
