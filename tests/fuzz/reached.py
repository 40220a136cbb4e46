"""Prints what of the package reads the corpus of all targets: `python -m fuzz.reached`.

It has a process of its own: a thread that began before is not watched, and what was read once may be kept.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
from types import FrameType
from typing import Any

from fuzz.inputs import corpus_of
from fuzz.readers import PACKAGE
from fuzz.targets import TARGETS


def main() -> None:
    reached: set[str] = set()
    before = f"{PACKAGE}/"

    def watch(frame: FrameType, event: str, _value: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(before):
            reached.add(
                f"{code.co_filename.removeprefix(before)}:{code.co_qualname.partition('.<locals>')[0]}"
            )

    logging.disable(logging.CRITICAL)
    threading.setprofile(watch)
    sys.setprofile(watch)
    for name, made in TARGETS.items():
        with made() as target:
            for content in corpus_of(name):
                target(content)
    sys.setprofile(None)
    threading.setprofile(None)
    print(json.dumps(sorted(reached)))


if __name__ == "__main__":
    main()
