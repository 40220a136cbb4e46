"""Commands of lab steps: read as a shell would, and never run by one."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.documents.lab.command import parse_command


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("kubectl get  pods -o wide", ["get", "pods", "-o", "wide"], id="blanks separate words"),
        pytest.param(
            "kubectl get node a -o jsonpath='{.status.allocatable.nvidia\\.com/gpu}'",
            ["get", "node", "a", "-o", "jsonpath={.status.allocatable.nvidia\\.com/gpu}"],
            id="single quotes keep everything",
        ),
        pytest.param('kubectl x "a \\"b\\" $V c"', ["x", 'a "b" value c'], id="double quotes know variables"),
        pytest.param("kubectl x '$V'", ["x", "$V"], id="a quoted dollar is text"),
        pytest.param("kubectl x pre-${V}-post", ["x", "pre-value-post"], id="a variable inside a word"),
        pytest.param("kubectl get \\\n  pods", ["get", "pods"], id="a backslash continues the line"),
        pytest.param("kubectl x a\\;b ''", ["x", "a;b", ""], id="an escaped character and an empty word"),
        pytest.param("kubectl label node n key-", ["label", "node", "n", "key-"], id="a label removal"),
    ],
)
def test_words_are_those_of_a_shell(text: str, words: list[str]) -> None:
    assert list(parse_command(text).arguments({"V": "value"})) == words


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("kubectl get pods | grep x", "a pipe", id="pipe"),
        pytest.param("kubectl get pods; rm -rf /", "a list of commands", id="list"),
        pytest.param("kubectl get pods && rm x", "a background command", id="and"),
        pytest.param("kubectl get pods > /etc/passwd", "a redirection", id="output"),
        pytest.param("kubectl get pods < x", "a redirection", id="input"),
        pytest.param("kubectl get `id`", "a command substitution", id="backtick"),
        pytest.param('kubectl get "`id`"', "a command substitution", id="backtick in quotes"),
        pytest.param("kubectl get $(id)", "begins a variable", id="substitution"),
        pytest.param('kubectl get "$(id)"', "begins a variable", id="substitution in quotes"),
        pytest.param("kubectl get *", "a glob", id="glob"),
        pytest.param("kubectl get {a,b}", "a brace", id="braces"),
        pytest.param("kubectl get pods\nrm -rf /", "one line", id="second line"),
        pytest.param("kubectl get 'pods", "not closed", id="open quote"),
        pytest.param('kubectl get "pods', "not closed", id="open double quote"),
        pytest.param("kubectl get pods \\", "backslash", id="trailing backslash"),
        pytest.param("rm -rf /", "begins with kubectl, helm or tonnage", id="another program"),
        pytest.param("/tmp/kubectl get", "begins with kubectl, helm or tonnage", id="a path"),
        pytest.param("PATH=/tmp kubectl get", "begins with kubectl, helm or tonnage", id="environment"),
        pytest.param("X=$(rm -rf /)", "begins with kubectl, helm or tonnage", id="another program assigned"),
        pytest.param("X=$(kubectl get $(id))", "begins a variable", id="nested substitution"),
        pytest.param("$X get", "begins with kubectl, helm or tonnage", id="program out of a variable"),
        pytest.param("", "begins with kubectl, helm or tonnage", id="nothing"),
        pytest.param("kubectl get 'a\x1b[2J'", "only characters that print", id="an escape sequence"),
        pytest.param("kubectl get 'a\0'", "only characters that print", id="a NUL"),
        pytest.param("kubectl get '\u202ea'", "only characters that print", id="right to left"),
        pytest.param("kubectl get '\ud800'", "only characters that print", id="half a character"),
        pytest.param("$X$Y get pods", "begins with", id="a program out of two variables"),
        pytest.param("$X''kubectl get", "begins with", id="a program behind a variable"),
        pytest.param("kubectl " + "x" * 5000, "at most", id="endless"),
    ],
)
def test_what_needs_a_shell_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse_command(text)


def test_an_assignment_names_its_variable() -> None:
    command = parse_command("GPU_NODE=$(kubectl get nodes -o name)")
    assert (command.assigns, command.arguments({})) == ("GPU_NODE", ("get", "nodes", "-o", "name"))


PRINTED = st.text(st.characters().filter(lambda c: c.isprintable() or c in "\n\t"), max_size=20)


@given(st.lists(PRINTED, max_size=6))
def test_what_is_quoted_for_a_shell_arrives_unchanged(words: list[str]) -> None:
    assert list(parse_command(shlex.join(["kubectl", *words])).arguments({})) == words


@given(st.text(max_size=40))
def test_a_value_never_becomes_more_than_one_word(value: str) -> None:
    assert parse_command('kubectl get $V "$V"').arguments({"V": value}) == ("get", value, value)
