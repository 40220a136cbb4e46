"""Keep the definitions of other projects' kinds that the manifests of tests/data/documents are of.

    python scripts/record_definitions.py SOURCE=FILE ...

FILE is a CustomResourceDefinition out of a checkout or a Go module, SOURCE says of what: project, version,
licence, as in `sigs.k8s.io/karpenter@v1.6.2 (Apache-2.0)=…/karpenter.sh_nodepools.yaml`. Descriptions are
left out; what decides whether an object is accepted stays.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import yaml

KEPT = Path(__file__).parents[1] / "tests" / "data" / "documents-definitions.json.gz"


def without_descriptions(schema: Any) -> Any:
    """A schema without its prose; a property that is called `description` stays."""
    if isinstance(schema, list):
        return [without_descriptions(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: without_descriptions(inner) for name, inner in value.items()}
        if key == "properties" and isinstance(value, dict)
        else without_descriptions(value)
        for key, value in schema.items()
        if not (key == "description" and isinstance(value, str))
    }


def definition(source: str, file: Path) -> dict[str, Any]:
    """What is kept of a definition: where it is from is an annotation."""
    body = yaml.load(file.read_text(), yaml.CSafeLoader)
    body.pop("status", None)
    metadata = {"name": body["metadata"]["name"], "annotations": {"tonnage.dev/source": source}}
    # The server asks for this note in groups of its own, k8s.io and the like.
    approval = body["metadata"].get("annotations", {}).get("api-approved.kubernetes.io")
    if approval is not None:
        metadata["annotations"]["api-approved.kubernetes.io"] = approval
    spec: dict[str, Any] = without_descriptions(body["spec"])
    return {"apiVersion": body["apiVersion"], "kind": body["kind"], "metadata": metadata, "spec": spec}


def main() -> None:
    """Write all that are named, in the place of those that were kept."""
    pairs = [argument.rpartition("=") for argument in sys.argv[1:]]
    items = sorted(
        (definition(source, Path(file)) for source, _, file in pairs), key=lambda row: row["metadata"]["name"]
    )
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, separators=(",", ":"))
    KEPT.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(*(row["metadata"]["name"] for row in items), len(text), KEPT.stat().st_size)


if __name__ == "__main__":
    main()
