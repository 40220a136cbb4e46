"""Every command answers as it did, to the byte: stdout, stderr, exit status. `make golden` writes anew."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from golden.records import NAMES, RECORDS, path_of, recorder


@pytest.fixture(scope="module")
def current() -> Iterator[Callable[[str], str]]:
    with recorder() as current:
        yield current


def _case(name: str) -> object:
    """The labs' clusters are asked much the same, at length, and those of the matrix: a run takes some."""
    sampled = {
        "labs": [pytest.mark.sampled("golden records of labs' clusters")],
        "served": [pytest.mark.sampled("golden records of labs' clusters on a server")],
        "matrix": [pytest.mark.sampled("golden records of the matrix")],
    }
    return pytest.param(name, marks=sampled.get(name.partition("/")[0], []))


@pytest.mark.parametrize("name", [_case(name) for name in NAMES])
def test_a_command_answers_as_recorded(current: Callable[[str], str], name: str) -> None:
    assert current(name) == path_of(name).read_text()


def test_no_record_is_left_over() -> None:
    assert {path_of(name) for name in NAMES} == set(RECORDS.rglob("*.txt"))


def test_no_answer_shows_a_number_of_the_operating_system() -> None:
    """`[Errno 2] No such file or directory: 'x'` repeats the file, and its number tells nobody anything."""
    assert [path.name for path in RECORDS.rglob("*.txt") if "[Errno" in path.read_text()] == []


def test_no_remedy_is_a_question() -> None:
    """A remedy says what to do: `use nvidia.com/gpu if you meant that`."""
    question = re.compile(r'^ +(?:do   |remedy: |"remedy": ").*\?(?:",?)?$', re.MULTILINE)
    assert [found for path in RECORDS.rglob("*.txt") for found in question.findall(path.read_text())] == []
