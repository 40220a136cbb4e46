"""Words of a command are read as the program reads them, and what changes the cluster is known by them."""

from __future__ import annotations

import pytest

from tonnage.documents.lab.command import parse_command
from tonnage.documents.lab.options import Argument, Option, OptionKind, read_words
from tonnage.documents.lab.review import review
from tonnage.documents.yaml.source import DocumentFieldError


@pytest.mark.parametrize(
    ("words", "pflag", "found"),
    [
        (["-o=x"], True, [Option("-o", OptionKind.TEXT, "x")]),
        (["-o=x"], False, [Option("-o", OptionKind.TEXT, "=x")]),
        (["-o="], True, [Option("-o", OptionKind.TEXT, "=")]),
        (["-ox"], False, [Option("-o", OptionKind.TEXT, "x")]),
        (["-ab"], True, [Option("-a", OptionKind.SWITCH), Option("-b", OptionKind.SWITCH)]),
        (["-a=false", "x"], True, [Option("-a", OptionKind.SWITCH, "false"), Argument("x")]),
        (["--out", "x", "-"], True, [Option("--out", OptionKind.TEXT, "x"), Argument("-")]),
        (["--out=", "x"], True, [Option("--out", OptionKind.TEXT, ""), Argument("x")]),
        (["--", "-o", "x"], True, [Argument("-o", True), Argument("x", True)]),
    ],
)
def test_words_are_read_as_the_program_reads_them(
    words: list[str], pflag: bool, found: list[Option | Argument]
) -> None:
    options = {
        "-o": OptionKind.TEXT,
        "--out": OptionKind.TEXT,
        "-a": OptionKind.SWITCH,
        "-b": OptionKind.SWITCH,
    }
    assert list(read_words(words, options, pflag=pflag)) == found


@pytest.mark.parametrize("words", [["-ao"], ["-aox"], ["-o", "-x"], ["--out", "--x"], ["-o"], ["--ou", "x"]])
def test_words_that_can_be_read_in_two_ways_are_refused(words: list[str]) -> None:
    options = {"-o": OptionKind.TEXT, "--out": OptionKind.TEXT, "-a": OptionKind.SWITCH}
    with pytest.raises(DocumentFieldError):
        list(read_words(words, options, pflag=True))


@pytest.mark.parametrize(
    ("command", "changes"),
    [
        ("kubectl apply -f a.yaml", True),
        ("kubectl apply -f a.yaml --dry-run=server", False),
        ("kubectl apply -f a.yaml --dry-run=server --dry-run=none", True),
        ("kubectl apply -f a.yaml --dry-run", True),
        ("kubectl exec x -- ls", True),
        ("kubectl get pods", False),
        ("kubectl rollout status deployment/x", False),
        ("helm template chart", False),
        ("helm uninstall x", True),
        ("tonnage lint a.yaml", False),
    ],
)
def test_whether_a_command_changes_the_cluster(command: str, changes: bool) -> None:
    assert review(parse_command(command)).changes is changes
