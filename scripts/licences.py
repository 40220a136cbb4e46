"""Lists the licences of all that is shipped, and refuses one that deploy/licences.toml does not allow.

python -m scripts.licences                  # a table; exit status 1 when something is refused
python -m scripts.licences --check          # only what is refused; what `make lint` runs
python -m scripts.licences --image FILE     # of what lies in an image's archive
"""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import importlib.metadata
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from typing import Any, Final

from license_expression import ExpressionError, get_spdx_licensing
from packaging.utils import canonicalize_name

from scripts.image.lock import NAME, read_lock
from scripts.locked import PROJECT, ROOT, pinned_packages

TABLE: Final = ROOT / "deploy" / "licences.toml"
_SPDX: Final = get_spdx_licensing()
_SHIPPED: Final = ("src/tonnage", "labs")


@dataclass(frozen=True, slots=True, order=True)
class Row:
    """A shipped part, its licence as an SPDX expression, and why it may not be shipped; empty when it may."""

    kind: str
    name: str
    version: str
    licence: str
    refusal: str = ""


class Licences:
    """What deploy/licences.toml says of parts."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        self.allowed = frozenset(table["allowed"])
        self.python_table: Mapping[str, Mapping[str, str]] = table["python"]
        self.debian_table: Mapping[str, Mapping[str, Any]] = table["debian"]
        self.file_table: Mapping[str, Mapping[str, str]] = table["files"]
        self._bundled: Mapping[str, str] = table["bundled"]

    @staticmethod
    def read(path: Path = TABLE) -> Licences:
        return Licences(tomllib.loads(path.read_text(encoding="utf-8")))

    def python(self, metadata: Message, *, bundles: bool = False) -> Row:
        """Of a package with these core metadata; `bundles`: its wheel carries shared libraries of others."""
        name = canonicalize_name(str(metadata["Name"]))
        expression, told = str(metadata["License-Expression"] or ""), self.python_table.get(name)
        refusal = ""
        if expression and told:
            refusal = f"its metadata says {expression}: take it out of [python]"
        elif not expression and told is None:
            refusal = f"its metadata has no expression, but {_stated(metadata)!r}: name it in [python]"
        elif told and told["stated"] != _stated(metadata):
            refusal = (
                f"its metadata says {_stated(metadata)!r}, [python] {told['stated']!r}: read its licence"
            )
        licence = expression or (told["licence"] if told else "")
        if bundles and name not in self._bundled:
            refusal = refusal or "its wheel carries libraries of others: name their licences in [bundled]"
        elif bundles:
            licence = f"{_grouped(licence)} AND {self._bundled[name]}"
        return self._row("python", name, str(metadata["Version"]), licence, refusal)

    def debian(self, name: str, version: str, copyright_text: bytes | None = None) -> Row:
        """Of a package of Debian; without its copyright file what the table says."""
        told = self.debian_entry(name)
        if told is None:
            return Row("debian", name, version, "", f"no pattern of [debian] is {name}")
        digest = hashlib.sha256(copyright_text or b"").hexdigest()
        refusal = ""
        if copyright_text is not None and digest not in told["copyright"]:
            refusal = f"nobody has read its copyright file {digest}"
        return self._row("debian", name, version, told["licence"], refusal)

    def debian_entry(self, name: str) -> Mapping[str, Any] | None:
        """The first entry whose pattern is that of the package."""
        found = (told for pattern, told in self.debian_table.items() if fnmatch.fnmatchcase(name, pattern))
        return next(found, None)

    def file(self, path: str) -> Row:
        """Of a file of the checkout that the wheel has: the row of its pattern."""
        for pattern, told in self.file_table.items():
            if fnmatch.fnmatchcase(path, pattern):
                owner = f" (from {told['from']})" if "from" in told else ""
                return self._row("files", f"{pattern}{owner}", "", told["licence"], "")
        return Row("files", path, "", "", "no pattern of [files] is it")

    def _row(self, kind: str, name: str, version: str, licence: str, refusal: str) -> Row:
        return Row(kind, name, version, licence, refusal or self.refusal(licence))

    def refusal(self, licence: str) -> str:
        """Why the expression is not allowed, empty when it is: one side of an OR is enough."""
        try:
            parsed = _SPDX.parse(licence)
        except ExpressionError as error:
            return f"no SPDX expression: {error}"
        if parsed is None:
            return "no licence"
        return "" if self._may(parsed) else f"{licence} is not allowed"

    def _may(self, expression: Any) -> bool:
        if isinstance(expression, _SPDX.OR):
            return any(self._may(part) for part in expression.args)
        if isinstance(expression, _SPDX.AND):
            return all(self._may(part) for part in expression.args)
        return str(expression) in self.allowed


def _grouped(licence: str) -> str:
    return f"({licence})" if " OR " in licence else licence


def _stated(metadata: Message) -> str:
    """What metadata without an expression say: the field License when it is a line, else a classifier.

    >>> from email import message_from_string
    >>> _stated(message_from_string("Classifier: License :: OSI Approved :: MIT License"))
    'MIT License'
    """
    field = str(metadata["License"] or "").strip()
    if field and "\n" not in field:
        return field
    classifiers = [text for text in metadata.get_all("Classifier", ()) if text.startswith("License :: ")]
    return str(classifiers[0]).rpartition(" :: ")[2] if classifiers else ""


def shipped_by_the_wheel(licences: Licences) -> Iterator[Row]:
    """Tonnage's own files, and what is installed along with it, by this environment's copies."""
    yield Row("python", PROJECT, importlib.metadata.version(PROJECT), "Apache-2.0")
    for package in {package.name for package in pinned_packages()} - {PROJECT}:
        found = importlib.metadata.distribution(package)
        bundles = any(".libs/" in str(file) for file in found.files or ())
        yield licences.python(found.metadata, bundles=bundles)  # type: ignore[arg-type]
    for folder in _SHIPPED:
        for path in sorted((ROOT / folder).rglob("*")):
            own = path.suffix == ".py" and not path.name.endswith("_pb2.py")
            if path.is_file() and not own and "__pycache__" not in path.parts:
                yield licences.file(str(path.relative_to(ROOT)))


def shipped_by_the_image(licences: Licences) -> Iterator[Row]:
    """Debian's packages as they are locked. The copyright files are looked at in a built image."""
    for release, packages in read_lock(ROOT / "deploy" / "image" / NAME).items():
        for name, (version, _) in packages.items():
            row = licences.debian(name, version)
            yield Row(f"{row.kind} ({release})", row.name, row.version, row.licence, row.refusal)


def lying_in_the_image(licences: Licences, archive: Path, *, read: bool = True) -> Iterator[Row]:
    """What a built image holds, by its own metadata; `read`: its copyright files must have been read."""
    from scripts.release.image_content import read_content

    content = read_content(archive)
    for package in content.debian:
        yield licences.debian(package.name, package.version, package.copyright_text if read else None)
    for found in content.python:
        if canonicalize_name(str(found.metadata["Name"])) != PROJECT:
            yield licences.python(found.metadata, bundles=found.bundles)


def rendered(rows: list[Row]) -> str:
    """A line each: kind, name, version, licence."""
    columns = [(row.kind, f"{row.name} {row.version}".strip(), row.licence or "?") for row in rows]
    widths = [max(len(column[place]) for column in columns) for place in (0, 1)]
    lines = (f"{kind:{widths[0]}}  {name:{widths[1]}}  {licence}" for kind, name, licence in columns)
    return "\n".join(lines)


def main() -> int:
    """Print; 1 when something is refused."""
    parser = argparse.ArgumentParser(description="List the licences of all that is shipped.")
    parser.add_argument("--check", action="store_true", help="print only what is refused")
    parser.add_argument("--image", type=Path, metavar="FILE", help="look into an image's archive as well")
    options = parser.parse_args()
    licences = Licences.read()
    rows = sorted({*shipped_by_the_wheel(licences), *shipped_by_the_image(licences)})
    if options.image:
        rows += sorted(lying_in_the_image(licences, options.image))
    if not options.check:
        print(rendered(rows))
    for row in rows:
        if row.refusal:
            print(f"{row.kind} {row.name}: {row.refusal}", file=sys.stderr)
    if any(row.refusal for row in rows):
        print(f"remedy: {TABLE.relative_to(ROOT)} says what is allowed, and why", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
