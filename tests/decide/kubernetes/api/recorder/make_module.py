"""Print a go.mod that builds the recorder against one release of k8s.io/kubernetes.

The release's own go.mod points its staging modules at folders that the module archive lacks; here they are
the published ones of the same version.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

VERSION = "35.8"


def main() -> None:
    """Download the release and print the module file."""
    answer = subprocess.run(
        ["go", "mod", "download", "-json", f"k8s.io/kubernetes@v1.{VERSION}"],
        check=True,
        capture_output=True,
        text=True,
        cwd="/",
        timeout=3600,
    )
    source = Path(json.loads(answer.stdout)["GoMod"]).read_text()
    staging = re.findall(r"(k8s\.io/[a-z-]+) => \./staging", source)
    required = source[source.index("require (") : source.index("replace (")]
    required = re.sub(r"(k8s\.io/[a-z-]+) v0\.0\.0(?!-)", rf"\1 v0.{VERSION}", required)
    required = required.replace("require (", f"require (\n\tk8s.io/kubernetes v1.{VERSION}", 1)
    replaced = "".join(f"\t{module} => {module} v0.{VERSION}\n" for module in staging)
    print(f"module recorder\n\ngo 1.25.0\n\n{required}\nreplace (\n{replaced})")


if __name__ == "__main__":
    main()
