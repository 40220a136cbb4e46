"""Text of a CDI spec to its value and the places of its fields; what it means is `decide.node.cdi.rules`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from tonnage.model.errors import ConfigError, Problem
from tonnage.model.json import JsonValue, parsed_json

if TYPE_CHECKING:
    from tonnage.documents.yaml.reader import MarkedDocument


class SpecText:
    """A spec's content. `value` is the first document's, None where there is none; `refusal` why it is none.

    Plain JSON is read without its places: a folder may have ten thousand specs, and most of them are well.
    """

    def __init__(self, content: bytes, source: str) -> None:
        self._content = content
        self._source = source
        self.value = _quickly(content) if source.endswith(".json") else None
        self.refusal: tuple[Problem, ...] = ()
        self._parsed: tuple[MarkedDocument, ...] | None = None
        if self.value is None:
            try:
                documents = self._documents()
            except ConfigError as error:
                self.refusal = error.problems
            else:
                self.value = documents[0].value if documents else None

    def further(self) -> str:
        """Where a second document begins; empty if there is none."""
        documents = self._parsed or ()
        return documents[1].where() if len(documents) > 1 else ""

    def placed(self, problems: Iterable[Problem]) -> tuple[Problem, ...]:
        """The problems, whose `where` is a field's path, with `file:line:column` before it.

        An absent field is at its parent's place.
        """
        todo = tuple(problems)
        if not todo:
            return ()
        from tonnage.documents.yaml.reader import field_path

        try:
            marks = {field_path(path): mark for path, mark in self._documents()[0].marks.items()}
        except ConfigError:  # too large to tell lines
            marks = {}

        def place(field: str) -> str:
            inner = field
            while inner and inner not in marks:
                inner = inner[: max(inner.rfind("."), inner.rfind("["), 0)]
            mark = marks.get(inner)
            at = f":{mark.line}:{mark.column}" if mark else ":1:1" if marks else ""
            return f"{self._source}{at} {field}".rstrip()

        return tuple(replace(problem, where=place(problem.where)) for problem in todo)

    def _documents(self) -> tuple[MarkedDocument, ...]:
        if self._parsed is None:
            from tonnage.documents.yaml.reader import parse_yaml_all  # takes a while

            text = self._content.decode("utf-8", "surrogateescape")
            self._parsed = parse_yaml_all(text, source=self._source)
        return self._parsed


def _quickly(content: bytes) -> JsonValue:
    """Of plain JSON its value, else None."""
    try:
        return parsed_json(content, unique=True)
    except ValueError:
        return None
