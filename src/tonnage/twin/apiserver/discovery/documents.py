"""What the server says of itself: version, health, groups and resources, schemas."""

from __future__ import annotations

import hashlib
from typing import Final

from tonnage.decide.kubernetes.api.encoding.go_json import go_json
from tonnage.model.json import JsonObject
from tonnage.twin.apiserver.authentication.account_tokens import TokenKey
from tonnage.twin.apiserver.discovery import health, metrics, openapi_second
from tonnage.twin.apiserver.discovery.lists import (
    aggregated,
    core_versions,
    group_alone,
    group_list,
    ordered_groups,
    resource_list,
)
from tonnage.twin.apiserver.discovery.openapi import OpenApi
from tonnage.twin.apiserver.resources import Registry
from tonnage.twin.apiserver.serving.encodings.answers import encoded, indented
from tonnage.twin.apiserver.serving.encodings.negotiation import (
    JSON,
    MEDIA,
    Form,
    aggregated_form,
    check_route,
    negotiated,
    not_acceptable,
    nothing_else,
    reads_any,
)
from tonnage.twin.apiserver.serving.exchange import NO_SNIFF, TEXT, Exchange
from tonnage.twin.apiserver.statuses import (
    PlainError,
    StatusError,
    method_not_allowed,
    no_such_page,
    no_such_path,
)

VERSION: Final[JsonObject] = {
    "major": "1",
    "minor": "35",
    "emulationMajor": "1",
    "emulationMinor": "35",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "34",
    "gitVersion": "v1.35.8",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "go1.25",
    "compiler": "gc",
    "platform": "linux/amd64",
}
_IN_RANGES: Final = (b"accept-ranges", b"bytes")
_OF_SECOND: Final = (JSON, openapi_second.OPENAPI_PROTOBUF, openapi_second.MEDIA)
_OF_THIRD: Final = (JSON, *(f"application/com.github.proto-openapi.spec.v3{at}v1.0+protobuf" for at in "@."))
"""In which forms documents of OpenAPI may be asked for."""
_KEY_SET: Final = "application/jwk-set+json"
_FOR_AN_HOUR: Final = "public, max-age=3600"
_CONFIGURATION: Final = ".well-known/openid-configuration"
_KEYS: Final = "openid/v1/jwks"


class Discovery:
    """Answers for every path that names no object."""

    def __init__(self, registry: Registry, key: TokenKey) -> None:
        self._registry = registry
        self._key = key
        self._openapi = OpenApi(registry)

    def answers(self, path: str) -> bool:
        """Whether the path is one of these."""
        segments = path.removeprefix("/").removesuffix("/").split("/")
        if "" in segments[1:] or path.startswith("//") or path == "/openapi/v2/":
            return False
        match segments:
            case ["version"] | ["api"] | ["api", _] | ["apis"] | ["apis", _] | ["apis", _, _]:
                return True
            case ["openapi", "v2" | "v3", *_] | ["" | "index.html"]:
                return True
        return segments[0] in health.ROOTS or "/".join(segments) in (_KEYS, _CONFIGURATION)

    def lost(self, segments: list[str]) -> StatusError:
        """The 404 of a path that names nothing."""
        match segments:
            case ["api" | "version", *_]:
                return no_such_path()
            case ["apis", group, *_] if self._registry.builds_in(group):
                return no_such_path()
        return no_such_page()

    async def answer(self, exchange: Exchange) -> None:
        """Answer such a path. Raises ApiError 404, 405 (another method than GET), 406 (another type)."""
        if exchange.method != "GET" and self._reads_only(exchange.segments):
            # Looked up before the method is refused: a path that does not exist is 404 by any method.
            if exchange.segments[0] in ("api", "apis"):
                self._classic(exchange.segments, "")
            raise method_not_allowed()
        match exchange.segments:
            case ["" | "index.html"]:
                await exchange.answer_bytes(indented({"paths": [*self._paths()]}))
            case ["version"]:
                check_route(exchange.headers.get("accept", ""), (JSON,))
                await exchange.answer_bytes(indented(VERSION))
            case [".well-known", _]:
                check_route(exchange.headers.get("accept", ""), (JSON,))
                exchange.cached = _FOR_AN_HOUR
                host = exchange.headers.get("host", "")
                await exchange.answer_bytes(go_json(self._key.configuration(host)))
            case ["openid", *_]:
                check_route(exchange.headers.get("accept", ""), (_KEY_SET,))
                exchange.cached = _FOR_AN_HOUR
                await exchange.answer_bytes(go_json(self._key.published), content_type=_KEY_SET)
            case ["openapi", "v2"]:
                await self._second(exchange)
            case ["openapi", "v3"] if not exchange.path.endswith("/"):
                listed = self._openapi.index()
                await exchange.start(200, TEXT, length=len(listed), extra=[_IN_RANGES])
                await exchange.chunk(b"" if exchange.method == "HEAD" else listed, last=True)
            case ["openapi", "v3", *rest]:
                await self._described(exchange, "/".join(rest))
            case [root, *_] if root in health.ROOTS:
                verdict = _health(exchange, root)
                whole = exchange.segments[1:] == []
                await exchange.start(200, TEXT, length=len(verdict), extra=[NO_SNIFF] if whole else [])
                await exchange.chunk(b"" if exchange.method == "HEAD" else verdict, last=True)
            # Before the plain lists, which answer the same paths to clients that do not ask for this form.
            case ["api" | "apis" as root] if form := aggregated_form(exchange.accept):
                exchange.cached = "public"
                groups = aggregated(self._registry, core=root == "api")
                tagged_part = {key: groups[key] for key in ("metadata", "items")}
                tag = hashlib.sha512(go_json(tagged_part)).hexdigest().upper()
                media = f"{form.media};g=apidiscovery.k8s.io;v=v2;as={form.kind}"
                await _tagged(exchange, encoded(groups, form), media, tag)
            case segments:
                classic = self._classic(segments, exchange.headers.get("host", ""))
                exchange.form = _form(exchange)
                await exchange.answer_bytes(encoded(classic, exchange.form), content_type=exchange.form.media)

    async def _described(self, exchange: Exchange, path: str) -> None:
        """Answer with a document of the third OpenAPI, which clients keep that ask for it by its hash."""
        tag = self._openapi.tag(path)
        if tag is None:
            await exchange.answer_bytes(b"", 404, "")
            return
        client_hash = exchange.query.get("hash", "")
        if client_hash and client_hash != tag:
            where = (b"location", f"/openapi/v3/{path}?hash={tag}".encode())
            etag = (b"etag", f'"{tag}"'.encode())
            await exchange.start(301, JSON, length=0, extra=[where, etag, (b"vary", b"Accept")])
            await exchange.chunk(b"", last=True)
            return
        exchange.cached = "public, immutable" if client_hash else exchange.cached
        if not await _undecipherable(exchange, _OF_THIRD):
            await _tagged(exchange, self._openapi.document(path), JSON, tag, file=True)

    async def _second(self, exchange: Exchange) -> None:
        document = self._openapi.second()
        vary = (b"Accept-Encoding", b"Accept")
        if await _undecipherable(exchange, _OF_SECOND, vary):
            return
        content, media = go_json(document), JSON
        if any(form in exchange.accept for form in _OF_SECOND[1:]):
            content, media = openapi_second.encoded_second(document), openapi_second.MEDIA
        tag = hashlib.sha512(content).hexdigest().upper()
        await _tagged(exchange, content, media, tag, file=True, vary=vary)

    def _paths(self) -> list[str]:
        """Every path that is no object's."""
        groups = self._registry.group_versions()
        named = [f"/apis/{group}" for group in groups if group]
        versions = [f"{base}/{version}" for base in named for version in groups[base.removeprefix("/apis/")]]
        checked = [f"/{root}{part}" for root in health.ROOTS for part in ("", *_parts(root))]
        fixed = (
            f"/{_CONFIGURATION}",
            f"/{_KEYS}",
            *metrics.PATHS,
            "/api",
            "/api/v1",
            "/apis",
            "/apis/",
            "/openapi/v2",
            "/openapi/v3",
            "/openapi/v3/",
            "/version",
        )
        return sorted([*fixed, *named, *versions, *checked])

    def _reads_only(self, segments: list[str]) -> bool:
        """Whether a path knows no method but GET."""
        match segments:
            case ["api" | "version" | ".well-known" | "openid", *_] | ["apis", "apiregistration.k8s.io"]:
                return True
            case ["apis", group, _]:
                return self._registry.builds_in(group)
        return False

    def _classic(self, segments: list[str], host: str) -> JsonObject:
        groups = ordered_groups(self._registry)
        match segments:
            case ["api"]:
                return core_versions(host)
            case ["apis"]:
                return group_list(groups)
            case ["apis", group] if group in groups:
                return group_alone(group, groups[group])
            case ["api", version] if version in groups[""]:
                return resource_list(version, groups[""][version])
            case ["apis", group, version] if version in groups.get(group, {}):
                return resource_list(f"{group}/{version}", groups[group][version])
        raise self.lost(segments)


def check_special(segments: list[str], path: str) -> None:
    """Refuse the old paths of watches and proxies that name nothing. Raises ApiError 500."""
    match segments:
        case ["api", _, "watch" | "proxy"] | ["apis", _, _, "watch" | "proxy"]:
            why = f"failed to create RequestInfo: unable to determine kind and namespace from url, {path}"
            raise PlainError(500, "InternalError", f'Internal Server Error: "{path}": {why}\n')


def _form(exchange: Exchange) -> Form:
    """In which form groups and kinds are listed. Raises ApiError 406."""
    accept = exchange.headers.get("accept", "")
    if exchange.segments[0] == "api" or len(exchange.segments) > 2:
        check_route(accept, MEDIA)
    form = negotiated(accept, MEDIA, nothing_else, pretty=exchange.pretty)
    if form is None:
        raise not_acceptable(MEDIA)
    return form


def _parts(root: str) -> list[str]:
    return [f"/{name}" for name in health.checks(root)]


def _health(exchange: Exchange, root: str) -> bytes:
    rest = exchange.path.removeprefix(f"/{root}")
    check = rest.removeprefix("/")
    if rest and check not in health.checks(root):
        raise no_such_page()
    excluded = [value for key, value in exchange.pairs if key == "exclude"]
    return health.health_answer(
        root, verbose="verbose" in exchange.query and not check, excluded=excluded
    ).encode()


async def _undecipherable(
    exchange: Exchange, offered: tuple[str, ...], vary: tuple[bytes, ...] = (b"Accept",)
) -> bool:
    """Whether a client reads no form of a document, which it is told then."""
    if reads_any(exchange.headers.get("accept", ""), offered):
        return False
    await exchange.start(406, "", length=0, extra=[(b"vary", name) for name in vary])
    await exchange.chunk(b"", last=True)
    return True


async def _tagged(
    exchange: Exchange,
    content: bytes,
    content_type: str,
    tag: str,
    *,
    file: bool = False,
    vary: tuple[bytes, ...] = (b"Accept",),
) -> None:
    """Answer with an ETag, so that clients need not read again what they have; a `file` has several."""
    extra = [(b"etag", f'"{tag}"'.encode()), *((b"vary", name) for name in vary)]
    client_tag = exchange.headers.get("if-none-match", "")
    tags = [entry.strip().removeprefix("W/") for entry in client_tag.split(",")] if file else [client_tag]
    if f'"{tag}"' in tags or (file and client_tag == "*"):
        await exchange.start(304, "", extra=extra)
        await exchange.chunk(b"", last=True)
        return
    if file:
        extra.append(_IN_RANGES)
    await exchange.start(200, content_type, length=len(content), extra=extra)
    await exchange.chunk(b"" if exchange.method == "HEAD" else content, last=True)
