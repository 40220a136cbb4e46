"""What a YAML text may come to: told before anything of it is made, with the place and the alias."""

from __future__ import annotations

import pytest

from support.peak_memory import peak_mib
from tonnage.documents.device_plugin.config import parse_device_plugin_config
from tonnage.documents.mig.layouts import parse_mig_parted
from tonnage.documents.yaml.bounds import MAX_DOCUMENTS
from tonnage.documents.yaml.reader import parse_yaml, parse_yaml_all
from tonnage.model.errors import ConfigError, Problem

LONG = "x" * 35_000


def of_aliases(count: int, value: str = LONG) -> str:
    return f"version: v1\nname: &text {value}\nlist:\n" + "- *text\n" * count


def laughs(merge: str) -> str:
    """Each line ten times the one before."""
    lines = [f"a{n}: &a{n} {merge % ','.join([f'*a{n - 1}'] * 10)}" for n in range(1, 12)]
    return "\n".join(["a0: &a0 {k: v}", *lines])


def refused(text: str) -> Problem:
    with pytest.raises(ConfigError) as caught:
        parse_yaml_all(text, source="f")
    return caught.value.problems[0]


@pytest.mark.parametrize(
    ("text", "what", "where", "why"),
    [
        pytest.param(
            of_aliases(3000),
            "more than 8 MiB, where an alias counts as all that it stands for, such as *text here",
            "f:242:3",
            "*text stands for 35,001 bytes in 1 value",
            id="three thousand aliases of one long text",
        ),
        pytest.param(
            laughs("[%s]"),
            "more than 200,000 values, where an alias",
            "f:",
            "*a",
            id="lists of lists of aliases",
        ),
        pytest.param(
            laughs("{<<: [%s]}"),
            "more than 200,000 values, where an alias",
            "f:",
            "*a",
            id="merges of merges",
        ),
        pytest.param(
            laughs("{b: {<<: [%s]}}"),
            "more than 200,000 values, where an",
            "f:",
            "*a",
            id="merges below keys",
        ),
        pytest.param(
            "a: &a [1, *a]",
            "the text is not valid YAML",
            "f:1:11",
            "*a stands for a value that it is a part of",
            id="itself",
        ),
        pytest.param(
            "a: &a {<<: *a}",
            "the text is not valid YAML",
            "f:1:12",
            "*a stands for a value that it is",
            id="merged into itself",
        ),
        pytest.param(
            "a: *b", "the text is not valid YAML", "f:1:4", "undefined alias", id="an alias of nothing"
        ),
        pytest.param("[" * 200_000, "the text is not valid YAML", "f:1:65", "deeper than 64", id="brackets"),
        pytest.param(
            '{"a":' * 50_000, "the text is not valid YAML", "f:1:", "deeper than 64", id="JSON in braces"
        ),
        pytest.param(
            "- " * 200_000 + "a", "the text is not valid YAML", "f:1:", "deeper than 64", id="dashes"
        ),
        pytest.param(
            "? " * 200_000 + "a", "the text is not valid YAML", "f:1:", "deeper than 64", id="question marks"
        ),
        pytest.param(
            "".join(f"&a{n} [" for n in range(50_000)),
            "the text is not valid YAML",
            "f:1:",
            "deeper than 64",
            id="anchors",
        ),
        pytest.param("[" + "1," * 300_000 + "]", "more than 200,000 values", "f:1:", "", id="ones"),
        pytest.param(
            "- 1\n" * 300_000, "more than 200,000 values", "f:200000:", "", id="ones below each other"
        ),
        pytest.param(
            "--- 1\n" * 20_000,
            "the text is not valid YAML",
            "f:",
            "more than 10,000 documents",
            id="documents",
        ),
        pytest.param(
            "a: " + "9" * 1_000_000, "999 is not a number that JSON", "f:1:4 a", "", id="a million digits"
        ),
        pytest.param(
            "a: 1e999999999", "1e999999999 is not a number", "f:1:4 a", "", id="a number without end"
        ),
    ],
)
def test_what_comes_to_too_much_is_refused_with_its_place(text: str, what: str, where: str, why: str) -> None:
    problem = refused(text)
    assert what in problem.what
    assert problem.where.startswith(where)
    assert why in problem.why
    assert "\n" not in f"{problem.what}{problem.where}{problem.why}"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param(
            of_aliases(3, "x"), {"version": "v1", "name": "x", "list": ["x"] * 3}, id="a few aliases"
        ),
        pytest.param(
            "a: " + ":".join("1" * 9999), {"a": ":".join("1" * 9999)}, id="no number to the base of 60"
        ),
        pytest.param("a: 2024-99-99", {"a": "2024-99-99"}, id="a date that is none"),
        pytest.param("[" * 60 + "]" * 60, None, id="sixty lists in each other"),
        pytest.param("a: " + "x" * 4_000_000, None, id="one long text"),
    ],
)
def test_what_is_within_bounds_is_read(text: str, value: object) -> None:
    found = parse_yaml(text, source="f").value
    assert value is None or found == value


def test_anchors_are_of_one_document() -> None:
    problem = refused("a: &a x\n---\nb: *a")
    assert (problem.where, "undefined alias" in problem.why) == ("f:3:4", True)


def test_keys_are_no_values() -> None:
    """What was read before is read still: as many values as the bound says, each with a key."""
    text = "a: &a 1\n" + "".join(f"k{n}: *a\n" for n in range(998))
    found = parse_yaml(text, source="f", most_values=1000).value
    assert isinstance(found, dict)
    assert len(found) == 999
    with pytest.raises(ConfigError, match="more than 1,000 values"):
        parse_yaml(f"{text}b: 1\n", source="f", most_values=1000)


def test_as_many_documents_as_the_bound_says_are_read() -> None:
    assert len(parse_yaml_all("--- 1\n" * MAX_DOCUMENTS, source="f")) == MAX_DOCUMENTS


@pytest.mark.parametrize("read", [parse_device_plugin_config, parse_mig_parted])
def test_the_agents_readers_refuse_many_values(read: object) -> None:
    with pytest.raises(ConfigError, match="more than 20,000 values"):
        read("a: [" + "1," * 30_000 + "]", source="f")  # type: ignore[operator]


_READ = """
import sys
from contextlib import suppress
from tonnage.documents.device_plugin.config import parse_device_plugin_config
from tonnage.model.errors import ConfigError
with suppress(ConfigError):
    parse_device_plugin_config(sys.stdin.read(), source="f")
"""


@pytest.fixture(scope="module")
def usual() -> int:
    """The peak of reading a small configuration."""
    return peak_mib(_READ, text="version: v1")[0]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(of_aliases(3000), id="aliases of a long text"),
        pytest.param(laughs("[%s]"), id="aliases of aliases"),
        pytest.param(laughs("{<<: [%s]}"), id="merges of merges"),
        pytest.param("a: [" + "1," * 120_000 + "]", id="very many values"),
    ],
)
def test_the_agent_s_memory_hardly_grows_over_a_hostile_configuration(text: str, usual: int) -> None:
    """A few MiB, where three thousand aliases took 300."""
    assert peak_mib(_READ, text=text)[0] < usual + 20
