"""`python -m support.churn.server FILE PORT`: an API server of the twin on a database, which forgets soon.

It prints its endpoint as JSON; each line of its input cuts all watches. It is meant to be killed.
"""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tonnage.adapters.certificates import Authority
from tonnage.adapters.clock import SystemClock
from tonnage.model.key_pair import KeyPair
from tonnage.twin.apiserver.server import ApiServer
from tonnage.twin.apiserver.storage.database import Database

_LOG_LENGTH: Final = 20
"""Commits of a resource that are remembered: whoever is away for longer is told 410."""


async def _serve(path: Path, port: int) -> None:
    database = Database.open(path)
    made = Authority.generate(datetime.now(UTC))
    pem, key = database.fact("ca.pem"), database.fact("ca.key")
    if pem is None or key is None:
        pem, key = made.certificate_pem, made.key_pem
        database.keep_fact("ca.key", key)
        database.keep_fact("ca.pem", pem)
    store = database.store()
    store._log_length = _LOG_LENGTH
    server = ApiServer(SystemClock(), store=store)
    endpoint = await server.start(Authority.load(KeyPair(pem, key)), port=port, token="t" * 32)
    print(json.dumps([endpoint.url, endpoint.ca_pem.decode(), endpoint.token]), flush=True)
    loop = asyncio.get_running_loop()
    while await loop.run_in_executor(None, sys.stdin.readline):
        store.cut_watches()
    await server.stop()
    database.close()


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1]), int(sys.argv[2])))
