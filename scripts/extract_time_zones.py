"""Write the names of the time zones that Kubernetes' API server knows: those that Go brings along.

Source: lib/time/zoneinfo.zip of Go, which has them from the time zone database of IANA.

    python -m scripts.extract_time_zones           # write src/tonnage/wire/schema/time_zones.json
    python -m scripts.extract_time_zones --check   # exit 1 if it is stale
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Final
from zipfile import ZipFile

TARGET: Final = Path(__file__).parents[1] / "src/tonnage/wire/schema/time_zones.json"


def main() -> int:
    """Write the table, or compare it."""
    root = subprocess.run(["go", "env", "GOROOT"], capture_output=True, text=True, check=True).stdout.strip()
    with ZipFile(Path(root) / "lib/time/zoneinfo.zip") as archive:
        names = sorted(name for name in archive.namelist() if not name.endswith("/"))
    text = json.dumps(names, indent=0) + "\n"
    if "--check" in sys.argv:
        return int(text != TARGET.read_text())
    TARGET.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
