"""Put every recorded request to the recorder again and write the answers beside it."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

RECORDED = Path(__file__).parents[1] / "recorded.json.gz"


def main() -> None:
    """Run the program that the command line names."""
    requests = [pair["request"] for pair in json.loads(gzip.decompress(RECORDED.read_bytes()))]
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    answers = subprocess.run(
        [sys.argv[1]], input=lines, check=True, capture_output=True, text=True, timeout=3600
    ).stdout
    pairs = [
        {"request": request, "answer": json.loads(answer)}
        for request, answer in zip(requests, answers.splitlines(), strict=True)
    ]
    RECORDED.write_bytes(gzip.compress(json.dumps(pairs, separators=(",", ":")).encode(), mtime=0))


if __name__ == "__main__":
    main()
