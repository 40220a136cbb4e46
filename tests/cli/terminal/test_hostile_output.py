"""Nothing that somebody else wrote reaches a terminal raw: every command and format over hostile input."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml

from support.hostile import (
    FILE,
    MARK,
    NASTY,
    forged_lines,
    hostile_server,
    objects,
    refused,
    write_kubeconfig,
)
from tonnage.cli.main import run, tonnage

CASES: dict[str, list[str]] = {
    "up": ["--scenario {scenario}", "--scenario {nasty}", "--lab {nasty}", "--state {file} --port 0"],
    "down": ["--state {folder}/none", "--state {file}"],
    "lab list": [""],
    "lab show": ["{lab}", "{broken_lab}", "{nasty}"],
    "access": ["{nasty}", "explain --user {nasty}", "operator adopt --user {nasty}"],
    "lab run": ["{lab} --kubeconfig {kubeconfig}", "{broken_lab}", "{nasty}"],
    "status": [
        "--snapshot {cluster}",
        "--kubeconfig {kubeconfig}",
        "--snapshot {broken}",
        "--context {nasty}",
    ],
    "top": [
        "--kubeconfig {kubeconfig}",
        "--once --view pods --filter {nasty} --kubeconfig {kubeconfig}",
        "--node-address {nasty}",
        "--agents-namespace {nasty} --kubeconfig {kubeconfig}",
    ],
    "explain": [
        "pod train --snapshot {cluster}",
        "pod train{nasty} -n default{nasty} --snapshot {cluster}",
        "pod {nasty} --snapshot {cluster}",
        "deployment web --snapshot {cluster}",
        "pod train --kubeconfig {kubeconfig}",
        "-f {manifest} --snapshot {cluster}",
        "-f {broken} --snapshot {cluster}",
        "message {nasty}",
        "message {xid}",
    ],
    "lint": [
        "{manifest} -v",
        "{manifest} --fix --dry-run",
        "{broken}",
        "{manifest} --snapshot {cluster}",
        "{folder}/no",
    ],
    "claims": [
        "--snapshot {cluster}",
        "{nasty} --snapshot {cluster}",
        "--kubeconfig {kubeconfig}",
        "--snapshot {broken}",
    ],
    "migrate dra": [
        "{manifest} --snapshot {cluster}",
        "{manifest} --no-cluster --diff",
        "{manifest} --no-cluster -o patch",
        "{broken} --no-cluster",
        "{nasty} --no-cluster",
    ],
    "convert": ["{manifest}", "{manifest} --diff", "{broken}", "{nasty}"],
    "topo": [
        "--snapshot {cluster}",
        "a100-0 --snapshot {cluster}",
        "{nasty} --snapshot {cluster}",
        "--devices {nasty}",
    ],
    "snapshot": ["--kubeconfig {kubeconfig}", "--kubeconfig {kubeconfig} -o {folder}"],
    "simulate": [
        "--drain a100-0 --snapshot {cluster}",
        "-f {alternatives} --snapshot {cluster}",
        "--drain {nasty} --snapshot {cluster}",
    ],
    "simulate trace": ["{machines} {jobs}", "{folder}/none {jobs}", "{machines} {jobs} --policy {nasty}"],
    "doctor": [
        "--root {root} --snapshot {cluster} --devices none",
        "--root {folder}/none",
        "--devices {nasty}",
        "--root {root} --kubeconfig {kubeconfig} --devices none",
    ],
    "mig layouts": ["--product A30", "--product {nasty}"],
    "mig profiles": ["--product A30", "--product {nasty}"],
    "mig lint": ["{mig}", "{broken}"],
    "mig plan": [
        "--node a100-0 --layout all-1g.10gb --snapshot {cluster}",
        "--product A100-80 {mig}",
        "--node {nasty} --layout {nasty} --snapshot {cluster}",
    ],
    "hardware": ["a100-0 --state {folder}", "{nasty} --state {folder}"],
    "node": ["--labels {nasty}"],
    "operator status": ["--kubeconfig {broken}"],
    "operator rollback": ["--kubeconfig {broken}", "{nasty} --kubeconfig {broken}"],
    "operator adopt": ["--kubeconfig {broken}", "--node {nasty} --kubeconfig {broken}"],
    "operator release": ["--kubeconfig {broken}", "--node {nasty} --kubeconfig {broken}"],
    "operator bundle": [
        "--file {folder}/bundle.tar.gz --kubeconfig {kubeconfig}",
        "--file {folder}/bundle.tar --kubeconfig {kubeconfig} --operator-namespace {nasty}",
        "--file {folder}/none/bundle.tar.gz --kubeconfig {kubeconfig}",
    ],
    "operator plan": ["{broken}", "{mig}"],
    "controller": ["--kubeconfig {kubeconfig} --dry-run --once --metrics-address {nasty}"],
    "cdi char-links": ["--root {root} --dry-run"],
    "cdi generate": [
        "--devices scenario:{hardware}",
        "--devices scenario:{broken}",
        "--devices scenario:{hardware} --format json",
    ],
    "cdi validate": ["{cdi}", "{broken}"],
    "runtime apply": ["--root {root} --runtime containerd://1.7.24 --dry-run", "--root {folder}/none"],
    "runtime nri": [
        "--root {root} --runtime containerd://{nasty}",
        "--root {root} --runtime containerd://2.1.0",
    ],
    "runtime plan": ["--root {root} --runtime containerd://1.7.24", "--root {root} --runtime {nasty}"],
    "runtime undo": ["--root {root} --runtime containerd://1.7.24", "--root {folder}/none"],
    "metrics cluster": [
        "--once --snapshot {cluster}",
        "--once --kubeconfig {kubeconfig}",
        "--once --snapshot {broken}",
        "--address {nasty}",
    ],
    "metrics targets": ["--kubeconfig {kubeconfig}", "--address {nasty}"],
    "metrics scrape-config": ["--targets-url http://{nasty}", "--targets-url {nasty}", "-n {nasty}"],
    "metrics query": ["up --url {nasty}", "{nasty} --url http://127.0.0.1:1/{nasty}"],
    "metrics rules": ["--operator -n {nasty}"],
    "version": ["--kubeconfig {kubeconfig_of_version}", "--kubeconfig {broken}"],
    "completion": ["bash", "{nasty}"],
}
"""Command -> what is asked of it. Each is asked in each of its formats."""
OWN_WORDS = frozenset(
    (
        "mig layouts --product A30",
        "mig profiles --product A30",
        "explain message {nasty}",
        "status --context {nasty}",
        "completion bash",
        "convert {manifest}",
        "convert {manifest} --diff",
        "metrics targets --kubeconfig {kubeconfig}",
        "operator bundle --file {folder}/bundle.tar.gz --kubeconfig {kubeconfig}",
        "version --kubeconfig {broken}",
        "runtime undo --root {root} --runtime containerd://1.7.24",
        "runtime nri --root {root} --runtime containerd://2.1.0",
        "cdi char-links --root {root} --dry-run",
    )
)
"""What says nothing of what somebody else wrote."""


def leaves(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group) or command.invoke_without_command:
        yield " ".join(path), command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from leaves(below, (*path, name))


def formats(command: click.Command) -> list[str]:
    found = (
        p.type.choices for p in command.params if p.name == "output" and isinstance(p.type, click.Choice)
    )
    return [str(choice) for choice in next(found, ())] or [""]


QUESTIONS = [
    (f"{name} {words}".strip(), output)
    for name, command in leaves(tonnage)
    for words in CASES.get(name, ())
    for output in formats(command)
]


def test_every_command_is_asked() -> None:
    assert dict(leaves(tonnage)).keys() == CASES.keys()


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Hostile files, below a folder of a hostile name."""
    folder = tmp_path_factory.mktemp("o") / FILE
    folder.mkdir()
    found = {"folder": str(folder), "nasty": NASTY, "xid": f"NVRM: Xid (PCI:0000:3b:00): 79, {NASTY}"}

    def put(name: str, file: str, content: str) -> None:
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        found[name] = str(path)

    put("cluster", f"{FILE}.json", json.dumps({"kind": "List", "apiVersion": "v1", "items": objects()}))
    put("file", FILE, NASTY)
    put("broken", f"broken{FILE}.yaml", f'a: ["{MARK}\\n\\e[2J\\u202e": b\n')
    manifest = [each for each in objects() if each["kind"] in ("Pod", "Deployment")]
    put("manifest", f"manifest{FILE}.yaml", "---\n".join(map(yaml.safe_dump, manifest)))
    put("scenario", f"scenario{FILE}.yaml", yaml.safe_dump({"name": NASTY, "groups": [{"name": NASTY}]}))
    step = {"title": NASTY, "run": "kubectl get pods", "explain": NASTY, "expect": {"contains": [NASTY]}}
    lab = {"name": "a-lab", "title": NASTY, "description": NASTY, "covers": ["SCH-1"], "scenario": "pending"}
    put("lab", f"labs/{FILE}/lab.yaml", yaml.safe_dump({**lab, "steps": [step]}))
    put("broken_lab", f"broken{FILE}/lab.yaml", yaml.safe_dump({**lab, NASTY: NASTY, "steps": [{NASTY: 1}]}))
    put("alternatives", f"alternatives{FILE}.yaml", yaml.safe_dump({NASTY: [{"drain": NASTY}]}))
    put(
        "machines",
        f"machines{FILE}.csv",
        f"sn,cpu_milli,memory_mib,gpu,model\n{MARK}\x1b[2J\x9b,64000,262144,4,T4\u202e\n",
    )
    put(
        "jobs",
        f"jobs{FILE}.csv",
        f"name,cpu_milli,memory_mib,num_gpu,gpu_milli\n{MARK}\x1b\u202e,4000,1024,one,500\n",
    )
    configs = {f"all{NASTY}": [{"devices": "all", "mig-enabled": True, "mig-devices": {"1g.10gb": 9}}]}
    put("mig", f"mig{FILE}.yaml", yaml.safe_dump({"version": "v1", "mig-configs": configs}))
    put(
        "hardware",
        "run/0/hardware.yaml",
        yaml.safe_dump({"devices": [{"uuid": f"GPU-{NASTY}", "model": "A100-80"}]}),
    )
    put("hostname", "run/0/etc/hostname", "a100-0\n")
    put("os", "root/etc/hostname", NASTY)
    put(
        "config",
        "root/etc/containerd/config.toml",
        f"# {MARK} \u202e\n version = 2\n# \x9b2J\n".replace("\x9b", "\u200b"),
    )
    spec = {"cdiVersion": "0.6.0", "kind": f"nvidia.com/{NASTY}", "devices": [{"name": NASTY, NASTY: NASTY}]}
    put("spec", f"cdi/{FILE}.json", json.dumps(spec))
    found |= {"root": str(folder / "root"), "cdi": str(folder / "cdi")}
    put("kubectl", "bin/kubectl", f"#!/bin/sh\nprintf '%s' {shlex.quote(NASTY)} | tee /dev/stderr\n")
    Path(found["kubectl"]).chmod(0o755)
    with hostile_server("v1.35.0") as server, hostile_server(f"v1.35.0{NASTY}") as odd:
        put("kubeconfig", "kubeconfig", "")
        write_kubeconfig(folder / "kubeconfig", server)
        put("kubeconfig_of_version", "kubeconfig-of-version", "")
        write_kubeconfig(folder / "kubeconfig-of-version", odd)
        yield found


@pytest.fixture
def machine(places: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    folder = Path(places["folder"])
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(folder / "home"))
    monkeypatch.setenv("TONNAGE_STATE", str(folder / "state"))
    monkeypatch.setenv("TONNAGE_KUBECTL", places["kubectl"])
    monkeypatch.setattr("tonnage.cli.locations.labs_and_scenarios.labs_folder", lambda: folder / "labs")
    monkeypatch.setattr("tonnage.cli.locations.twin_nodes.runtime_folder", lambda *_: folder / "run")
    return places


@pytest.mark.sampled("questions whose answers are hostile", share="1/3")
@pytest.mark.sampled("questions over hostile input")
@pytest.mark.parametrize(("question", "output"), QUESTIONS)
def test_nothing_hostile_reaches_a_terminal(
    question: str, output: str, machine: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    words = [word.format_map(machine) for word in question.split()]
    status = run([*words, *(["-o", output] if output else [])], "tonnage")
    out, err = capsys.readouterr()
    assert status in (0, 1, 2, 3), err
    assert refused(out) == []
    assert refused(err) == []
    assert forged_lines(out + err) == []
    if question not in OWN_WORDS:
        assert MARK in out + err
    if out and output in ("json", "sarif"):
        json.loads(out)
    if out and output == "yaml":
        [*yaml.safe_load_all(out)]
