"""Lab documents: everything that is wrong is reported with its place."""

from __future__ import annotations

import pytest

from tonnage.documents.lab.command import parse_command
from tonnage.documents.lab.review import manifest_files
from tonnage.documents.lab.steps import Lab, json_path, parse_lab
from tonnage.model.errors import ConfigError

GOOD = """\
name: example
title: An example
scenario: inference
covers: [SHR-2]
steps:
  - title: Find a node
    run: NODE=$(kubectl get nodes -o name)
  - run: kubectl label node $NODE a=b
    expect: {within: 10, contains: [labelled], json: {"items[0].kind": Node}, distinctLines: 1}
  - run: kubectl apply -f pod.yaml
    expect: {status: nonzero, matches: ["^Error"], lacks: [created]}
cleanup:
  - run: kubectl delete -f pod.yaml --ignore-not-found
"""


def lab(text: str = GOOD) -> Lab:
    return parse_lab(text, source="lab.yaml", files={"pod.yaml"})


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        lab(text)
    return [f"{problem.where}: {problem.what} | {problem.remedy}" for problem in caught.value.problems]


def test_a_good_lab_is_read() -> None:
    read = lab()
    assert read.covers == ("SHR-2",)
    assert [step.command.assigns for step in read.steps] == ["NODE", "", ""]
    assert read.steps[1].expect.values == {"items[0].kind": "Node"}
    assert read.steps[0].expect.status == 0


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param(
            GOOD.replace("explain", "x").replace("title: Find", "tite: Find"),
            "lab.yaml:6:5 steps[0].tite: unknown field tite | use title if you meant that",
            id="a misspelt key names the nearest",
        ),
        pytest.param(GOOD + "name: other\n", "lab.yaml:14:1 name: duplicate key", id="a key given twice"),
        pytest.param(GOOD.replace("steps:", "steps: ["), "lab.yaml:", id="broken YAML"),
        pytest.param(
            GOOD.replace("apply -f pod.yaml", "apply -f pods.yaml"),
            "lab.yaml:10:5 steps[2].run: the lab's folder has no file pods.yaml "
            "| use pod.yaml if you meant that",
            id="a missing file names the nearest",
        ),
        pytest.param(
            GOOD.replace("-f pod.yaml --ig", "-f ../../secret --ig"),
            "has no file ../../secret",
            id="a file elsewhere",
        ),
        pytest.param(GOOD.replace("apply -f pod.yaml", "apply -f -"), "no file -", id="standard input"),
        pytest.param(
            GOOD.replace("$NODE", "$NODES"), "no earlier step assigns NODES", id="an unknown variable"
        ),
        pytest.param(
            GOOD.replace("[labelled]", "['${NODES}']"),
            "lab.yaml:9:5 steps[1].expect: no earlier step assigns NODES",
            id="an unknown variable in an expectation",
        ),
        pytest.param(
            GOOD.replace("kubectl label node $NODE a=b", "kubectl get pods | sh"),
            "steps[1].run: a pipe (|) is not run by a lab",
            id="a pipe",
        ),
        pytest.param(GOOD.replace('"^Error"', '"(["'), "not a regular expression", id="a broken expression"),
        pytest.param(GOOD.replace("items[0]", "items[x]"), "not a path into JSON", id="a broken path"),
        pytest.param(GOOD.replace("within: 10", "within: 9999"), "within", id="an endless wait"),
        pytest.param(GOOD.replace("within: 10", "within: .inf"), "within", id="a wait without end"),
        pytest.param(GOOD.replace("SHR-2", "shr2"), "covers", id="no case id"),
        pytest.param(GOOD.replace("name: example", "name: ../x"), "name", id="a name with a path"),
        pytest.param(GOOD[: GOOD.index("steps")] + "steps: []\n", "the lab has no steps", id="no steps"),
        pytest.param("", "lab.yaml", id="an empty file"),
        pytest.param("[1]", "lab.yaml", id="a list"),
    ],
)
def test_a_bad_lab_is_refused_with_its_place(text: str, found: str) -> None:
    assert any(found in problem for problem in problems(text)), problems(text)


def test_all_problems_are_reported_at_once() -> None:
    text = GOOD.replace("apply -f pod.yaml", "apply -f a.yaml").replace("$NODE", "$NOD")
    assert len(problems(text)) == 2


@pytest.mark.parametrize(
    ("command", "files"),
    [
        (
            "kubectl apply -f a.yaml -f=b.yaml -fc.yaml --filename d.yaml",
            ["a.yaml", "b.yaml", "c.yaml", "d.yaml"],
        ),
        ("kubectl logs -f pod", []),
        ("kubectl exec pod -- cat -f x", []),
        ("tonnage explain -f e.yaml", ["e.yaml"]),
        ("tonnage mig plan --product A100-80 m.yaml --config a", ["m.yaml"]),
        ("kubectl patch cm x --patch-file=a.yaml --patch-file b.yaml", ["a.yaml", "b.yaml"]),
    ],
)
def test_the_files_that_a_command_reads(command: str, files: list[str]) -> None:
    assert list(manifest_files(parse_command(command))) == files


@pytest.mark.parametrize("text", ["", "a..b", "[x]", "a b", 'a["b'])
def test_a_broken_json_path_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="path into JSON"):
        json_path(text)
