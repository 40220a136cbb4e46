"""CEL about objects of any kind: values, types and words."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.decide.kubernetes.cel.expression import AbsentError, expression
from tonnage.decide.kubernetes.cel.types.kinds import DYN, INT
from tonnage.decide.kubernetes.claims.cel_errors import TOO_LONG, CelError, CelUnsupportedError

KNOWN = (("object", DYN), ("variables.x", INT))
OBJECT: dict[str, Any] = {"name": "ab", "list": [1, {"a": None}], "size": "1Gi"}


def value(text: str, *wanted: str) -> object:
    program = expression(text, KNOWN, wanted)
    assert program.error == ""
    return program.evaluate({"object": OBJECT, "variables.x": 5})


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("object", OBJECT),
        ("object.list.map(one, [one])", [[1], [{"a": None}]]),
        ("object.name.findAll('[a-z]')", ["a", "b"]),
        ("object.?none.orValue('other')", "other"),
        ("quantity(object.size) > quantity('1Mi') ? 1 : 2", None),
        ("variables.x + 1", 6),
    ],
    ids=str,
)
def test_values_are_those_of_json(text: str, found: object) -> None:
    if found is None:
        assert "found no matching overload for '_>_'" in expression(text, KNOWN).error
    else:
        assert value(text) == found


def test_the_type_that_is_wanted_is_checked_before() -> None:
    assert expression("object.name", KNOWN, ("bool",)).error == "must evaluate to bool but got dyn"
    assert value("variables.x == 5", "bool") is True


def test_an_unknown_name_is_blamed_where_it_begins() -> None:
    error = expression("1 == 2 || nobody.knows.it", KNOWN).error
    place = "ERROR: <input>:1:11: undeclared reference to 'nobody' (in container '')"
    assert error == f"compilation failed: {place}\n | 1 == 2 || nobody.knows.it\n | {'.' * 10}^"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("object.none", "no such key: none"),
        ("object.list[7]", "index out of bounds: 7"),
        ("1 / (variables.x - 5)", "division by zero"),
    ],
    ids=str,
)
def test_failures_are_told_in_the_servers_words(text: str, words: str) -> None:
    with pytest.raises(CelError) as error:
        value(text)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("isURL('http://[::1')", False),
        ("[1, 2].exists_one(i, v, i == 1 && v == 2) && [1, 2].exists_one(v, v == 2)", True),
        ("[1, 1].exists_one(i, v, v == 1)", False),
        ("isURL('http://[::1]:80/a')", True),
        ("'%s'.format([timestamp('2020-01-01T00:00:00.5Z')])", "2020-01-01T00:00:00.5Z"),
        ("'%s'.format([timestamp('2020-01-01T00:00:00Z')])", "2020-01-01T00:00:00Z"),
        (
            "'%s'.format([[1.5, 'a', b'b', timestamp('2020-01-01T00:00:00Z'), duration('90s'), true]])",
            '[1.500000, "a", b"b", timestamp("2020-01-01T00:00:00Z"), duration("90s"), true]',
        ),
        ("'%s'.format([{'x': 2.0, 'y': 0.0 / 0.0}])", '{"x":2.000000, "y":"NaN"}'),
        ("'%s'.format([[type(1)]])", "[type(int)]"),
        ("size('%.99999999999f'.format([1.0]))", 1_000_002),
    ],
    ids=str,
)
def test_functions_come_to_what_they_do_on_a_server(text: str, found: object) -> None:
    assert value(text) == found


def test_a_variable_without_value_fails_only_what_hangs_on_it() -> None:
    assert expression("true || variables.x > 1", KNOWN).evaluate({"object": {}}) is True
    with pytest.raises(AbsentError, match=r"^x$"):
        expression("variables.x > 1", KNOWN).evaluate({"object": {}})


def test_what_goes_on_for_long_is_ended() -> None:
    many = list(range(2000))
    with pytest.raises(CelError, match=TOO_LONG):
        expression("object.all(a, object.all(b, object.all(c, a + b + c >= 0)))", KNOWN).evaluate(
            {"object": many}
        )
    with pytest.raises(CelUnsupportedError):
        expression("'" + "x" * 11000 + "'", KNOWN)


@pytest.mark.parametrize(
    "text",
    [
        "isURL(dyn(optional.of('a')))",
        "isURL(dyn({'a': optional.of(1)}))",
        "[optional.of(1)].map(x, dyn(x)).all(y, isURL(y))",
        "[optional.of(1), 1].all(y, isURL(y))",
        "isURL(true ? optional.of(1) : dyn(1))",
        "([dyn(1)] + [optional.of(1)]).all(y, isURL(y))",
        "isURL(object.?none.orValue(optional.of(1)))",
        "[1].transformMap(k, v, optional.of(v)).all(k, isURL(dyn(k)))",
        "[1].transformMapEntry(k, v, {'a': optional.of(v)}).all(k, isURL(dyn(k)))",
        "'%s'.format([{'a': optional.of(1)}])",
    ],
)
def test_no_optional_comes_where_the_library_would_end_the_process(text: str) -> None:
    with pytest.raises(CelUnsupportedError, match="an optional among values"):
        value(text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("isURL(dyn({?'a': object.?name}))", False),
        ("[?object.?name, ?object.?none]", ["ab"]),
        ("quantity(object.?none.orValue('1Gi')).isGreaterThan(quantity('1'))", True),
        ("object.?name.optMap(x, x + 'c').orValue('')", "abc"),
        ("[optional.of(1)].exists(one, one.hasValue())", True),
        ("object.?none.or(optional.of('a')).value()", "a"),
    ],
)
def test_optionals_whose_type_is_known_are_as_good_as_any_value(text: str, found: object) -> None:
    assert value(text) == found
