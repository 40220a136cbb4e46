"""A handler `nvidia` for a runtime: where it is written, after what it is modelled, and what is refused."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tonnage.decide.node.runtime.change import undo_plan
from tonnage.decide.node.runtime.handler import HostProgram, handler_plan, nvidia_program
from tonnage.model.node.runtime_change import ChangeState, ConfigFile, RuntimePlan, RuntimeSeen
from tonnage.model.node.runtime_config import RuntimeKind

MAIN = "/etc/containerd/config.toml"
PARTS = "/etc/containerd/conf.d"
CRIO = "/etc/crio/crio.conf"
CRIO_PART = "/etc/crio/crio.conf.d/99-tonnage.conf"
PROGRAM = "/usr/bin/nvidia-container-runtime"
V2, V3 = "io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime"
IMPORTS = f'imports = ["{PARTS}/*.toml"]\n'
KUBEADM = f"""\
version = 2
[plugins."{V2}".containerd]
  default_runtime_name = "crun"
  [plugins."{V2}".containerd.runtimes.crun]
    runtime_type = "io.containerd.runc.v2"
    [plugins."{V2}".containerd.runtimes.crun.options]
      BinaryName = "/usr/bin/crun"
      SystemdCgroup = true"""
MODERN = f"version = 3\n{IMPORTS}[plugins.'{V3}'.containerd.runtimes.runc.options]\nSystemdCgroup = true\n"
NVIDIAS = f"version = 2\n[plugins.\"{V2}\".containerd.runtimes.nvidia.options]\nBinaryName = '{PROGRAM}'\n"


def seen(kind: RuntimeKind, version: str, *files: tuple[str, str | None]) -> RuntimeSeen:
    return RuntimeSeen(
        kind, version, "the runtime itself", tuple(ConfigFile(*file) for file in files), "unit"
    )


def containerd(version: str, *files: tuple[str, str | None]) -> RuntimeSeen:
    return seen(RuntimeKind.CONTAINERD, version, *files)


def after(before: RuntimeSeen, plan: RuntimePlan) -> RuntimeSeen:
    texts = {file.path: file.text for file in before.files} | {edit.path: edit.after for edit in plan.edits}
    main = before.files[0].path
    kept = (ConfigFile(path, text) for path, text in texts.items() if text is not None or path == main)
    return replace(before, files=tuple(kept))


def handler(plan: RuntimePlan, plugin: str) -> Any:
    """As the edited file says it."""
    return tomllib.loads(plan.edits[0].after or "")["plugins"][plugin]["containerd"]["runtimes"]["nvidia"]


CHANGES = {
    "containerd 1.6 has it in its file, as the default one is": (
        containerd("1.6.20", (MAIN, KUBEADM)),
        MAIN,
        V2,
        {"BinaryName": PROGRAM, "SystemdCgroup": True},
    ),
    "containerd 1.7 without a file gets one": (
        containerd("1.7.24", (MAIN, None)),
        MAIN,
        V2,
        {"BinaryName": PROGRAM},
    ),
    "containerd 1.6 with a file of version 1": (
        containerd("1.6.20", (MAIN, "[plugins.cri]\n")),
        MAIN,
        "cri",
        {"BinaryName": PROGRAM},
    ),
    "containerd 2 gets a drop-in": (
        containerd("2.2.9", (MAIN, MODERN)),
        f"{PARTS}/99-tonnage.toml",
        V3,
        {"BinaryName": PROGRAM, "SystemdCgroup": True},
    ),
    "a drop-in that switched CDI on gets it, too": (
        containerd("2.2.9", (MAIN, MODERN), (f"{PARTS}/99-tonnage.toml", "version = 3\n")),
        f"{PARTS}/99-tonnage.toml",
        V3,
        {"BinaryName": PROGRAM, "SystemdCgroup": True},
    ),
}


@pytest.mark.parametrize(("before", "path", "plugin", "options"), CHANGES.values(), ids=CHANGES)
def test_where_containerds_handler_is_written_and_what_it_is(
    before: RuntimeSeen, path: str, plugin: str, options: dict[str, Any]
) -> None:
    plan = handler_plan(before, PROGRAM)
    assert [edit.path for edit in plan.edits] == [path], plan.refusals
    assert handler(plan, plugin) == {"runtime_type": "io.containerd.runc.v2", "options": options}
    changed = after(before, plan)
    assert handler_plan(changed, PROGRAM).standing is ChangeState.NOTHING
    assert after(changed, undo_plan(changed)).files == before.files


def test_crio_gets_a_file_of_its_own() -> None:
    before = seen(RuntimeKind.CRIO, "1.34.2", (CRIO, None))
    plan = handler_plan(before, PROGRAM)
    assert [edit.path for edit in plan.edits] == [CRIO_PART]
    assert tomllib.loads(plan.edits[0].after or "") == {
        "crio": {"runtime": {"runtimes": {"nvidia": {"runtime_path": PROGRAM, "runtime_type": "oci"}}}}
    }
    changed = after(before, plan)
    assert handler_plan(changed, PROGRAM).standing is ChangeState.NOTHING
    assert after(changed, undo_plan(changed)).files == before.files


REFUSED = {
    "a handler of somebody else": (
        containerd("1.7.24", (MAIN, NVIDIAS.replace("/bin/", "/lib/"))),
        "exists, and runs /usr/lib/",
    ),
    "a handler without a program": (
        containerd("1.7.24", (MAIN, f'version = 2\n[plugins."{V2}".containerd.runtimes.nvidia]\n')),
        "runs the default program",
    ),
    "CRI-O's handler of somebody else": (
        seen(RuntimeKind.CRIO, "1.34.2", (CRIO, '[crio.runtime.runtimes.nvidia]\nruntime_path = "/x"\n')),
        "exists, and runs /x",
    ),
    "CRI-O's broken file": (
        seen(RuntimeKind.CRIO, "1.34.2", (CRIO, "[crio\n")),
        "the file is not valid TOML",
    ),
    "k3s, which writes its file anew": (
        containerd("1.7.23-k3s2", (MAIN, f"# File generated by k3s. DO NOT EDIT.\n{KUBEADM}")),
        "k3s's containerd takes no settings here",
    ),
    "a file of version 1 and containerd 2": (containerd("2.1.5", (MAIN, "[plugins.cri]\n")), "has version 1"),
    "containerd without its part for Kubernetes": (
        containerd("1.7.24", (MAIN, 'disabled_plugins = ["cri"]\n')),
        "CRI plugin is switched off",
    ),
    "handlers written inline": (
        containerd("1.7.24", (MAIN, f'version = 2\n[plugins."{V2}".containerd]\nruntimes = {{}}\n')),
        "without rewriting it",
    ),
    "an unknown version": (containerd("", (MAIN, KUBEADM)), "does not know"),
}


@pytest.mark.parametrize(("before", "what"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(before: RuntimeSeen, what: str) -> None:
    plan = handler_plan(before, PROGRAM)
    assert plan.standing is ChangeState.REFUSED
    assert what in plan.refusals[0].message
    assert plan.edits == ()


ELSEWHERE = "/opt/nvidia/nvidia-container-runtime"
K3S = "/data/k3s/agent/etc/containerd"
K3S_MAIN = f"{K3S}/config.toml"
BASE = '{{ template "base" . }}\n'


def by_k3s(version: str, text: str | None, **templates: str) -> RuntimeSeen:
    before = containerd(version, (K3S_MAIN, text))
    made = (ConfigFile(f"{K3S}/{name.replace('_', '-')}.toml.tmpl", text) for name, text in templates.items())
    return replace(before, templates=tuple(made))


@pytest.mark.parametrize(
    ("version", "text", "name", "plugin"),
    [
        ("1.7.23-k3s2", f"# File generated by k3s. DO NOT EDIT.\n{KUBEADM}", "config.toml.tmpl", V2),
        ("1.7.23-k3s2", KUBEADM, "config.toml.tmpl", V2),
        ("2.0.5-k3s1", MODERN.replace(IMPORTS, ""), "config-v3.toml.tmpl", V3),
    ],
    ids=["containerd 1.7", "a file without k3s' first line", "containerd 2 without drop-ins"],
)
def test_k3s_gets_a_template_that_adds_to_its_own(version: str, text: str, name: str, plugin: str) -> None:
    """What is made of it is the main file afterwards, as k3s makes it when it starts."""
    before = by_k3s(version, text)
    (edit,) = handler_plan(before, ELSEWHERE).edits
    assert (edit.path, edit.before) == (f"{K3S}/{name}", None)
    assert edit.after is not None
    template = ConfigFile(edit.path, edit.after)
    waiting = replace(before, templates=(template,))
    (problem,) = handler_plan(waiting, ELSEWHERE).refusals
    assert (problem.message, problem.remedy) == (
        f"{K3S_MAIN} does not have what is in {edit.path} yet",
        "restart k3s",
    )
    made = replace(waiting, files=(ConfigFile(K3S_MAIN, edit.after.replace(BASE, f"{text}\n")),))
    assert handler_plan(made, ELSEWHERE).standing is ChangeState.NOTHING
    assert tomllib.loads(made.files[0].text or "")["plugins"][plugin]["containerd"]["runtimes"]["nvidia"]
    gone, restored = undo_plan(made).edits
    assert (gone.path, gone.after) == (edit.path, None)
    assert (restored.path, (restored.after or "").strip()) == (K3S_MAIN, text.strip())


@pytest.mark.parametrize(
    ("before", "what"),
    [
        (by_k3s("1.7.23", KUBEADM, config=BASE), f"k3s makes {K3S_MAIN} from {K3S}/config.toml.tmpl"),
        (by_k3s("2.0.5", KUBEADM, config_v3=BASE), f"from {K3S}/config-v3.toml.tmpl"),
        (by_k3s("2.0.5", None), f"{K3S_MAIN} does not exist"),
    ],
    ids=["of containerd 1.7", "of containerd 2", "before k3s has started"],
)
def test_a_template_of_somebodys_own_is_left_alone(before: RuntimeSeen, what: str) -> None:
    (problem,) = handler_plan(before, ELSEWHERE).refusals
    assert what in problem.message
    assert problem.remedy.endswith("k3s")


def test_a_template_that_this_k3s_does_not_read_is_none() -> None:
    assert handler_plan(by_k3s("1.7.23", KUBEADM, config_v3=BASE), ELSEWHERE).standing is ChangeState.CHANGE


def test_what_somebody_added_to_our_template_stays() -> None:
    (edit,) = handler_plan(by_k3s("1.7.23", KUBEADM), ELSEWHERE).edits
    mine = f"{edit.after}# mine\n"
    (undone,) = undo_plan(by_k3s("1.7.23", KUBEADM, config=mine)).edits
    assert undone.after == f"{BASE}# mine\n"


@pytest.mark.parametrize("version", ["1.7.23-k3s2", "2.0.5-k3s1"])
@pytest.mark.parametrize(
    ("program", "there"),
    [(PROGRAM, ()), (ELSEWHERE, ("/usr/local/nvidia/toolkit/nvidia-container-runtime",))],
    ids=["it is the program", "another one is there"],
)
def test_no_template_repeats_the_handler_that_k3s_adds_by_itself(
    version: str, program: str, there: tuple[str, ...]
) -> None:
    """containerd starts with no table that is there twice, and the node's kubelet goes with it."""
    text = KUBEADM if version < "2" else MODERN.replace(IMPORTS, "")
    plan = handler_plan(by_k3s(version, text), program, there)
    assert plan.edits == ()
    assert (plan.refusals[0].message, plan.refusals[0].remedy) == (
        "k3s adds handler nvidia by itself",
        "restart k3s",
    )


def test_a_template_of_before_the_program_was_found_is_told_of() -> None:
    (edit,) = handler_plan(by_k3s("1.7.23", KUBEADM), ELSEWHERE).edits
    assert edit.after is not None
    made = by_k3s("1.7.23", edit.after.replace(BASE, f"{KUBEADM}\n"), config=edit.after)
    assert handler_plan(made, ELSEWHERE).standing is ChangeState.NOTHING
    (problem,) = handler_plan(made, ELSEWHERE, (PROGRAM,)).refusals
    assert (problem.message, problem.where) == (
        f"k3s adds handler nvidia by itself at its next start, and {edit.path} as well",
        PROGRAM,
    )


def test_nvidias_own_handler_is_enough() -> None:
    plan = handler_plan(containerd("1.7.24", (MAIN, NVIDIAS)), PROGRAM)
    assert plan.standing is ChangeState.NOTHING
    assert plan.why.endswith("pods reach it by a RuntimeClass with handler nvidia")


@pytest.mark.parametrize("program", ["nvidia-container-runtime", '/a"\n[x]', "/a b", "/" + "a" * 400])
def test_a_program_that_is_no_plain_path(program: str) -> None:
    plan = handler_plan(containerd("1.7.24", (MAIN, KUBEADM)), program)
    assert "is not a plain absolute path" in plan.refusals[0].message


PROGRAMS = ("/usr/bin/runc", "/usr/bin/nvidia-container-runtime", "/opt/nvidia-container-runtime")


@pytest.mark.parametrize(
    ("programs", "expected", "found"),
    [
        (PROGRAMS, "", "/usr/bin/nvidia-container-runtime"),
        (PROGRAMS, "/opt/nv/runtime", "/opt/nv/runtime"),
        ((), "runtime", "runtime"),
        ((), "", "nvidia-container-runtime not found"),
        (PROGRAMS, "/gone", "program not found: /gone"),
    ],
    ids=[
        "the first that is found",
        "the one that is named",
        "no path, judged later",
        "none",
        "named, and gone",
    ],
)
def test_nvidias_program_is_one_that_is_there(programs: Sequence[str], expected: str, found: str) -> None:
    program = nvidia_program(programs, expected, lambda path: path == "/opt/nv/runtime")
    assert (program.path if isinstance(program, HostProgram) else program.message) == found
