"""Ask a genuine Kubernetes what the scenes of tests/data/kubectl-*.yaml answer, and keep that.

    python scripts/record_kubectl_answers.py BINARIES KUBECTL [SCENE ...]

BINARIES is a folder with etcd, kube-apiserver, kube-controller-manager and kube-scheduler; every scene has a
fresh control plane of them on loopback, without kubelets. Named scenes replace what is kept of them.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gzip
import json
import secrets
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from urllib.request import Request, urlopen

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.first_hour import BOOKS, NAMESPACE, Answer, Book, Player, Scene, reads, scenes

_START_S = 60.0
_AT_ONCE = 3


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


class ControlPlane:
    """Four processes of one genuine control plane and its kubeconfig."""

    def __init__(self, binaries: Path, folder: Path) -> None:
        self._binaries = binaries
        self._folder = folder
        self._token = secrets.token_hex(16)
        self._port = free_port()
        self._running: list[subprocess.Popen[bytes]] = []
        self.kubeconfig = folder / "kubeconfig"

    def start(self) -> None:
        """Start all; return when the namespace is there with its service account."""
        folder = self._folder
        key = folder / "sa.key"
        subprocess.run(["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True)
        (folder / "tokens").write_text(f'{self._token},admin,admin,"system:masters"\n')
        etcd, peer = free_port(), free_port()
        self._spawn(
            "etcd",
            f"--data-dir={folder}/etcd",
            f"--listen-client-urls=http://127.0.0.1:{etcd}",
            f"--advertise-client-urls=http://127.0.0.1:{etcd}",
            f"--listen-peer-urls=http://127.0.0.1:{peer}",
            "--unsafe-no-fsync",
        )
        self._start_api_server(etcd, key)
        self._until(lambda: self._get("/readyz"))
        self._write_kubeconfig()
        certificate = folder / "certs" / "apiserver.crt"
        common = (
            f"--kubeconfig={self.kubeconfig}",
            "--leader-elect=false",
            "--authentication-tolerate-lookup-failure",
            f"--secure-port={free_port()}",
        )
        self._spawn(
            "kube-controller-manager",
            *common,
            "--use-service-account-credentials",
            f"--root-ca-file={certificate}",
            f"--service-account-private-key-file={key}",
            "--node-monitor-grace-period=24h",
            "--node-monitor-period=1s",
        )
        self._spawn("kube-scheduler", *common[:-1], f"--secure-port={free_port()}")
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        self._get("/api/v1/namespaces", json.dumps(body).encode())
        self._until(lambda: self._get(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default"))
        self._until(lambda: self._get("/api/v1/namespaces/default/services/kubernetes"))

    def _start_api_server(self, etcd: int, key: Path) -> None:
        folder = self._folder
        self._spawn(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{etcd}",
            f"--cert-dir={folder}/certs",
            f"--secure-port={self._port}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
            f"--token-auth-file={folder}/tokens",
            "--authorization-mode=Node,RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--allow-privileged=true",
            "--enable-admission-plugins=NodeRestriction",
        )

    def stop(self) -> None:
        """End all, the last first."""
        for process in reversed(self._running):
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5)
            process.kill()
            process.wait()

    def _spawn(self, name: str, *arguments: str) -> None:
        with (self._folder / f"{name}.log").open("wb") as log:
            command = [str(self._binaries / name), *arguments]
            self._running.append(subprocess.Popen(command, stdout=log, stderr=log))

    def _until(self, done: Callable[[], bytes]) -> None:
        end = time.monotonic() + _START_S
        while True:
            try:
                done()
                return
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.2)

    def _get(self, path: str, body: bytes | None = None) -> bytes:
        context = ssl._create_unverified_context()
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        request = Request(f"https://127.0.0.1:{self._port}{path}", body, headers)
        with urlopen(request, context=context, timeout=10) as answer:
            data: bytes = answer.read()
            return data

    def _write_kubeconfig(self) -> None:
        authority = base64.b64encode((self._folder / "certs" / "apiserver.crt").read_bytes()).decode()
        cluster = {"server": f"https://127.0.0.1:{self._port}", "certificate-authority-data": authority}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": self._token}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": NAMESPACE}}],
            "current-context": "x",
        }
        self.kubeconfig.write_text(json.dumps(document))


@contextlib.contextmanager
def control_plane(binaries: Path) -> Iterator[ControlPlane]:
    """A fresh one, gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="tn-", dir="/tmp"))
    plane = ControlPlane(binaries, folder)
    try:
        plane.start()
        yield plane
    finally:
        plane.stop()
        shutil.rmtree(folder, ignore_errors=True)


async def play(kubectl: Path, kubeconfig: Path, scene: Scene) -> list[tuple[str, Answer]]:
    """Every command with its answer; after each write the controllers get a moment."""
    folder = Path(tempfile.mkdtemp(prefix="tn-", dir="/tmp"))
    player = Player(kubectl, kubeconfig, folder, scene)
    result = []
    for command in scene.commands:
        result.append((command, await player.ask(command)))
        if not reads(command):
            await asyncio.sleep(scene.settle_s)
    shutil.rmtree(folder)
    return result


def record(binaries: Path, kubectl: Path, scene: Scene) -> list[list[object]]:
    """The answers of a fresh control plane."""
    with control_plane(binaries) as plane:
        rows = asyncio.run(play(kubectl, plane.kubeconfig, scene))
    return [[command, answer.code, answer.out, answer.err] for command, answer in rows]


def main() -> None:
    """Record the scenes named, or all, a few at a time."""
    binaries, kubectl, names = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
    for book in BOOKS:
        wanted = [scene for scene in scenes(book) if not names or scene.name in names]
        if wanted:
            keep(book, wanted, partial(record, binaries, kubectl))


def keep(book: Book, wanted: list[Scene], answers: Callable[[Scene], list[list[object]]]) -> None:
    """Replace the answers of these scenes."""
    kept = json.loads(gzip.decompress(book.answers.read_bytes())) if book.answers.exists() else {"scenes": {}}
    kept["kubernetes"] = "v1.35.8"
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for scene, rows in zip(wanted, pool.map(answers, wanted), strict=True):
            kept["scenes"][scene.name] = rows
            text = json.dumps(kept, sort_keys=True, separators=(",", ":")).encode()
            book.answers.write_bytes(gzip.compress(text, 9, mtime=0))
            print(scene.name, len(rows), flush=True)


if __name__ == "__main__":
    main()
