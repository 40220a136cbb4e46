"""A webhook that answers by the path at which it is asked, over TLS on loopback."""

from __future__ import annotations

import base64
import json
import ssl
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from support.deadlines import join
from tonnage.adapters.certificates import Authority

Answer = dict[str, Any]


def _patched(*operations: Answer) -> Answer:
    patch = base64.b64encode(json.dumps(list(operations)).encode()).decode()
    return {"allowed": True, "patch": patch, "patchType": "JSONPatch"}


def _denied(**result: Any) -> Answer:
    return {"allowed": False, **({"status": result} if result else {})}


def _labelled(_request: Answer) -> Answer:
    return _patched({"op": "add", "path": "/metadata/labels", "value": {"hooked": "yes"}})


def _counted(request: Answer) -> Answer:
    seen = (request["object"]["metadata"].get("annotations") or {}).get("seen", "")
    return _patched({"op": "add", "path": "/metadata/annotations", "value": {"seen": seen + "x"}})


def _echoed(request: Answer) -> Answer:
    told = {key: value for key, value in request.items() if key not in ("uid", "userInfo")}
    for key in ("object", "oldObject"):
        for unsaid in ("managedFields", "resourceVersion"):
            (told[key] or {"metadata": {}})["metadata"].pop(unsaid, None)
    return _denied(message=json.dumps(told, sort_keys=True))


ANSWERS: Final[dict[str, Callable[[Answer], Answer]]] = {
    "/allow": lambda _r: {"allowed": True},
    "/deny": lambda _r: _denied(message="not today"),
    "/deny-bare": lambda _r: _denied(),
    "/deny-reason": lambda _r: _denied(reason="Forbidden"),
    "/deny-teapot": lambda _r: _denied(
        code=418, reason="Teapot", message="short", details={"causes": [{"field": "spec", "message": "m"}]}
    ),
    "/deny-success": lambda _r: _denied(code=200, status="Success", message="but no"),
    "/label": _labelled,
    "/count": _counted,
    "/image": lambda _r: _patched(
        {"op": "replace", "path": "/spec/containers/0/image", "value": "hooked"},
        {"op": "add", "path": "/spec/containers/0/ports", "value": [{"containerPort": 80}]},
    ),
    "/invalid": lambda _r: _patched({"op": "add", "path": "/metadata/labels", "value": {"a b": "c"}}),
    "/misplaced": lambda _r: _patched({"op": "remove", "path": "/spec/nothing/there"}),
    "/mistyped": lambda _r: _patched({"op": "add", "path": "/metadata/labels", "value": {"a": 5}}),
    "/patch-untyped": lambda _r: {"allowed": True, "patch": base64.b64encode(b"[]").decode()},
    "/patch-typed": lambda _r: {"allowed": True, "patchType": "JSONPatch"},
    "/patch-odd": lambda r: {**_labelled(r), "patchType": "MergePatch"},
    "/patch-garbage": lambda _r: {
        "allowed": True,
        "patchType": "JSONPatch",
        "patch": base64.b64encode(b"nope").decode(),
    },
    "/warn": lambda _r: {"allowed": True, "warnings": ["careful", 'with "quotes"']},
    "/warn-deny": lambda _r: {**_denied(message="no"), "warnings": ["too late"]},
    "/wrong-uid": lambda _r: {"allowed": True, "uid": "other"},
    "/echo": _echoed,
}
RAW: Final[dict[str, tuple[int, bytes]]] = {
    "/broken": (500, b"boom\n"),
    "/gone": (404, b"404 page not found\n"),
    "/busy": (503, b""),
    "/teapot": (418, b"no coffee"),
    "/text": (200, b"hello"),
    "/empty": (200, b""),
    "/absent": (200, b'{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}'),
    "/other": (200, b'{"kind": "Pod", "apiVersion": "v1"}'),
}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        path = self.path.partition("?")[0]
        if path == "/hang":
            self.server.ended.wait(60)  # type: ignore[attr-defined]
            return
        code, data = RAW.get(path, (200, b""))
        if path in ANSWERS:
            response = {"uid": body["request"]["uid"], **ANSWERS[path](body["request"])}
            whole = {"kind": "AdmissionReview", "apiVersion": body["apiVersion"], "response": response}
            data = json.dumps(whole).encode()
        self.send_response(code)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_args: object) -> None:
        """Say nothing."""


@contextmanager
def webhooks() -> Iterator[dict[str, str]]:
    """A running server: its `hook` (https://host:port) and `ca` (base64), and a `shut` port."""
    authority = Authority.generate(datetime.now(UTC))
    pair = authority.issue("hook", hosts=["127.0.0.1", "hook.default.svc"], server=True)
    with tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as folder:
        certificate, key = Path(folder) / "c.pem", Path(folder) / "k.pem"
        certificate.write_bytes(pair.certificate_pem)
        key.touch(mode=0o600)
        key.write_bytes(pair.key_pem)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    server.ended = threading.Event()  # type: ignore[attr-defined]
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    # The certificate of no authority at all, so that no name leads to it.
    other = Authority.generate(datetime.now(UTC)).issue("other", server=True)
    try:
        yield {
            "hook": f"https://127.0.0.1:{server.server_port}",
            "port": str(server.server_port),
            "ca": base64.b64encode(authority.certificate_pem).decode(),
            "wrong-ca": base64.b64encode(other.certificate_pem).decode(),
        }
    finally:
        server.ended.set()  # type: ignore[attr-defined]
        server.shutdown()
        server.server_close()
        join(thread)
