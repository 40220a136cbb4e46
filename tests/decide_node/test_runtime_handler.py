"""A handler `nvidia` for a runtime: where it is written, after what it is modelled, and what is refused."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tonnage.decide.node.runtime_change import undo_plan
from tonnage.decide.node.runtime_handler import handler_plan, nvidia_program
from tonnage.model.errors import Problem
from tonnage.model.runtime_change import ConfigFile, RuntimePlan, RuntimeSeen, Standing
from tonnage.model.runtime_config import RuntimeKind

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
    assert [edit.path for edit in plan.edits] == [path], plan.problems
    assert handler(plan, plugin) == {"runtime_type": "io.containerd.runc.v2", "options": options}
    changed = after(before, plan)
    assert handler_plan(changed, PROGRAM).standing is Standing.NOTHING
    assert after(changed, undo_plan(changed)).files == before.files


def test_crio_gets_a_file_of_its_own() -> None:
    before = seen(RuntimeKind.CRIO, "1.34.2", (CRIO, None))
    plan = handler_plan(before, PROGRAM)
    assert [edit.path for edit in plan.edits] == [CRIO_PART]
    assert tomllib.loads(plan.edits[0].after or "") == {
        "crio": {"runtime": {"runtimes": {"nvidia": {"runtime_path": PROGRAM, "runtime_type": "oci"}}}}
    }
    changed = after(before, plan)
    assert handler_plan(changed, PROGRAM).standing is Standing.NOTHING
    assert after(changed, undo_plan(changed)).files == before.files


REFUSED = {
    "a handler of somebody else": (
        containerd("1.7.24", (MAIN, NVIDIAS.replace("/bin/", "/lib/"))),
        "is there, and runs /usr/lib/",
    ),
    "a handler without a program": (
        containerd("1.7.24", (MAIN, f'version = 2\n[plugins."{V2}".containerd.runtimes.nvidia]\n')),
        "runs the default program",
    ),
    "CRI-O's handler of somebody else": (
        seen(RuntimeKind.CRIO, "1.34.2", (CRIO, '[crio.runtime.runtimes.nvidia]\nruntime_path = "/x"\n')),
        "is there, and runs /x",
    ),
    "CRI-O's broken file": (seen(RuntimeKind.CRIO, "1.34.2", (CRIO, "[crio\n")), "no valid TOML"),
    "k3s, which writes its file anew": (
        containerd("1.7.23-k3s2", (MAIN, f"# File generated by k3s. DO NOT EDIT.\n{KUBEADM}")),
        "k3s's containerd takes no settings here",
    ),
    "a file of version 1 and containerd 2": (containerd("2.1.5", (MAIN, "[plugins.cri]\n")), "has version 1"),
    "containerd without its part for Kubernetes": (
        containerd("1.7.24", (MAIN, 'disabled_plugins = ["cri"]\n')),
        "without its part for Kubernetes",
    ),
    "handlers written inline": (
        containerd("1.7.24", (MAIN, f'version = 2\n[plugins."{V2}".containerd]\nruntimes = {{}}\n')),
        "without writing it anew",
    ),
    "an unknown version": (containerd("", (MAIN, KUBEADM)), "is not known"),
}


@pytest.mark.parametrize(("before", "what"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(before: RuntimeSeen, what: str) -> None:
    plan = handler_plan(before, PROGRAM)
    assert plan.standing is Standing.REFUSED
    assert what in plan.problems[0].what
    assert plan.edits == ()


def test_nvidias_own_handler_is_enough() -> None:
    plan = handler_plan(containerd("1.7.24", (MAIN, NVIDIAS)), PROGRAM)
    assert plan.standing is Standing.NOTHING
    assert plan.why.endswith("pods reach it by a RuntimeClass with handler nvidia")


@pytest.mark.parametrize("program", ["nvidia-container-runtime", '/a"\n[x]', "/a b", "/" + "a" * 400])
def test_a_program_that_is_no_plain_path(program: str) -> None:
    plan = handler_plan(containerd("1.7.24", (MAIN, KUBEADM)), program)
    assert "is no plain path" in plan.problems[0].what


PROGRAMS = ("/usr/bin/runc", "/usr/bin/nvidia-container-runtime", "/opt/nvidia-container-runtime")


@pytest.mark.parametrize(
    ("programs", "wanted", "found"),
    [
        (PROGRAMS, "", "/usr/bin/nvidia-container-runtime"),
        (PROGRAMS, "/opt/nv/runtime", "/opt/nv/runtime"),
        ((), "runtime", "runtime"),
        ((), "", "no nvidia-container-runtime is found"),
        (PROGRAMS, "/gone", "no such program: /gone"),
    ],
    ids=[
        "the first that is found",
        "the one that is named",
        "no path, judged later",
        "none",
        "named, and gone",
    ],
)
def test_nvidias_program_is_one_that_is_there(programs: Sequence[str], wanted: str, found: str) -> None:
    said = nvidia_program(programs, wanted, lambda path: path == "/opt/nv/runtime")
    assert (said.what if isinstance(said, Problem) else said) == found
