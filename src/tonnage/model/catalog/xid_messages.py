"""dcgm-exporter's words for an Xid, which rows of `DCGM_FI_DEV_XID_ERRORS` carry as `err_msg`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources


def xid_message(code: int) -> str:
    """The words of a code.

    >>> xid_message(79), xid_message(100000)
    ('GPU has fallen off the bus', 'Unknown Error')
    """
    return _messages().get(code, "Unknown Error")


@cache
def _messages() -> Mapping[int, str]:
    text = resources.files(__package__).joinpath("xid_messages.toml").read_text(encoding="utf-8")
    return {int(code): words for code, words in tomllib.loads(text).items()}
