"""How long a genuine etcd and kube-apiserver take to answer; `TONNAGE_KUBERNETES_BIN` is their folder."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LIMIT_S = 60.0
TOKEN = "benchmark"


def measure(rounds: int) -> dict[str, list[float]]:
    """Seconds from the start of both processes to `/readyz`; nothing without the binaries."""
    folder = os.environ.get("TONNAGE_KUBERNETES_BIN", "")
    if not folder:
        return {}
    times = []
    for _ in range(rounds):
        with _control_plane(Path(folder)) as (url, started):
            times.append(_until_ready(url) - started)
    return {"genuine etcd and kube-apiserver: /readyz answers, s": times}


@contextmanager
def _control_plane(binaries: Path) -> Iterator[tuple[str, float]]:
    state = Path(tempfile.mkdtemp(prefix="tn-", dir="/tmp"))
    client, peer, secure = (_free_port() for _ in range(3))
    key = state / "service-accounts.key"
    subprocess.run(
        ["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", key],
        check=True,
        capture_output=True,
    )
    (state / "tokens.csv").write_text(f"{TOKEN},admin,admin,system:masters\n")
    etcd = [str(binaries / "etcd"), f"--data-dir={state}/etcd", "--unsafe-no-fsync", "--log-level=error"]
    etcd += [f"--listen-client-urls=http://127.0.0.1:{client}"]
    etcd += [f"--advertise-client-urls=http://127.0.0.1:{client}"]
    etcd += [f"--listen-peer-urls=http://127.0.0.1:{peer}"]
    api = [
        str(binaries / "kube-apiserver"),
        f"--etcd-servers=http://127.0.0.1:{client}",
        f"--cert-dir={state}/certs",
    ]
    api += [f"--secure-port={secure}", "--bind-address=127.0.0.1", f"--token-auth-file={state}/tokens.csv"]
    api += ["--authorization-mode=Node,RBAC", "--service-account-issuer=https://benchmark"]
    api += [f"--service-account-key-file={key}", f"--service-account-signing-key-file={key}"]
    api += ["--service-cluster-ip-range=10.96.0.0/16", "--endpoint-reconciler-type=none"]
    started = time.perf_counter()
    processes = [
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for command in (etcd, api)
    ]
    try:
        yield f"https://127.0.0.1:{secure}", started
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait(30)
        shutil.rmtree(state, ignore_errors=True)


def _until_ready(url: str) -> float:
    trusting = ssl.create_default_context()
    trusting.check_hostname = False
    trusting.verify_mode = ssl.CERT_NONE
    request = urllib.request.Request(f"{url}/readyz", headers={"Authorization": f"Bearer {TOKEN}"})
    deadline = time.perf_counter() + LIMIT_S
    while time.perf_counter() < deadline:
        try:
            with urllib.request.urlopen(request, context=trusting, timeout=5) as answer:
                if answer.status == 200:
                    return time.perf_counter()
        except OSError:
            time.sleep(0.02)
    raise TimeoutError(f"not ready within {LIMIT_S} s")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
