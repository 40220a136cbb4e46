"""The server's face: an ASGI application that authenticates, routes, bounds and answers."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Final

from starlette.types import Receive, Scope, Send

from tonnage.decide.kubernetes.api.encoding.go_json import go_json
from tonnage.decide.kubernetes.api.problems import Errors
from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import mapping, text
from tonnage.ports.kubernetes import PatchType
from tonnage.twin.apiserver.discovery import metrics
from tonnage.twin.apiserver.discovery.documents import Discovery, check_special
from tonnage.twin.apiserver.discovery.metrics import Metrics
from tonnage.twin.apiserver.printers.tables import Tables, check_include
from tonnage.twin.apiserver.reading.list_items import item_json, item_of, whole_list
from tonnage.twin.apiserver.reading.listing import ListPage, check_version
from tonnage.twin.apiserver.requests import ApiRequest, Options, ResourcePath, User
from tonnage.twin.apiserver.resources import COMPONENTS, REVIEWS
from tonnage.twin.apiserver.security import Security
from tonnage.twin.apiserver.serving import parameters
from tonnage.twin.apiserver.serving.custom_routes import custom_route
from tonnage.twin.apiserver.serving.encodings.bodies import parse_object, parse_patch, parse_typed, read_body
from tonnage.twin.apiserver.serving.encodings.negotiation import Form, form_for, no_such_form
from tonnage.twin.apiserver.serving.exchange import Exchange
from tonnage.twin.apiserver.serving.kubelets.pod_streams import STREAM_KINDS, stream_options
from tonnage.twin.apiserver.serving.kubelets.proxy import KubeletProxy
from tonnage.twin.apiserver.serving.request_access import asked_of
from tonnage.twin.apiserver.serving.streams import WatchStream
from tonnage.twin.apiserver.serving.unrouted import UNROUTED, unrouted
from tonnage.twin.apiserver.serving.warnings import cautions, deletion_cautions
from tonnage.twin.apiserver.statuses import (
    StatusError,
    bad_request,
    method_not_allowed,
    no_such_page,
    no_such_path,
    not_found,
)
from tonnage.twin.apiserver.verbs import Verbs, served_at, unserved
from tonnage.twin.apiserver.webhooks.matching import CONNECT
from tonnage.twin.apiserver.writing import apply_bodies

_LOG: Final = logging.getLogger(__name__)
_MOST_QUERY: Final = 64 << 10
_KUBELET: Final = {"log": ("GET",), "exec": ("GET", "POST"), "attach": ("GET", "POST")}
"""What a pod's kubelet answers, and by which methods it is asked."""
_LASTING: Final = _KUBELET.keys() | UNROUTED
_KINDS: Final = {"binding": "Binding", "eviction": "Eviction", "scale": "Scale", "token": "TokenRequest"}
"""Of what kind bodies to subresources are, where it is another than the resource's."""


class ApiApplication:
    """Everything that a client can reach."""

    def __init__(
        self, verbs: Verbs, tables: Tables, proxy: KubeletProxy, watches: WatchStream, security: Security
    ) -> None:
        self._verbs = verbs
        self._tables = tables
        self._proxy = proxy
        self._watches = watches
        self._security = security
        self._discovery = Discovery(verbs.registry, security.key)
        self._metrics = Metrics(verbs.store, verbs.registry)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request or WebSocket."""
        if scope["type"] not in ("http", "websocket"):
            return
        exchange = Exchange(scope, receive, send)
        self._security.follow(exchange)
        try:
            exchange.pairs = _query(scope)
            exchange.query = parameters.Query(exchange.pairs)
            check_special(exchange.segments, exchange.path)
            if not _lasts(exchange):
                parameters.check_timeout(exchange.query)
            user = self._security.gate.let_in(exchange)
            exchange.admitted = True
            if scope["type"] == "websocket":
                await self._websocket(exchange, user)
            else:
                await self._serve(exchange, user)
        except ApiError as error:
            await exchange.refuse(error)
        except ConnectionError:
            return
        except Exception as error:  # a defect of ours must not end the connection without an answer
            _LOG.exception("request failed path=%s", scope["path"])
            why = f"Internal error occurred: {type(error).__name__}"
            await exchange.refuse(StatusError(500, "InternalError", why))
        finally:
            if exchange.trail is not None:
                exchange.trail.ended()
            self._metrics.count(exchange)

    async def _websocket(self, exchange: Exchange, user: User) -> None:
        address = parameters.address_of(exchange.segments)
        if address is not None and address.subresource in UNROUTED:
            served = served_at(self._verbs.registry, address)
            raise unrouted(self._verbs.store, served, address)
        if address is None or address.subresource not in ("exec", "attach"):
            raise no_such_page()
        await self._admit_stream(exchange, address, user)
        await self._proxy.stream(exchange, address)

    async def _admit_stream(self, exchange: Exchange, address: ResourcePath, user: User) -> None:
        """Ask webhooks and policies about exec or attach. Raises ApiError."""
        served = self._verbs.registry.find(*address.path)
        if served is None or served.row.kind != "Pod" or address.subresource not in STREAM_KINDS:
            return
        place = address.namespace, address.name, address.subresource
        request = ApiRequest(CONNECT, served, *place, user=user, notes=exchange.notes)
        await self._security.connect(request, stream_options(address.subresource, exchange.pairs))

    async def _serve(self, exchange: Exchange, user: User) -> None:
        if exchange.method == "CONNECT":
            raise method_not_allowed()  # Whatever else is said to it makes a tunnel of the connection.
        if exchange.path in metrics.PATHS:
            await self._metrics.answer(exchange)
            return
        if self._discovery.answers(exchange.path):
            await self._discovery.answer(exchange)
            return
        address = parameters.address_of(exchange.segments)
        if address is None:
            raise self._discovery.lost(exchange.segments)
        served, method = served_at(self._verbs.registry, address), exchange.method
        if served.custom is not None:
            address, method = custom_route(served, address, method)
        if address.rest and address.subresource != "proxy":
            raise unserved(self._verbs.registry, address)
        if exchange.method == "GET" and address.subresource == "proxy" and served.row.kind == "Pod":
            await self._proxy.page(exchange, address)
            return
        if address.subresource in UNROUTED:
            raise unrouted(self._verbs.store, served, address)
        if exchange.method not in _KUBELET.get(address.subresource, (exchange.method,)):
            raise method_not_allowed()
        if address.subresource == "log":
            await self._proxy.logs(exchange, address)
        elif address.subresource in _KUBELET:
            await self._admit_stream(exchange, address, user)
            self._proxy.refuse(address, exchange.query.get("container", ""))
        else:
            await self._resource(exchange, address, user, method)

    async def _resource(self, exchange: Exchange, address: ResourcePath, user: User, method: str) -> None:
        if address.path[0] in REVIEWS:
            await self._review(exchange, address, user)
            return
        single = bool(address.name)
        if address.watched and method != "GET":
            raise method_not_allowed()
        match method:
            case "GET" if address.watched or (not single and parameters.flag_of(exchange.query, "watch")):
                parameters.check_listing(exchange.query, watch=True)
                await self._watches.run(exchange, self._request("watch", exchange, address, user), address)
            case "GET" if single:
                await self._get(exchange, self._request("get", exchange, address, user))
            case "GET":
                await self._list(exchange, self._request("list", exchange, address, user), address)
            case "POST" if not single or address.subresource:
                await self._create(exchange, self._write_request("create", exchange, address, user))
            case "PUT" if single:
                request = self._write_request("update", exchange, address, user)
                obj = await self._object(exchange, request)
                outcome = await self._verbs.update(request, obj)
                await self._show(exchange, request, outcome.object, 201 if outcome.made else 200)
            case "PATCH" if single:
                await self._patch(exchange, address, user)
            case "DELETE":
                await self._delete(exchange, address, user)
            case _:
                raise method_not_allowed()

    async def _review(self, exchange: Exchange, address: ResourcePath, user: User) -> None:
        if address.name:
            raise no_such_path()
        if exchange.method != "POST":
            raise method_not_allowed()
        request = self._write_request("create", exchange, address, user)
        outcome = await self._verbs.create(request, await self._object(exchange, request))
        await exchange.answer(outcome.object, 201)

    async def _get(self, exchange: Exchange, request: ApiRequest) -> None:
        if parameters.flag_of(exchange.query, "export"):
            raise bad_request("the export parameter, deprecated since v1.14, is no longer supported")
        check_version(self._verbs.store, exchange.query.get("resourceVersion", ""))
        await self._show(exchange, request, await self._verbs.get(request))

    async def _list(self, exchange: Exchange, request: ApiRequest, address: ResourcePath) -> None:
        parameters.check_listing(exchange.query, watch=False)
        page = self._verbs.page(request, parameters.list_query(exchange.query, address))
        await self._show_list(exchange, request, page)

    async def _show_list(self, exchange: Exchange, request: ApiRequest, page: ListPage) -> None:
        served, form = request.served, exchange.form
        if form.kind == "Table":
            rows = [stored.object for stored in page.items]
            if served.custom is not None or served.key == COMPONENTS:
                rows = [self._verbs.in_version(served, obj) for obj in rows]
            await exchange.answer(self._table(exchange, request, rows, page.metadata))
            return
        if form.kind:
            if not form.kind.endswith("List"):
                raise no_such_form(form, served, served.list_kind)
            partial: list[JsonValue] = [
                self._tables.partial(served, self._verbs.in_version(served, stored.object), form.version)
                for stored in page.items
            ]
            head: JsonObject = {"kind": form.kind, "apiVersion": f"meta.k8s.io/{form.version}"}
            await exchange.answer({**head, "metadata": page.metadata, "items": partial or None})
            return
        if form != Form():
            shown = [self._verbs.in_version(served, stored.object) for stored in page.items]
            await exchange.answer(whole_list(served, page.metadata, [item_of(served, obj) for obj in shown]))
            return
        texts = [item_json(served, stored, self._verbs.in_version) for stored in page.items]
        before, after = go_json(whole_list(served, page.metadata, [])).split(b"[]", 1)
        await exchange.answer_list(before + b"[", texts, b"]" + after + b"\n")

    async def _create(self, exchange: Exchange, request: ApiRequest) -> None:
        body = await self._object(exchange, request)
        if request.subresource:
            await exchange.answer(await self._verbs.create_subresource(request, body), 201)
            return
        created = await self._verbs.create(request, body)
        await self._show(exchange, request, created.object, 201)

    async def _patch(self, exchange: Exchange, address: ResourcePath, user: User) -> None:
        content_type = exchange.headers.get("content-type", "").partition(";")[0].strip()
        apply = content_type == PatchType.APPLY
        served = self._verbs.request("patch", address).served
        if content_type not in apply_bodies.patch_types(served):
            raise apply_bodies.no_patch(served)
        wrong = parameters.patch_problems(exchange.query, apply=apply)
        request = self._write_request("patch", exchange, address, user, wrong)
        content = await read_body(exchange.receive, exchange.headers)
        if apply:
            await self._apply(exchange, request, content)
            return
        if self._verbs.store.get(request.resource, request.key) is None:
            raise not_found(request.plural_resource, request.name)
        patch_type = PatchType(content_type)
        changed = await self._verbs.patch(request, patch_type, parse_patch(content, patch_type))
        await self._show(exchange, request, changed.object)

    async def _apply(self, exchange: Exchange, request: ApiRequest, content: bytes) -> None:
        config = apply_bodies.read_config(content)
        if not request.subresource and self._verbs.store.get(request.resource, request.key) is None:
            self._security.gate.allow_creation(asked_of(request.user, exchange))
        outcome, made = await self._verbs.apply(
            request, config, force=parameters.flag_of(exchange.query, "force")
        )
        await self._show(exchange, request, outcome.object, 201 if made else 200)

    async def _delete(self, exchange: Exchange, address: ResourcePath, user: User) -> None:
        schema = self._verbs.registry.schema
        verb = "delete" if address.name else "deletecollection"
        self._accept(exchange, self._verbs.request(verb, address))
        body = await self._body(exchange)
        options, dry_run = parameters.delete_options(schema, exchange.query, body)
        write = Options(dry_run=dry_run)
        request = self._verbs.request(verb, address, options=write, notes=exchange.notes, user=user)
        exchange.warnings += cautions(request) + deletion_cautions(request, options.propagation)
        if address.name:
            await self._show(exchange, request, await self._verbs.delete(request, options))
            return
        parameters.check_listing(exchange.query, watch=False)
        query = parameters.list_query(exchange.query, address)
        await self._show_list(exchange, request, await self._verbs.delete_collection(request, query, options))

    async def _show(self, exchange: Exchange, request: ApiRequest, obj: JsonObject, code: int = 200) -> None:
        served, form = request.served, exchange.form
        if obj.get("kind") == "Status":
            pass
        elif form.kind == "Table":
            version = text(obj, "metadata", "resourceVersion")
            listed: JsonObject = {"resourceVersion": version} if version else {}
            obj = self._table(exchange, request, [obj], listed)
        elif form.kind.endswith("List"):
            raise no_such_form(form, served, _KINDS.get(request.subresource, served.row.kind))
        elif form.kind:
            obj = self._tables.partial(served, obj, form.version)
        await exchange.answer(obj, code)

    def _table(
        self, exchange: Exchange, request: ApiRequest, rows: list[JsonObject], metadata: JsonObject
    ) -> JsonObject:
        include = exchange.query.get("includeObject", "")
        check_include(include)
        scale = request.subresource == "scale"
        return self._tables.table(request.served, rows, metadata, include, exchange.form.version, scale=scale)

    def _accept(self, exchange: Exchange, request: ApiRequest, *, single: bool = True) -> None:
        """Settle in which form the answer is given. Raises ApiError 406."""
        accept = exchange.headers.get("accept", "")
        exchange.form = form_for(accept, request, single=single, pretty=exchange.pretty)

    async def _object(self, exchange: Exchange, request: ApiRequest) -> JsonValue:
        """The body of a write, which must be of the resource's kind."""
        content, content_type = await _sent(exchange)
        kind = _KINDS.get(request.subresource, request.served.row.kind)
        custom = ""
        if request.served.custom is not None and request.subresource != "scale":
            custom = request.served.row.api_version
        schema = self._verbs.registry.schema
        return _noted(exchange, parse_object(schema, content, content_type, kind, custom=custom))

    async def _body(self, exchange: Exchange) -> JsonValue:
        """The body of a deletion, if it has one."""
        content, content_type = await _sent(exchange)
        return parse_typed(self._verbs.registry.schema, content, content_type) if content else None

    def _request(self, verb: str, exchange: Exchange, address: ResourcePath, user: User) -> ApiRequest:
        request = self._verbs.request(verb, address, user=user)
        self._accept(exchange, request, single=bool(address.name))
        exchange.warnings += cautions(request)
        return request

    def _write_request(
        self, verb: str, exchange: Exchange, address: ResourcePath, user: User, wrong: Errors = ()
    ) -> ApiRequest:
        agent = exchange.headers.get("user-agent", "")
        request = self._verbs.request(verb, address, notes=exchange.notes, user=user)
        self._accept(exchange, request)
        options = parameters.write_options(exchange.query, agent, f"{verb.capitalize()}Options", wrong)
        request = replace(request, options=options)
        exchange.warnings += cautions(request)
        return request


async def _sent(exchange: Exchange) -> tuple[bytes, str]:
    """The body and its content type."""
    content = await read_body(exchange.receive, exchange.headers)
    return content, exchange.headers.get("content-type", "")


def _noted(exchange: Exchange, body: JsonValue) -> JsonValue:
    """The body, whose object's name the audit needs."""
    if exchange.trail is not None:
        exchange.trail.sent(mapping(body, "metadata"))
    return body


def _lasts(exchange: Exchange) -> bool:
    """Whether the request may last, so that no timeout is heeded."""
    address = parameters.address_of(exchange.segments)
    return address is not None and (
        address.watched or address.subresource in _LASTING or parameters.flag_of(exchange.query, "watch")
    )


def _query(scope: Scope) -> list[tuple[str, str]]:
    raw: bytes = scope["query_string"]
    if len(raw) > _MOST_QUERY:
        raise bad_request("the query string is too long")
    return parameters.pairs_of(raw.decode("latin-1"))
