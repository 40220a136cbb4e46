"""A text that lint reads: a file's, or one in a value of a file (a key of a ConfigMap's data)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tonnage.documents.yaml.reader import MarkedDocument, Path, read_yaml_all
from tonnage.documents.yaml.spans import Parts, Span
from tonnage.model.errors import ConfigError, Problem


@dataclass(frozen=True, slots=True)
class TextEdit:
    """Replace the characters from `start` to `end` of a file's text."""

    start: int
    end: int
    new: str


class Sheet:
    """A text with its documents, and where its lines are in the file. Not to be changed.

    `documents` are empty where the text is not `readable`; of a key given twice the last counts. `problems`
    say why it cannot be read, or not by everybody (keys given twice).
    """

    def __init__(
        self, name: str, text: str, host: Sheet | None = None, document: int = 0, path: Path = ()
    ) -> None:
        self.name = name
        self.text = text
        self.host = host
        self._at = (document, path)
        self._inner: dict[tuple[int, Path], Sheet] = {}
        self.documents: tuple[MarkedDocument, ...] = ()
        self.problems: tuple[Problem, ...] = ()
        self.readable = True
        try:
            self.documents, self.problems = read_yaml_all(text, source=name)
        except ConfigError as error:
            self.problems, self.readable = error.problems, False

    @cached_property
    def parts(self) -> Parts:
        """Where everything stands. Only of a text that was read."""
        return Parts(self.text)

    def inner(self, document: int, path: Path, text: str) -> Sheet:
        """The text of the value at a path as a sheet of its own, the same one each time."""
        inner = self._inner.get((document, path))
        if inner is None:
            inner = self._inner[document, path] = Sheet(self.name, text, self, document, path)
        return inner

    def place(self, document: int, path: Path, *, on_key: bool = False) -> tuple[int, int]:
        """(line, column) in the file of a part of a document."""
        part = self.parts.part(document, path) if on_key else None
        span = part.key if part is not None and part.key is not None else self.parts.place(document, path)
        return self.in_file(span.line, span.column)

    def in_file(self, line: int, column: int) -> tuple[int, int]:
        """(line, column) in the file of a place in this text."""
        if self.host is None:
            return line, column
        block = self._block
        if block is None:
            return self.host.place(*self._at)
        first, indent = block
        return self.host.in_file(first + line - 1, indent + column)

    def edit_in_file(self, edit: TextEdit) -> TextEdit | None:
        """The same edit in the file's text; None where this text is not written there as it is."""
        if self.host is None:
            return edit
        block = self._block
        if block is None:
            return None
        first, indent = block
        blanks = " " * indent

        def moved(offset: int) -> int:
            before = self.text[:offset]
            line = before.count("\n")
            return starts[first - 1 + line] + indent + offset - (before.rfind("\n") + 1)

        starts = _line_starts(self.host.text)
        new = edit.new.replace("\n", f"\n{blanks}")
        begin, end = moved(edit.start), moved(edit.end)
        there = self.host.text[begin:end].replace("\r\n", "\n").replace(f"\n{blanks}", "\n")
        if there != self.text[edit.start : edit.end]:
            return None  # other line breaks than these: leave it alone
        return self.host.edit_in_file(TextEdit(begin, end, new))

    @cached_property
    def _block(self) -> tuple[int, int] | None:
        """(line of the host with this text's first, blanks before each); None if it is no literal block."""
        assert self.host is not None
        part = self.host.parts.part(*self._at)
        if part is None or part.style != "|" or part.shared:
            return None
        lines = self.host.text.splitlines()
        first = part.value.line + 1
        for number, line in enumerate(self.text.split("\n")):
            if not line.strip():
                continue
            written = lines[first - 1 + number] if first - 1 + number < len(lines) else ""
            return (first, len(written) - len(line)) if written.endswith(line) else None
        return None

    def span(self, document: int, path: Path) -> Span | None:
        """The value's span in this text."""
        part = self.parts.part(document, path)
        return part.value if part is not None else None


def _line_starts(text: str) -> list[int]:
    starts, at = [0], text.find("\n")
    while at >= 0:
        starts.append(at + 1)
        at = text.find("\n", at + 1)
    return starts
