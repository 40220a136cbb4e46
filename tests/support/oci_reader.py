"""Reads OCI archives as their specification says, and shares no code with what writes them."""

from __future__ import annotations

import gzip
import hashlib
import json
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Image:
    """The only image of an archive; `layers` are its tars, `layer_sizes` those of their compressed blobs."""

    names: set[str]
    digest: str
    config: dict[str, Any]
    layers: list[bytes]
    layer_digests: list[str]
    layer_sizes: list[int]


def read_image(archive: Path) -> Image:
    """Read the image; AssertionError when a digest, a size or one of the two manifests is wrong."""
    content: dict[str, bytes] = {}
    with tarfile.open(archive) as tar:
        for member in tar:
            file = tar.extractfile(member)
            assert file is not None, f"{member.name} is no file"
            content[member.name] = file.read()

    def blob(descriptor: dict[str, Any]) -> bytes:
        kind, _, digest = descriptor["digest"].partition(":")
        found = content[f"blobs/{kind}/{digest}"]
        assert (hashlib.new(kind, found).hexdigest(), len(found)) == (digest, descriptor["size"])
        return found

    assert json.loads(content["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    (descriptor,) = json.loads(content["index.json"])["manifests"]
    manifest = json.loads(blob(descriptor))
    config = json.loads(blob(manifest["config"]))
    layers = [gzip.decompress(blob(layer)) for layer in manifest["layers"]]
    diff_ids = [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in layers]
    assert config["rootfs"] == {"type": "layers", "diff_ids": diff_ids}
    listed = [f"blobs/{d['digest'].replace(':', '/')}" for d in (manifest["config"], *manifest["layers"])]
    (docker,) = json.loads(content["manifest.json"])
    assert [docker["Config"], *docker["Layers"]] == listed
    return Image(
        names={*docker["RepoTags"], *descriptor["annotations"].values()},
        digest=descriptor["digest"],
        config=config,
        layers=layers,
        layer_digests=[layer["digest"] for layer in manifest["layers"]],
        layer_sizes=[layer["size"] for layer in manifest["layers"]],
    )
