"""The file of a web config, followed with the certificates that it names while they change."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tonnage.adapters.config_file import MountedConfigFile
from tonnage.model.errors import ConfigError, Problem
from tonnage.ports.clock import Clock

if TYPE_CHECKING:
    from tonnage.adapters.http.web_access import WebAccess

_LOG: Final = logging.getLogger(__name__)
_LOOK_S: Final = 1.5


class WebConfigFile:
    """What the file says, as it is served by. One that cannot be used is logged, and the last one stays."""

    def __init__(self, file: Path, clock: Clock, *, root: Path = Path("/")) -> None:
        """`root` stands before absolute paths in the file; no relative one leads out of it."""
        self._file = file
        self._root = root
        self._clock = clock
        self._files: tuple[Path, ...] = (file,)
        """The file and those that it names."""
        self._read_stamps: tuple[str, ...] = ()
        """Stamps of the files as they were read."""

    async def accesses(self) -> AsyncIterator[WebAccess]:
        """First what is so now: nobody's access where the file cannot be used; then each that follows."""
        from tonnage.adapters.http.web_access import ClosedAccess

        yield await self._read() or ClosedAccess()
        while True:
            await self._clock.sleep(_LOOK_S)
            if _stamps(self._files) != self._read_stamps and (access := await self._read()) is not None:
                yield access

    async def _read(self) -> WebAccess | None:
        self._read_stamps = _stamps(self._files)
        text = await MountedConfigFile(self._file).read()
        try:
            if isinstance(text, Problem):
                raise ConfigError(text)
            access = await asyncio.to_thread(self._access, text)
        except ConfigError as error:
            for problem in error.problems:
                _LOG.error("web config refused: problem=%s", problem)
            return None
        _LOG.info("web config in force: file=%s tls=%s", self._file, access.context is not None)
        return access

    def _access(self, text: str) -> WebAccess:
        from tonnage.adapters.http.web_access import WebAccess, tls_context
        from tonnage.documents.web_config import read_web_config

        config = read_web_config(text, str(self._file))
        tls = config.tls
        if tls is None:
            self._files = (self._file,)
            return WebAccess(config, None)
        names = (tls.certificate, tls.key, tls.client_ca)
        certificate, key, client_ca = (self._place(name) if name else None for name in names)
        self._files = (self._file, *(file for file in (certificate, key, client_ca) if file is not None))
        self._read_stamps = (self._read_stamps[0], *_stamps(self._files[1:]))
        assert certificate is not None
        assert key is not None
        return WebAccess(config, tls_context(tls, certificate, key, client_ca))

    def _place(self, name: str) -> Path:
        """Where a file lies that the web config names. Raises ConfigError: outside of what we may see."""
        if name.startswith("/"):
            return self._root / os.path.normpath(name).lstrip("/")
        place = Path(os.path.normpath(self._file.parent / name))
        if not place.is_relative_to(self._root):
            raise ConfigError(Problem(f"{name[:100]!r} leads out of the root folder", str(self._file)))
        return place


def _stamps(files: tuple[Path, ...]) -> tuple[str, ...]:
    return tuple(MountedConfigFile(file).stamp() for file in files)
