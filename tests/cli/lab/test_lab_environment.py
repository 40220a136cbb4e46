"""What a lab's commands run in: one cluster, no plugin, no settings of the person's own."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from scripts.find_helm import MAJORS, Major, helm_binary
from tonnage.cli.lab.environment import Surroundings, surroundings
from tonnage.cli.locations.kubectl import kubectl_binary
from tonnage.cli.locations.labs_and_scenarios import load_lab
from tonnage.documents.lab.steps import Lab, parse_lab
from tonnage.model.errors import ConfigError

LAB = "name: x\ntitle: X\nscenario: inference\nsteps: [{run: kubectl get pods}]\n"
EXEC = {"apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never"}


def lab(text: str = LAB) -> Lab:
    return parse_lab(text, source="lab.yaml", files=set())


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A person's variables, with plugins in PATH that leave a trace."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("kubectl-foo", "kubectl-create-foo", "credentials", "vi", "diff", "helm-foo"):
        program = programs / name
        program.write_text(f'#!/bin/sh\necho "$HOME" > {tmp_path}/ran-{name}\necho {{}}\n')
        program.chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path / "home"),
        "KUBECONFIG": str(tmp_path / "production"),
        "KUBE_EDITOR": "vi",
        "KUBECTL_EXTERNAL_DIFF": "diff",
        "HELM_PLUGINS": str(programs),
        "TONNAGE_KUBECTL": str(kubectl_binary("1.37")),
    }


def ran(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("ran-*"))


def kubectl(inside: Surroundings, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*inside.programs["kubectl"], *words],
        env=inside.environment,
        cwd=inside.folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def config(folder: Path, user: dict[str, Any], server: str = "https://127.0.0.1:1") -> Path:
    """A kubeconfig with two contexts; the other one is not for the lab."""
    path = folder / "kubeconfig"
    document = {
        "current-context": "mine",
        "contexts": [
            {"name": "mine", "context": {"cluster": "mine", "user": "mine", "namespace": "ml"}},
            {"name": "other", "context": {"cluster": "other", "user": "other"}},
        ],
        "clusters": [
            {"name": "mine", "cluster": {"server": server}},
            {"name": "other", "cluster": {"server": "https://192.0.2.1"}},
        ],
        "users": [{"name": "mine", "user": user}, {"name": "other", "user": {"token": "secret"}}],
    }
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize(
    "words",
    [
        ("foo",),
        ("create", "foo"),
        ("diff", "-f", "pod.yaml"),
        ("create", "--edit", "-f", "pod.yaml", "--dry-run=client", "--validate=false"),
    ],
    ids=" ".join,
)
def test_nothing_of_path_runs_even_where_the_list_had_a_hole(
    tmp_path: Path, environment: dict[str, str], words: tuple[str, ...]
) -> None:
    pod = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
    (tmp_path / "pod.yaml").write_text(json.dumps(pod))
    with surroundings(lab(), tmp_path, config(tmp_path, {}), environment, own=True) as inside:
        assert kubectl(inside, *words).returncode != 0
    assert ran(tmp_path) == []


def test_the_test_above_can_fail(tmp_path: Path, environment: dict[str, str]) -> None:
    subprocess.run(
        [environment["TONNAGE_KUBECTL"], "foo"], env=environment, check=True, capture_output=True, timeout=120
    )
    assert ran(tmp_path) == ["ran-kubectl-foo"]


@pytest.mark.parametrize(
    "command",
    [
        "kubectl foo",
        "kubectl create foo",
        "kubectl config set-credentials twin --exec-command=credentials --exec-api-version=v1",
        "kubectl get pods --user=x",
        "kubectl edit pod x",
        "helm foo",
    ],
)
def test_a_lab_that_would_run_a_program_ends_before_its_first_step(
    tmp_path: Path, environment: dict[str, str], tonnage: Path, command: str
) -> None:
    folder = tmp_path / "lab"
    folder.mkdir()
    (folder / "lab.yaml").write_text(LAB.replace("]", f", {{run: {command}}}]"))
    ended = subprocess.run(
        [tonnage, "lab", "run", folder, "--kubeconfig", config(tmp_path, {})],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ended.returncode == 2
    assert "lab.yaml:4:35 steps[1].run" in ended.stderr
    assert ended.stdout == ""
    assert ran(tmp_path) == []


def test_a_credential_program_of_the_kubeconfig_finds_what_it_knows(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    path = config(
        tmp_path, {"exec": {**EXEC, "command": "credentials", "env": [{"name": "A", "value": "b"}]}}
    )
    with surroundings(lab(), tmp_path, path, environment, own=False) as inside:
        assert inside.environment["HOME"] != environment["HOME"]
        kubectl(inside, "get", "pods")
    assert (tmp_path / "ran-credentials").read_text().strip() == environment["HOME"]


def test_the_cluster_is_one_context_and_no_other(tmp_path: Path, environment: dict[str, str]) -> None:
    path = config(tmp_path, {"client-key": "key.pem"})
    with surroundings(lab(), tmp_path, path, environment, own=False) as inside:
        own = Path(inside.environment["KUBECONFIG"])
        assert own.stat().st_mode & 0o777 == 0o600
        document = json.loads(own.read_text())
    assert not own.exists()
    assert [entry["name"] for entry in document["contexts"]] == ["mine"]
    assert document["contexts"][0]["context"]["namespace"] == "ml"
    assert document["users"][0]["user"] == {"client-key": str(tmp_path / "key.pem")}
    assert "192.0.2.1" not in json.dumps(document)


def test_another_context_is_the_only_one(tmp_path: Path, environment: dict[str, str]) -> None:
    path = config(tmp_path, {})
    with surroundings(lab(), tmp_path, path, environment, context="other", own=False) as inside:
        document = json.loads(Path(inside.environment["KUBECONFIG"]).read_text())
    assert [entry["name"] for entry in document["contexts"]] == ["other"]


def test_variables_that_steer_programs_are_not_passed_on(tmp_path: Path, environment: dict[str, str]) -> None:
    environment["PYTHONPATH"] = f"{os.pathsep}relative"
    with surroundings(lab(), tmp_path, config(tmp_path, {}), environment, own=True) as inside:
        variables = inside.environment
        assert list(Path(variables["PATH"]).iterdir()) == []
        assert list(Path(variables["HOME"]).iterdir()) == []
    assert {name for name in variables if name.startswith(("HELM", "KUBE", "TONNAGE"))} == {
        "KUBECONFIG",
        "KUBECTL_KUBERC",
    }
    assert variables["PYTHONPATH"] == str(Path("relative").absolute())


def test_a_lab_for_helm_without_helm_says_what_to_do(tmp_path: Path, environment: dict[str, str]) -> None:
    environment["PATH"] = str(tmp_path / "bin")
    text = LAB.replace("kubectl get pods", "helm list")
    inside = surroundings(lab(text), tmp_path, config(tmp_path, {}), environment, own=True)
    with pytest.raises(ConfigError, match="helm is not installed"), inside:
        pass


@pytest.mark.parametrize("major", MAJORS)
def test_helm_renders_a_chart_of_the_lab_and_finds_no_plugin(
    tmp_path: Path, environment: dict[str, str], major: Major
) -> None:
    plugin = tmp_path / "plugins" / "foo"
    plugin.mkdir(parents=True)
    trace = tmp_path / "ran-helm-foo"
    (plugin / "plugin.yaml").write_text(
        f"name: foo\nversion: 1.0.0\nusage: x\ndescription: x\ncommand: /usr/bin/touch {trace}\n"
    )
    environment["HELM_PLUGINS"] = str(plugin.parent)
    (tmp_path / "bin" / "helm").symlink_to(helm_binary(major))
    folder = folder_of(tmp_path, "helm template x chart --set a=b")
    (folder / "chart" / "Chart.yaml").write_text("apiVersion: v2\nname: chart\nversion: 1.0.0\n")
    (folder / "chart" / "templates" / "x.yaml").write_text("kind: ConfigMap\na: {{ .Values.a }}\n")
    found = load_lab(str(folder))
    with surroundings(found.lab, folder, config(tmp_path, {}), environment, own=True) as inside:
        (step,) = found.lab.steps
        helm = inside.programs["helm"]
        rendered = subprocess.run(
            inside.argv(step.command, {}),
            env=inside.environment,
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        subprocess.run([*helm, "foo"], env=inside.environment, capture_output=True, check=False, timeout=120)
        assert ran(tmp_path) == []
    assert "a: b" in rendered.stdout, rendered.stderr


def folder_of(tmp_path: Path, command: str) -> Path:
    folder = tmp_path / "lab"
    (folder / "chart" / "templates").mkdir(parents=True)
    (folder / "lab.yaml").write_text(LAB.replace("kubectl get pods", command))
    (folder / "chart" / "Chart.yaml").write_text("{}")
    (folder / "a.yaml").write_text("{}")
    return folder


@pytest.mark.parametrize(
    ("link", "to", "command"),
    [
        pytest.param("b.yaml", "/etc/hostname", "kubectl apply -f b.yaml", id="a link to a file elsewhere"),
        pytest.param("b", "/etc", "kubectl apply -f b/hostname", id="a link to a folder elsewhere"),
        pytest.param("b.yaml", "../outside", "kubectl apply -f b.yaml", id="a link to the folder above"),
        pytest.param("b.yaml", "b.yaml", "kubectl apply -f b.yaml", id="a link to itself"),
        pytest.param("chart/templates/x", "/etc/hostname", "helm install x chart", id="a link in a chart"),
        pytest.param("chart/templates/x", "/etc", "helm install x chart", id="a linked folder in a chart"),
    ],
)
def test_links_lead_nowhere_else(tmp_path: Path, link: str, to: str, command: str) -> None:
    folder = folder_of(tmp_path, command)
    (tmp_path / "outside").write_text("{}")
    (folder / link).symlink_to(to)
    with pytest.raises(ConfigError, match=r"no file|no chart"):
        load_lab(str(folder))


def test_links_within_the_folder_are_followed(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "kubectl apply -f b.yaml")
    (folder / "b.yaml").symlink_to("a.yaml")
    load_lab(str(folder))
    (folder / "lab.yaml").write_text(LAB.replace("kubectl get pods", "helm install x chart"))
    load_lab(str(folder))


def test_a_folder_of_very_many_files_is_no_lab(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "kubectl get pods")
    for number in range(500):
        (folder / f"{number}.yaml").touch()
    with pytest.raises(ConfigError, match="more than 500 files"):
        load_lab(str(folder))


@pytest.mark.parametrize(
    ("run", "arguments"),
    [
        pytest.param("kubectl get pods", ("--as=jane", "get", "pods"), id="kubectl"),
        pytest.param(
            "kubectl exec p -- ls -l", ("--as=jane", "exec", "p", "--", "ls", "-l"), id="a container"
        ),
        pytest.param("tonnage status", ("status", "--as=jane"), id="tonnage"),
        pytest.param("helm list", ("--kube-as-user=jane", "list"), id="helm"),
    ],
)
def test_a_step_acts_as_the_user_that_it_names(run: str, arguments: tuple[str, ...], tmp_path: Path) -> None:
    step = lab(f"name: x\ntitle: X\nscenario: inference\nsteps: [{{run: {run}, as: jane}}]\n").steps[0]
    inside = Surroundings(tmp_path, {name: (name,) for name in ("kubectl", "tonnage", "helm")}, {})
    assert inside.argv(step.command, {}, step.user)[1:] == arguments


@pytest.mark.parametrize(
    "user", ["system:admin", "system:serviceaccount:kube-system:x", "--as", "a b", "Jane"]
)
def test_a_step_acts_as_no_user_of_kubernetes_own(user: str) -> None:
    with pytest.raises(ConfigError, match="as"):
        lab(f"name: x\ntitle: X\nscenario: inference\nsteps: [{{run: kubectl get pods, as: '{user}'}}]\n")


@pytest.mark.parametrize("equals", [" ", "="], ids=["apart", "joined"])
def test_a_snapshot_of_the_lab_lies_in_the_private_folder(equals: str, tmp_path: Path) -> None:
    run = f"tonnage snapshot --file{equals}c.jsonl, tonnage status -n c.jsonl --snapshot{equals}c.jsonl"
    write, read = (
        step.command
        for step in lab(
            "name: x\ntitle: X\nscenario: inference\nsteps:\n"
            + "".join(f"  - run: {command}\n" for command in run.split(", "))
        ).steps
    )
    inside = Surroundings(tmp_path / "lab", {"tonnage": ("tonnage",)}, {"HOME": str(tmp_path)})
    file = str(tmp_path / "c.jsonl")
    words = (f"--file={file}",) if equals == "=" else ("--file", file)
    assert inside.argv(write, {})[1:] == ("snapshot", *words)
    assert inside.argv(read, {})[-1].endswith(file)
