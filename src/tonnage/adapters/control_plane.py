"""A genuine control plane as plain processes on loopback: etcd, API server, controller manager, scheduler.

Source: https://kubernetes.io/docs/reference/command-line-tools-reference/, https://etcd.io/docs/v3.6/op-guide/configuration/
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx2

from tonnage.adapters.child_process import ChildProcess
from tonnage.model.errors import ClusterError, ConfigError, Problem

LOOPBACK: Final = "127.0.0.1"
SERVICE_ADDRESS: Final = "10.96.0.1"
"""Of the Service `kubernetes`: the first of the range."""
_PAUSE_S: Final = 0.05
_READY_S: Final = 180.0
_GRACE_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class ControlPlaneFolder:
    """Where the processes find what is written for them, and keep what is theirs. All of it is secret.

    Each of `ca`, `apiserver`, `etcd`, `kubelet-client` and `service-accounts` is a `.pem` with a
    `.key`; `tokens.csv` has a line `token,user,uid,"group"` for each user; controller manager and
    scheduler have a `.kubeconfig`.
    """

    path: Path

    def certificate(self, name: str) -> Path:
        return self.path / f"{name}.pem"

    def key(self, name: str) -> Path:
        return self.path / f"{name}.key"

    def kubeconfig(self, program: str) -> Path:
        return self.path / f"{program}.kubeconfig"

    def log(self, program: str) -> Path:
        return self.path / f"{program}.log"

    @property
    def tokens(self) -> Path:
        return self.path / "tokens.csv"

    @property
    def etcd_data(self) -> Path:
        return self.path / "etcd"


class ControlPlane:
    """The four processes. `serve` starts two of them, `run_loops` the rest; `stop` ends all.

    One alone may be ended and started again meanwhile.
    """

    def __init__(
        self, binaries: Path, folder: ControlPlaneFolder, environment: Mapping[str, str], *, port: int = 0
    ) -> None:
        """`port` is the API server's; 0 takes a free one.

        Raises:
            ConfigError: the port is in use.
        """
        self._binaries = binaries
        self._folder = folder
        self._environment = environment
        self._ports = _free_ports(port)
        self._flags: dict[str, Sequence[str]] = {}
        self._children: list[ChildProcess] = []

    @property
    def url(self) -> str:
        return f"https://{LOOPBACK}:{self._ports[0]}"

    @property
    def pids(self) -> Mapping[str, int]:
        """By the program's name."""
        return {child.name: child.pid for child in self._children}

    async def serve(self, *extra: str) -> None:
        """Start etcd and the API server, with `extra` flags, and return once it says that it is ready.

        Raises:
            ClusterError: one of them ended, or it takes more than a minute.
        """
        api, client, peer = self._ports
        self._start("etcd", etcd_flags(self._folder, client, peer))
        self._start("kube-apiserver", [*api_server_flags(self._folder, api, client), *extra])
        await self.ready()

    async def ready(self) -> None:
        """Return once the API server says that it is ready. Raises ClusterError as `serve` does."""
        trusted = ssl.create_default_context(cafile=str(self._folder.certificate("ca")))
        try:
            async with (
                asyncio.timeout(_READY_S),
                httpx2.AsyncClient(verify=trusted, trust_env=False, timeout=_READY_S) as http,
            ):
                while not await self._is_ready(http):
                    self.check()
                    await asyncio.sleep(_PAUSE_S)
        except TimeoutError:
            server = next(child for child in self._children if child.name == "kube-apiserver")
            why = f"not ready after {_READY_S:.0f} s\n{server.last_words()}"
            raise ClusterError(Problem("kube-apiserver does not answer", str(server.log), why)) from None

    async def _is_ready(self, http: httpx2.AsyncClient) -> bool:
        try:
            return (await http.get(f"{self.url}/readyz")).status_code == httpx2.codes.OK
        except httpx2.TransportError:
            return False

    def run_loops(self, *extra: str, of_manager: Sequence[str] = ()) -> None:
        """Start controller manager and scheduler, with `extra` flags, those `of_manager` for the first alone.

        Both retry until their first call is answered.
        """
        for program, own in (("kube-controller-manager", of_manager), ("kube-scheduler", ())):
            self._start(program, [*loop_flags(self._folder, program), *extra, *own])

    async def end(self, program: str, grace_s: float = _GRACE_S) -> None:
        """End one of them; the others go on, and wait for it."""
        child = next(child for child in self._children if child.name == program)
        self._children.remove(child)
        await child.end(grace_s)

    def start_again(self, program: str) -> None:
        """Start one that was ended, as it was started before."""
        self._start(program, self._flags[program])

    def check(self) -> None:
        """Nothing while all processes run.

        Raises:
            ClusterError: one has ended.
        """
        for child in self._children:
            child.check()

    async def stop(self) -> None:
        """End all of them, etcd last: without it the API server would wait for its grace to be over."""
        etcd = [child for child in self._children if child.name == "etcd"]
        await asyncio.gather(*(child.end(_GRACE_S) for child in self._children if child not in etcd))
        for child in etcd:
            await child.end(_GRACE_S)
        self._children.clear()

    def _start(self, program: str, flags: Sequence[str]) -> None:
        self._flags[program] = flags
        self._children.append(
            ChildProcess(
                self._binaries / program, flags, log=self._folder.log(program), environment=self._environment
            )
        )


def etcd_flags(folder: ControlPlaneFolder, client: int, peer: int) -> list[str]:
    """One member, open only to holders of a certificate: what is in etcd is the whole cluster."""
    own, key, ca = folder.certificate("etcd"), folder.key("etcd"), folder.certificate("ca")
    peers = f"https://{LOOPBACK}:{peer}"
    return [
        f"--data-dir={folder.etcd_data}",
        "--unsafe-no-fsync",  # nothing of it is kept
        "--log-level=warn",
        f"--listen-client-urls=https://{LOOPBACK}:{client}",
        f"--advertise-client-urls=https://{LOOPBACK}:{client}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=default={peers}",
        *(f"--{part}cert-file={own}" for part in ("", "peer-")),
        *(f"--{part}key-file={key}" for part in ("", "peer-")),
        *(f"--{part}trusted-ca-file={ca}" for part in ("", "peer-")),
        *(f"--{part}client-cert-auth" for part in ("", "peer-")),
    ]


def api_server_flags(folder: ControlPlaneFolder, port: int, etcd: int) -> list[str]:
    """RBAC and node authorization as a cluster of kubeadm has them; users by certificate or token."""
    return [
        f"--bind-address={LOOPBACK}",
        f"--secure-port={port}",
        f"--tls-cert-file={folder.certificate('apiserver')}",
        f"--tls-private-key-file={folder.key('apiserver')}",
        f"--client-ca-file={folder.certificate('ca')}",
        f"--token-auth-file={folder.tokens}",
        "--authorization-mode=Node,RBAC",
        f"--etcd-servers=https://{LOOPBACK}:{etcd}",
        f"--etcd-cafile={folder.certificate('ca')}",
        f"--etcd-certfile={folder.certificate('etcd')}",
        f"--etcd-keyfile={folder.key('etcd')}",
        f"--kubelet-certificate-authority={folder.certificate('ca')}",
        f"--kubelet-client-certificate={folder.certificate('kubelet-client')}",
        f"--kubelet-client-key={folder.key('kubelet-client')}",
        # Else exec and logs would have to resolve the names of nodes.
        "--kubelet-preferred-address-types=InternalIP",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={folder.certificate('service-accounts')}",
        f"--service-account-signing-key-file={folder.key('service-accounts')}",
        f"--service-cluster-ip-range={SERVICE_ADDRESS}/16",
        "--endpoint-reconciler-type=none",
        "--allow-privileged=true",
    ]


def loop_flags(folder: ControlPlaneFolder, program: str) -> list[str]:
    """Of the controller manager or the scheduler: alone, so without an election, and without a port."""
    flags = [f"--kubeconfig={folder.kubeconfig(program)}", "--leader-elect=false", "--secure-port=0"]
    if program == "kube-controller-manager":
        flags += [
            "--use-service-account-credentials",  # RBAC has roles for each loop, none for all in one
            f"--root-ca-file={folder.certificate('ca')}",
            f"--cluster-signing-cert-file={folder.certificate('ca')}",
            f"--cluster-signing-key-file={folder.key('ca')}",
            f"--service-account-private-key-file={folder.key('service-accounts')}",
        ]
    return flags


def _free_ports(api_port: int) -> tuple[int, int, int]:
    """Of the API server, etcd's clients and its peers: free a moment ago.

    Raises:
        ConfigError: the wanted one is not.
    """
    sockets = [socket.socket() for _ in range(3)]
    try:
        for number, probe in enumerate(sockets):
            port = api_port if number == 0 else 0
            # A port whose connections have just ended counts as free for Go's listeners.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((LOOPBACK, port))
            probe.listen(1)
        api, client, peer = (probe.getsockname()[1] for probe in sockets)
    except OSError as error:
        raise ConfigError(
            Problem(
                f"port {api_port} cannot be opened",
                f"{LOOPBACK}:{api_port}",
                error.strerror or str(error),
                "choose another port with --port (0 takes a free one)",
            )
        ) from None
    finally:
        for probe in sockets:
            probe.close()
    return api, client, peer
