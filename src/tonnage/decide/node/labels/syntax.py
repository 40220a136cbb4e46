"""Free text to values and names of labels: always valid, and always the same for the same text.

Source: Kubernetes, "Labels and Selectors": at most 63 characters, a letter or digit at both ends.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

LONGEST: Final = 63
_DROPPED: Final = re.compile(r"[^A-Za-z0-9\-_. ]")
_EDGES: Final = "-_."
_HASH: Final = 8


def sanitised(text: str) -> str:
    """The text as GPU feature discovery makes a value of it, without what may not stand at its ends.

    >>> sanitised("NVIDIA H100 80GB HBM3"), sanitised(" GRID(R)  T4/2 ")
    ('NVIDIA-H100-80GB-HBM3', 'GRIDR-T42')
    """
    return "-".join(_DROPPED.sub("", text.translate(_BLANKS)).split()).strip(_EDGES)


_BLANKS: Final = {ord(blank): " " for blank in "\t\n\r\v\f"}


def shortened(text: str, longest: int = LONGEST) -> str:
    """A sanitised text of at most that many characters: what is cut off is told apart by a hash at the end.

    >>> shortened("NVIDIA-T4", 9), len(shortened("NVIDIA-" + "T" * 90))
    ('NVIDIA-T4', 63)
    """
    if len(text) <= longest:
        return text
    mark = hashlib.sha256(text.encode()).hexdigest()[:_HASH]
    head = text[: max(longest - _HASH - 1, 0)].strip(_EDGES)
    return f"{head}-{mark}" if head else mark[:longest]


def joined(main: str, *endings: str) -> str:
    """A value of several sanitised parts; where it is too long it is the first that is shortened.

    >>> joined("NVIDIA-A100", "MIG", "", "1g.5gb", "SHARED")
    'NVIDIA-A100-MIG-1g.5gb-SHARED'
    >>> joined("A" * 60, "SHARED")[-16:]
    '-c5fb235b-SHARED'
    """
    head, *ending = [text for text in map(sanitised, (main, *endings)) if text] or ["unknown"]
    tail = "".join(f"-{text}" for text in ending)
    if len(tail) > LONGEST - 2 * _HASH:
        return shortened(f"{head}{tail}")
    return shortened(head, LONGEST - len(tail)) + tail
