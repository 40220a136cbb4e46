"""Credentials that change: a token's file, and a program that gives them out (`exec` in a kubeconfig).

Of the program's protocol lightkube speaks v1alpha1 and v1beta1 only, and never lets a token expire.

Source: client.authentication.k8s.io, client-go credential plugins (v1.35).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import httpx2
import msgspec
from lightkube.config.models import UserExec

from tonnage.model.errors import ClusterError, Problem
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


class TokenFileAuth(httpx2.Auth):
    """A bearer token out of a file that others renew, read for each request: what kubelet rotates is short.

    lightkube's own reads it again only when the server has refused the old one, and fails when it cannot.
    """

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
                why = str(error)
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

    def __init__(self, user: UserExec) -> None:
        self._user = user
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
        if self._user.apiVersion not in _VERSIONS:
            raise self._failed(f"its version {self._user.apiVersion} is none of {', '.join(_VERSIONS)}")
        credential = {
            "apiVersion": self._user.apiVersion,
            "kind": "ExecCredential",
            "spec": {"interactive": False},
        }
        environment = {**os.environ, "KUBERNETES_EXEC_INFO": msgspec.json.encode(credential).decode()}
        environment.update((pair.name, pair.value) for pair in self._user.env or [])
        try:
            process = await asyncio.create_subprocess_exec(
                self._user.command,
                *(self._user.args or []),
                env=environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            raise self._failed(error.strerror or str(error)) from None
        try:
            out, complaint = await asyncio.wait_for(process.communicate(), _PATIENCE_S)
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
        remedy = self._user.installHint or "run the program by hand and read its output"
        return ClusterError(
            Problem(f"the credential program {self._user.command!r} failed", why=why, remedy=remedy)
        )


def _expired(status: _Status) -> bool:
    return (
        status.expiration_timestamp is not None and datetime.now(UTC) + _MARGIN >= status.expiration_timestamp
    )
