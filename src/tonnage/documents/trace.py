"""Traces as CSV with a header line, in the columns of openb: machines, and jobs in order of arrival."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from io import StringIO
from typing import Final, TypeVar

from tonnage.model.errors import ConfigError, Problem
from tonnage.model.trace import MOST_GPUS, WHOLE_GPU, TraceJob, TraceMachine

T = TypeVar("T")

MAX_ROWS: Final = 1_000_000
_MOST: Final = 2**40
_MOST_PROBLEMS: Final = 50
_MACHINE: Final = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_JOB: Final = ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli")


def machines_from(text: str, source: str) -> tuple[TraceMachine, ...]:
    """The machines; all that is wrong is told at once.

    Raises:
        ConfigError: columns are missing, or a row cannot be read.
    """
    return _rows(text, source, _MACHINE, _machine)


def jobs_from(text: str, source: str) -> tuple[TraceJob, ...]:
    """The jobs; the column `gpu_spec` may name models, joined by `|`.

    Raises:
        ConfigError: columns are missing, or a row cannot be read.
    """
    return _rows(text, source, _JOB, _job)


def _machine(row: Mapping[str, str]) -> TraceMachine:
    gpus = _number(row, "gpu")
    if gpus > MOST_GPUS:
        raise ValueError(f"gpu: {gpus} is more than {MOST_GPUS}")
    return TraceMachine(row["sn"], _number(row, "cpu_milli"), _number(row, "memory_mib"), gpus, row["model"])


def _job(row: Mapping[str, str]) -> TraceJob:
    gpus, milli = _number(row, "num_gpu"), _number(row, "gpu_milli")
    if gpus > MOST_GPUS:
        raise ValueError(f"num_gpu: {gpus} is more than {MOST_GPUS}")
    if gpus and not 0 < milli <= WHOLE_GPU:
        raise ValueError(f"gpu_milli: {milli} is not within 1 and {WHOLE_GPU}")
    if gpus > 1 and milli != WHOLE_GPU:
        raise ValueError(f"gpu_milli: {milli} of each of {gpus} GPUs; only a single GPU can be shared")
    models = frozenset(filter(None, (row.get("gpu_spec") or "").split("|")))
    return TraceJob(_number(row, "cpu_milli"), _number(row, "memory_mib"), gpus, milli if gpus else 0, models)


def _number(row: Mapping[str, str], column: str) -> int:
    text = row[column]
    if not (text.isascii() and text.isdigit() and len(text) < 14) or int(text) > _MOST:
        raise ValueError(f"{column}: {text[:40]!r} is not a whole number up to {_MOST}")
    return int(text)


def _rows(
    text: str, source: str, columns: tuple[str, ...], read: Callable[[Mapping[str, str]], T]
) -> tuple[T, ...]:
    reader = csv.DictReader(StringIO(text, newline=""), restval="", strict=True)
    rows: list[T] = []
    problems: list[Problem] = []
    try:
        missing = [column for column in columns if column not in (reader.fieldnames or ())]
        if missing:
            why = f"the columns {', '.join(columns)} are read"
            raise ConfigError(Problem(f"no column {', '.join(missing)}", f"{source}:1", why))
        for row in reader:
            if len(rows) == MAX_ROWS:
                raise ConfigError(Problem(f"more than {MAX_ROWS} rows", source))
            try:
                rows.append(read(row))
            except ValueError as error:
                problems.append(Problem(str(error), f"{source}:{reader.line_num}"))
                if len(problems) == _MOST_PROBLEMS:
                    break
    except csv.Error as error:
        problems.append(Problem("no CSV", f"{source}:{reader.line_num}", str(error)))
    if problems:
        raise ConfigError(*problems)
    if not rows:
        raise ConfigError(Problem("no rows", source))
    return tuple(rows)
