"""Text to the values of a pydantic model, with a place for every field.

Everything that is wrong with a document is reported at once, each problem with `file:line:column field.path`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import UnionType
from typing import Annotated, Any, Final, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from tonnage.documents.nearest import nearest
from tonnage.documents.yaml.bounds import MAX_VALUES
from tonnage.documents.yaml.field_words import field_words
from tonnage.documents.yaml.reader import MAX_PROBLEMS, MarkedDocument, Path, only_one, read_yaml_all
from tonnage.documents.yaml.spelling import words_of
from tonnage.model.errors import ConfigError, Problem

_MOST_DETAILS: Final = 500
"""Of those, several may be one problem: each arm of a union says its own."""

M = TypeVar("M", bound=BaseModel)


class Document(BaseModel):
    """Base of user documents: camelCase keys, unknown keys refused, nothing converted ("4" is no number)."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, alias_generator=to_camel, defer_build=True
    )


class DocumentFieldError(ValueError):
    """For validators: a problem with a reason and a remedy of its own."""

    def __init__(self, problem: str, *, why: str = "", remedy: str = "") -> None:
        super().__init__(problem)
        self.why = why
        self.remedy = remedy


def parse_document(text: str, model: type[M], *, source: str) -> M:
    """The document as `model`, every problem at once.

    Raises:
        ConfigError: unreadable text, or values that the model refuses.
    """
    return read_document(text, model, source=source)[1]


def read_document(
    text: str, model: type[M], *, source: str, most_values: int = MAX_VALUES
) -> tuple[MarkedDocument, M]:
    """The document as it stands, with its places, and as `model`, every problem at once.

    Raises:
        ConfigError: as `parse_document`.
    """
    documents, twice = read_yaml_all(text, source=source, most_values=most_values)
    located = only_one(documents, source)
    try:
        read = validate(located, model)
    except ConfigError as error:
        raise ConfigError(*(*twice, *error.problems)[:MAX_PROBLEMS]) from None
    if twice:
        raise ConfigError(*twice)
    return located, read


def validate(document: MarkedDocument, model: type[M]) -> M:
    """The value as `model`; JSON rules, so that lists may become tuples and strings enums.

    Raises:
        ConfigError: with one problem for each field that is wrong.
    """
    try:
        return model.model_validate_json(json.dumps(document.value))
    except ValidationError as error:
        details = error.errors(include_url=False)[:_MOST_DETAILS]
        problems = (_field_problem(detail, document, model) for detail in details)
        unique = {(problem.where, problem.what): problem for problem in problems}
        raise ConfigError(*list(unique.values())[:MAX_PROBLEMS]) from None


def unknown_fields(
    document: MarkedDocument, model: type[BaseModel]
) -> tuple[tuple[Path, tuple[str, ...]], ...]:
    """Each field that the model does not know, with the names that it knows there."""
    try:
        model.model_validate_json(json.dumps(document.value))
    except ValidationError as error:
        paths = {
            _real_path(detail["loc"], document, absent=False)
            for detail in error.errors(include_url=False)
            if detail["type"] == "extra_forbidden"
        }
        return tuple((path, tuple(sorted(_known_keys(model, path[:-1])))) for path in sorted(paths, key=str))
    return ()


def _field_problem(detail: ErrorDetails, document: MarkedDocument, model: type[BaseModel]) -> Problem:
    path = _real_path(detail["loc"], document, absent=detail["type"] == "missing")
    error = detail.get("ctx", {}).get("error")
    if isinstance(error, DocumentFieldError):
        return Problem(str(error), document.where(path), error.why, error.remedy)
    if isinstance(error, ValueError):
        return Problem(str(error), document.where(path))
    if detail["type"] == "extra_forbidden":
        fields = sorted(_known_keys(model, path[:-1]))
        return Problem(
            f"unknown field {path[-1]!s}", document.where(path), remedy=nearest(str(path[-1]), fields)
        )
    if detail["type"] == "missing":
        return Problem("required field is missing", document.where(path))
    value = detail["input"]
    if value is None and not path:
        return Problem("the document is empty", document.where())
    if detail["type"] == "string_pattern_mismatch":
        words = words_of(str(detail.get("ctx", {}).get("pattern")))
        return Problem(f"{json.dumps(value)[:60]} is not {words}", document.where(path))
    words, remedy = field_words(detail)
    return Problem(words, document.where(path), remedy=remedy)


def _real_path(loc: tuple[int | str, ...], document: MarkedDocument, *, absent: bool) -> Path:
    """`loc` without what pydantic adds for unions: steps that somebody wrote, and a missing last one."""
    written = {whole[:end] for whole in document.elsewhere for end in range(1, len(whole) + 1)}
    path: Path = ()
    for index, step in enumerate(loc):
        if (*path, step) in document.marks or (*path, step) in written or (absent and index == len(loc) - 1):
            path = (*path, step)
    return path


def _known_keys(annotation: Any, path: Path) -> Iterator[str]:
    """Keys that the model knows at `path`, through lists, mappings and every arm of a union."""
    origin = get_origin(annotation)
    if origin in (Union, UnionType):
        for arm in get_args(annotation):
            yield from _known_keys(arm, path)
    elif origin is Annotated:
        yield from _known_keys(get_args(annotation)[0], path)
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        names = {field.alias or name: field for name, field in annotation.model_fields.items()}
        if not path:
            yield from names
        elif path[0] in names:
            yield from _known_keys(names[str(path[0])].annotation, path[1:])
    elif origin is not None and path:
        arguments = [argument for argument in get_args(annotation) if argument is not Ellipsis]
        if arguments:
            yield from _known_keys(arguments[-1], path[1:])
