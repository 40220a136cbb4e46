"""Layers kept between builds, by what they were made from, and the root in which new ones are made."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from scripts.image.archive import Layer, pack_layer
from scripts.image.trees import paths_in, unpack_tar

_KEPT: Final = 12
"""Layers that stay in a store: four images, of which three share their lower layers in practice."""


class LayerStore:
    """Packed layers in a folder, the least recently used ones removed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def blob(self, key: str) -> Path:
        return self._folder / f"{key}.tar.gz"

    def load(self, key: str) -> Layer | None:
        """The layer, if it is there and whole."""
        facts, blob = self._folder / f"{key}.json", self.blob(key)
        if not (facts.is_file() and blob.is_file()):
            return None
        layer = Layer(path=blob, **json.loads(facts.read_text(encoding="utf-8")))
        with blob.open("rb") as file:
            if f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}" != layer.digest:
                return None
        facts.touch()
        return layer

    def keep(self, key: str, layer: Layer) -> Layer:
        """Take a packed layer in; the layer at its new place."""
        layer.path.replace(self.blob(key))
        kept = dataclasses.replace(layer, path=self.blob(key))
        values = dataclasses.asdict(kept)
        del values["path"]
        fresh = self._folder / f".{key}.json"
        fresh.write_text(json.dumps(values), encoding="utf-8")
        fresh.replace(self._folder / f"{key}.json")
        for facts in sorted(self._folder.glob("*.json"), key=lambda p: p.stat().st_mtime)[:-_KEPT]:
            facts.unlink()
            facts.with_suffix(".tar.gz").unlink(missing_ok=True)
        return kept


class Assembly:
    """Layers put on top of one another. `root` holds all of them as soon as one has to be made."""

    def __init__(self, store: LayerStore, root: Path, tell: Callable[[str], None]) -> None:
        self.layers: list[Layer] = []
        self._store = store
        self._root = root
        self._tell = tell
        self._unpacked = 0

    def add(self, name: str, key: str, make: Callable[[Path], None], *, anew: bool = False) -> None:
        """Take the layer from the store, or let `make` change the root and pack what it added."""
        started = time.monotonic()
        layer = None if anew else self._store.load(key)
        how = "as before"
        if layer is None:
            self._tell(f"  {name} ...")
            self._unpack_lower()
            before = paths_in(self._root)
            make(self._root)
            packed = pack_layer(self._root, self._root.with_name("layer"), made_by=name, already=before)
            layer = self._store.keep(key, packed)
            self._unpacked += 1
            how = f"{time.monotonic() - started:.0f} s"
        self.layers.append(layer)
        self._tell(f"  {name}: {layer.size / 1e6:.1f} MB, {how}")

    def _unpack_lower(self) -> None:
        for layer in self.layers[self._unpacked :]:
            with tarfile.open(layer.path, mode="r:gz") as tar:
                unpack_tar(tar, self._root, lambda path: path)
        self._unpacked = len(self.layers)
