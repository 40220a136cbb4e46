"""How requests say who asks: a password, a token, its file, or a program that gives it out (`exec`).

Source: client.authentication.k8s.io, client-go credential plugins (v1.35).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Generator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import httpx2
import msgspec

from tonnage.adapters.kubernetes.kubeconfig_entries import CredentialProgram, UserEntry
from tonnage.model.errors import ClusterError, Problem, words_of
from tonnage.wire.decode import decoded_json

_VERSIONS: Final = tuple(
    f"client.authentication.k8s.io/{version}" for version in ("v1", "v1beta1", "v1alpha1")
)
_LONGEST_TOKEN: Final = 64 << 10
_PATIENCE_S: Final = 60.0
_MARGIN: Final = timedelta(seconds=10)


class _Status(msgspec.Struct, rename="camel"):
    token: str = ""
    expiration_timestamp: datetime | None = None


class _Credential(msgspec.Struct, rename="camel"):
    status: _Status


def authentication(user: UserEntry) -> httpx2.Auth | None:
    """How this user says who asks; None where a certificate does, or nothing.

    Raises ValueError for a kind that client-go no longer has either.
    """
    if user.token_file:
        return TokenFileAuth(Path(user.token_file))
    if user.token:
        return TokenAuth(user.token)
    if user.exec is not None:
        return ExecAuth(user.exec)
    if user.username and user.password:
        return httpx2.BasicAuth(user.username, user.password)
    if user.auth_provider:
        raise ValueError("auth-provider not supported")
    return None


class TokenAuth(httpx2.Auth):
    """A bearer token that stays."""

    def __init__(self, token: str) -> None:
        self._token = token

    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        """Send the request with the token."""
        request.headers["Authorization"] = f"Bearer {self._token}"
        yield request


class TokenFileAuth(httpx2.Auth):
    """A bearer token out of a file that others renew, read for each request: what kubelet makes is short."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._last = ""

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send the request with the token as it is now, or as it was last if the file cannot be read."""
        try:
            with self._file.open(encoding="ascii") as stream:
                token = stream.read(_LONGEST_TOKEN).strip()
        except (OSError, UnicodeError) as error:
            if not self._last:
                why = words_of(error)
                problem = Problem(
                    "the token cannot be read", str(self._file), why, "renew the file or mount it"
                )
                raise ClusterError(problem) from None
        else:
            self._last = token or self._last
        request.headers["Authorization"] = f"Bearer {self._last}"
        yield request


class ExecAuth(httpx2.Auth):
    """A bearer token from a program, asked for again when it has expired or the server refuses it."""

    def __init__(self, program: CredentialProgram) -> None:
        self._program = program
        self._status: _Status | None = None
        self._lock = asyncio.Lock()

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send the request with a token, and once more with a new one after 401."""
        status = await self._current()
        request.headers["Authorization"] = f"Bearer {status.token}"
        response = yield request
        if response.status_code == 401:
            status = await self._current(refused=status)
            request.headers["Authorization"] = f"Bearer {status.token}"
            yield request

    async def _current(self, refused: _Status | None = None) -> _Status:
        async with self._lock:
            status = self._status
            if status is None or status is refused or _expired(status):
                status = self._status = await self._ask()
            return status

    async def _ask(self) -> _Status:
        if self._program.api_version not in _VERSIONS:
            raise self._failed(f"its version {self._program.api_version} is none of {', '.join(_VERSIONS)}")
        credential = {
            "apiVersion": self._program.api_version,
            "kind": "ExecCredential",
            "spec": {"interactive": False},
        }
        environment = {**os.environ, "KUBERNETES_EXEC_INFO": msgspec.json.encode(credential).decode()}
        environment.update((pair.name, pair.value) for pair in self._program.env or [])
        try:
            process = await asyncio.create_subprocess_exec(
                self._program.command,
                *(self._program.args or []),
                env=environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            raise self._failed(words_of(error)) from None
        try:
            async with asyncio.timeout(_PATIENCE_S):
                out, complaint = await process.communicate()
        except TimeoutError:
            process.kill()
            await process.wait()
            raise self._failed(f"it did not answer within {_PATIENCE_S:g} s") from None
        if process.returncode != 0:
            raise self._failed(complaint.decode(errors="replace")[:1000].strip())
        try:
            status: _Status = decoded_json(out, _Credential).status
        except msgspec.DecodeError as error:
            raise self._failed(f"its output is not an ExecCredential: {error}") from None
        if not status.token:
            raise self._failed(
                "it returned no token; Tonnage does not support client certificates from programs"
            )
        return status

    def _failed(self, why: str) -> ClusterError:
        remedy = self._program.install_hint or "run the program by hand and read its output"
        return ClusterError(
            Problem(f"the credential program {self._program.command!r} failed", why=why, remedy=remedy)
        )


def _expired(status: _Status) -> bool:
    return (
        status.expiration_timestamp is not None and datetime.now(UTC) + _MARGIN >= status.expiration_timestamp
    )
