"""`tonnage lint` as a person meets it: files, folders, streams, exit statuses, repairs, nonsense."""

from __future__ import annotations

import io
import json
import stat
from pathlib import Path

import pytest
import yaml

from tonnage.cli.main import run

ROOT = Path(__file__).resolve().parents[3]
GOOD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers: [{name: c, image: x}]\n"
BAD = GOOD.replace("image: x", "image: x, resources: {limits: {nvidia.com/gpu: 0.5}}")
CERTAIN = GOOD.replace("spec:", "spec:\n  nodeSelector: {nvidia.com/gpu.present: true} # ours")
NODE_POOL = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: gpu}\nspec: {template: 5}\n"
RAY = (
    "apiVersion: ray.io/v1\nkind: RayCluster\nmetadata: {name: r}\nspec: {headGroupSpec: {template: {spec: "
    "{containers: [{name: c, image: x, resources: {limits: {nvidia.com/gpu: 0.5}}}]}}}}\n"
)
KNOWN = {
    "admission/half.yaml:14": "resource-not-integer",
    "admission/request-only.yaml:14": "limit-missing",
    "admission/unequal.yaml:14": "request-limit-unequal",
    "mig-catalogue/impossible.yaml:5": "mig-layout-impossible",
    "mig-catalogue/impossible.yaml:7": "mig-layout-impossible",
    "mig-catalogue/impossible.yaml:9": "mig-profile-unknown",
    "policy-refused/misspelt.yaml:16": "cluster-policy-key-unknown",
    "policy-refused/misspelt.yaml:18": "cluster-policy-key-unknown",
    "policy-refused/misspelt.yaml:20": "cluster-policy-value-invalid",
    "mps/both.yaml:9": "sharing-without-rename",
    "mps/both.yaml:11": "gpu-config-invalid",
    "mps/mps-49.yaml:11": "gpu-config-invalid",
    "sharing-by-tier/inference-garbage.yaml:5": "gpu-config-invalid",
    "dra-sharing/refused.yaml:16": "claim-config-invalid",
    "sharing-by-tier/tiers-as-written.yaml:8": "gpu-config-invalid",
    "time-slicing/timeslice-10.yaml:9": "sharing-without-rename",
    "time-slicing/timeslice-5.yaml:9": "sharing-without-rename",
    "time-slicing-by-policy/time-slicing-config.yaml:14": "sharing-without-rename",
}
"""What labs get wrong on purpose."""


def linted(*arguments: str) -> int:
    return run(["lint", *arguments], "tonnage")


def test_labs_and_deployments_that_ship_have_nothing_wrong_but_what_labs_show(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    assert linted("labs", "-R", "-o", "json") == 1
    answer = json.loads(capsys.readouterr().out)
    found = {
        f"{one['file'].removeprefix('labs/')}:{one['line']}": one["code"]
        for one in answer["findings"]
        if one["severity"] != "note"
    }
    told = {place: code for place, code in found.items() if "-as-written" not in place}
    assert told == {place: code for place, code in KNOWN.items() if "-as-written" not in place}
    assert found.items() >= KNOWN.items()
    assert not answer["unreadable"]
    assert linted("deploy", "docs", "-R", "-o", "json") == 0
    shown = capsys.readouterr()
    assert not json.loads(shown.out)["unreadable"]
    assert "not read: the templates of the chart deploy/helm/tonnage" in shown.err


@pytest.mark.parametrize(
    ("text", "status", "last"),
    [
        pytest.param(GOOD, 0, "nothing wrong in 1 object in 1 file", id="good"),
        pytest.param(BAD, 1, "1 error in 1 object in 1 file", id="bad"),
        pytest.param(CERTAIN, 1, "1 error in 1 object in 1 file; 1 can be repaired: --fix", id="repairable"),
        pytest.param("", 2, "nothing judged in 0 objects in 1 file", id="empty"),
        pytest.param("42", 2, "nothing judged in 1 object in 1 file", id="a number"),
        pytest.param("- a: b\n- c", 2, "nothing judged in 1 object in 1 file", id="a list"),
        pytest.param(
            "driver: {enabled: true}\n", 2, "nothing judged in 1 object in 1 file", id="no object at all"
        ),
        pytest.param(NODE_POOL, 2, "nothing judged in 1 object in 1 file", id="a kind that is not known"),
        pytest.param(
            f"{GOOD}---\n{NODE_POOL}---\n7",
            0,
            "nothing wrong in 3 objects in 1 file; 2 not judged",
            id="known and unknown",
        ),
        pytest.param(
            f"{RAY}---\n{NODE_POOL}",
            1,
            "1 error in 2 objects in 1 file; 1 judged in part (-v); 1 not judged",
            id="pods in a kind that is not known",
        ),
        pytest.param(
            NODE_POOL.replace("name: gpu", "name: GPU"),
            1,
            "1 error in 1 object in 1 file; 1 not judged",
            id="the name of what is not known",
        ),
        pytest.param(
            GOOD.replace("apiVersion: v1\n", ""),
            1,
            "1 error in 1 object in 1 file; 1 not judged",
            id="no version",
        ),
        pytest.param(
            GOOD.replace("apiVersion: v1", "apiVersion: v2"),
            2,
            "nothing judged in 1 object in 1 file",
            id="a version that nobody serves",
        ),
        pytest.param(
            "a: [",
            2,
            "1 problem in unreadable parts; nothing else wrong in 0 objects in 1 file",
            id="unreadable",
        ),
    ],
)
def test_stdin_and_exit_status(
    text: str, status: int, last: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert linted("-") == status
    assert capsys.readouterr().out.rstrip().endswith(last)


def test_folders_patterns_and_files_are_read_once_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in" / "deep").mkdir(parents=True)
    (tmp_path / "in" / "a.yaml").write_text(BAD)
    (tmp_path / "in" / "b.json").write_text(json.dumps(yaml.safe_load(BAD)))
    (tmp_path / "in" / "c.txt").write_text("a: [")
    (tmp_path / "in" / "deep" / "d.yml").write_text(BAD)
    files = []
    for names in (
        ["in"],
        ["in", "-R"],
        ["in", "--no-recursive"],
        ["in/*.yaml", "in/a.yaml"],
        ["in/**/*.yml"],
    ):
        arguments = [str(tmp_path / name) if not name.startswith("-") else name for name in names]
        assert linted(*arguments, "-o", "json") == 1
        answer = json.loads(capsys.readouterr().out)
        files.append([Path(one["file"]).name for one in answer["findings"]])
    whole = ["a.yaml", "b.json", "d.yml"]
    assert files == [whole, whole, whole[:2], ["a.yaml"], ["d.yml"]]


def test_what_is_hidden_in_a_folder_is_not_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / ".github").mkdir()
    for name in ("a.yaml", ".hidden.yaml", ".github/workflow.yaml"):
        (tmp_path / name).write_text(BAD)
    assert linted(str(tmp_path), "-o", "json") == 1
    assert json.loads(capsys.readouterr().out)["summary"]["files"] == 1


def test_what_is_not_judged_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "chart-values.yaml").write_text("replicaCount: 1\n")
    (tmp_path / "objects.yaml").write_text(f"{GOOD}---\n{RAY.replace('0.5', '1')}---\n{NODE_POOL}")
    assert linted(str(tmp_path), "-o", "json") == 0
    answer = json.loads(capsys.readouterr().out)
    told = [
        (Path(part["file"]).name, part["line"], part["subject"], part["partly"])
        for part in answer["notJudged"]
    ]
    assert told == [
        ("chart-values.yaml", 1, "", False),
        ("objects.yaml", 7, "RayCluster r", True),
        ("objects.yaml", 12, "NodePool gpu", False),
    ]
    assert (answer["summary"]["judged"], answer["summary"]["notJudged"]) == (2, 2)
    assert "helm template" in answer["notJudged"][0]["remedy"]
    assert linted(str(tmp_path)) == 0
    shown = capsys.readouterr().out
    assert (
        "objects.yaml:12:1: not judged: NodePool gpu: lint does not know NodePool of karpenter.sh/v1" in shown
    )
    assert "RayCluster" not in shown
    assert linted(str(tmp_path), "-v") == 0
    assert "judged in part: RayCluster r" in capsys.readouterr().out
    assert linted(str(tmp_path), "-o", "sarif") == 0
    [invocation] = json.loads(capsys.readouterr().out)["runs"][0]["invocations"]
    notes = invocation["toolExecutionNotifications"]
    texts = [(note["level"], note["message"]["text"].partition(":")[0]) for note in notes]
    assert texts == [("note", "not judged"), ("note", "judged in part"), ("note", "not judged")]


def test_no_regular_expression_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "A_", "labels": {"a b": "x y"}}}
    limits = {"nvidia.com/g pu": 1}
    pod["spec"] = {"containers": [{"name": "C_", "image": "x", "resources": {"limits": limits}}]}
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(pod))
    assert linted(str(tmp_path)) == 1
    shown = capsys.readouterr().out
    assert "must consist of lower case alphanumeric characters, '-' or '.'" in shown
    assert "(e.g. 'MyValue', or 'my_value', or '12345')" in shown
    assert "regex" not in shown
    assert "[a-z0-9]" not in shown


def test_the_answer_of_programs_has_every_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.yaml").write_text(CERTAIN)
    assert linted(str(tmp_path / "a.yaml"), "-o", "yaml", "--diff") == 1
    answer = yaml.safe_load(capsys.readouterr().out)
    (finding,) = answer["findings"]
    assert finding == {
        "file": str(tmp_path / "a.yaml"), "line": 5, "column": 42, "subject": "Pod p",
        "path": 'spec.nodeSelector["nvidia.com/gpu.present"]', "code": "value-of-wrong-type",
        "layer": "admission", "severity": "error", "fixable": True, "remedy": 'write "true"',
        "message": "a string is expected, but true without quotes is not one",
        "why": "the API server refuses the object", "source": "API server, strict decoding",
    }  # fmt: skip
    assert answer["summary"] == {
        "files": 1, "objects": 1, "judged": 1, "judgedPartly": 0, "notJudged": 0,
        "errors": 1, "warnings": 0, "notes": 0, "fixable": 1, "repairedFiles": 0,
    }  # fmt: skip
    assert '+  nodeSelector: {nvidia.com/gpu.present: "true"} # ours' in answer["changes"][0]["diff"]
    assert (tmp_path / "a.yaml").read_text() == CERTAIN


def test_a_repair_keeps_mode_and_link_and_is_made_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target, link = tmp_path / "target.yaml", tmp_path / "link.yaml"
    target.write_text(CERTAIN)
    target.chmod(0o640)
    link.symlink_to(target)
    assert linted(str(link), "--fix") == 0
    assert "1 file repaired" in capsys.readouterr().out
    assert target.read_text() == CERTAIN.replace(": true", ': "true"')
    assert link.is_symlink()
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.yaml", "target.yaml"]
    before = target.stat().st_ino
    assert linted(str(link), "--fix") == 0
    assert target.stat().st_ino == before


def test_a_file_that_changes_meanwhile_is_not_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(CERTAIN)
    from tonnage.diagnose.lint import repair

    real = repair.repaired_texts

    def slow(*arguments: object) -> object:
        path.write_text(GOOD)
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(repair, "repaired_texts", slow)
    assert linted(str(path), "--fix") == 2
    assert "it changed while lint read it" in capsys.readouterr().err
    assert path.read_text() == GOOD


def test_stdin_is_not_repaired_in_place(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(CERTAIN.encode())))
    assert linted("-", "--fix") == 2
    assert "--dry-run shows the diff" in capsys.readouterr().err


BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join([f'*{chr(97 + n)}'] * 10)}]\n" for n in range(9)
)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        pytest.param(BOMB.encode(), "more than 200,000 values", id="aliases of aliases"),
        pytest.param(b"a: &a [*a]\n", "a part of itself", id="a cycle"),
        pytest.param(b"\x00\x01\xfe" * 100, "the file is not UTF-8", id="binary"),
        pytest.param(GOOD.encode("utf-16"), "the file is not UTF-8", id="another encoding"),
        pytest.param(b"a: \x07\n", "the text cannot be read", id="a control character"),
        pytest.param(GOOD[:-5].encode(), "the text is not valid YAML", id="cut in the middle"),
        pytest.param(b"a: 1\na: 2\nb: 1\nb: 2\n", "duplicate key", id="keys twice"),
        pytest.param(b"a: !!python/object:os.system x\n", "is not allowed", id="a tag"),
        pytest.param(b"[" * 100_000, "nested deeper", id="deep"),
        pytest.param(b"x: " + b"y" * (5 << 20), "file too large", id="large"),
    ],
)
def test_nonsense_is_told_at_once_beside_what_can_be_read(
    content: bytes, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.yaml").write_bytes(content)
    (tmp_path / "b.yaml").write_text(BAD)
    (tmp_path / "c.yaml").write_text("x: [")
    assert linted(str(tmp_path), str(tmp_path / "absent.yaml")) == 2
    shown = capsys.readouterr()
    assert told in shown.err
    assert "c.yaml:" in shown.err
    assert "absent.yaml" in shown.err
    assert "resource-not-integer" in shown.out
    assert "Traceback" not in shown.err


def test_a_file_of_a_hundred_megabytes_is_not_read_to_its_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "large.yaml"
    with path.open("wb") as file:
        file.truncate(100 << 20)
    assert linted(str(path)) == 2
    assert "larger than 4 MiB" in capsys.readouterr().err


def test_a_folder_without_anything_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.yaml").write_text(GOOD)
    assert linted(str(tmp_path), "--no-recursive") == 2
    assert "--recursive looks into the folders in it" in capsys.readouterr().err


def test_names_do_not_steer_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.yaml").write_text('{apiVersion: v1, kind: Pod, spec: {"\\e[2Jx": 1, containers: []}}')
    assert linted(str(tmp_path / "a.yaml")) == 1
    assert "\x1b" not in capsys.readouterr().out


def test_a_thousand_findings_are_enough(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.yaml").write_text("---\n".join([BAD] * 1100))
    assert linted(str(tmp_path / "a.yaml"), "-o", "json") == 1
    assert len(json.loads(capsys.readouterr().out)["findings"]) == 1000


def test_a_template_is_told_in_one_word(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.yaml").write_text("a: {{ .Values.a }}\nb: {{ .Values.b }}\n")
    assert linted(str(tmp_path / "t.yaml")) == 2
    shown = capsys.readouterr().err
    assert shown.count("error:") == 1
    assert "helm template" in shown
