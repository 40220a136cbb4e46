"""Generate the kubelet messages (`*_pb2.py`, `*_pb2.pyi`) from their `.proto` files; `--check` only compares.

Run with the pinned grpcio-tools: its generated code decides which protobuf versions can load it.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "src" / "tonnage" / "wire" / "kubelet"


def generate(into: Path) -> list[Path]:
    """Write the modules of every proto below `into`; paths relative to it."""
    protos = sorted(str(path) for path in SOURCES.glob("*.proto"))
    options = [f"-I{ROOT / 'src'}", f"--python_out={into}", f"--pyi_out={into}"]
    if status := protoc.main(["protoc", *options, *protos]):
        raise SystemExit(status)
    return sorted(path.relative_to(into) for path in into.rglob("*_pb2.py*"))


def main() -> int:
    """Exit status 1 when `--check` finds committed code that differs."""
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder)
        made = generate(fresh)
        stale = [
            path
            for path in made
            if not (ROOT / "src" / path).exists()
            or (ROOT / "src" / path).read_text() != (fresh / path).read_text()
        ]
        if "--check" in sys.argv[1:]:
            for path in stale:
                print(f"{path} differs from its .proto: run scripts/generate_protos.py", file=sys.stderr)
            return 1 if stale else 0
        for path in stale:
            (ROOT / "src" / path).write_text((fresh / path).read_text())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
