"""What a lab's commands run in: one cluster, programs by their paths, and no settings of the person's own.

`PATH` is an empty folder and `HOME` a private one, so nothing is found that kubectl, helm or Python look for
by themselves: plugins, kuberc, repositories, modules in the lab's folder.
"""

from __future__ import annotations

import json
import os
import shutil
import site
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tonnage.cli.locations.kubectl import kubectl_binary
from tonnage.documents.lab.command import Command
from tonnage.documents.lab.review import Reviewed, review
from tonnage.documents.lab.steps import Lab
from tonnage.model.errors import ConfigError, Problem

_LEFT_OUT: Final = ("KUBE", "HELM", "KREW", "TONNAGE", "PROMETHEUS", "EDITOR", "VISUAL")
"""How variables begin that change what the programs do."""
_SNAPSHOT_OPTIONS: Final = ("--file", "--snapshot")
_FOLDERS: Final = ("CONFIG", "DATA", "CACHE", "STATE")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the commands of a lab run in. `environment` is the whole of it."""

    folder: Path
    programs: Mapping[str, tuple[str, ...]]
    environment: Mapping[str, str]

    def argv(self, command: Command, values: Mapping[str, str], user: str = "") -> tuple[str, ...]:
        """The process to start; `user`: whom it acts as.

        Raises:
            FieldError: with these values the command is not permitted.
        """
        reviewed = review(command, values)
        arguments = tuple(self._placed(command.arguments(values), reviewed))
        match command.program, user:
            case _, "":
                pass
            case "tonnage", _:
                arguments = (*arguments, f"--as={user}")
            case "helm", _:
                arguments = (f"--kube-as-user={user}", *arguments)
            case _:
                arguments = (f"--as={user}", *arguments)
        return (*self.programs[command.program], *arguments)

    def _placed(self, arguments: Sequence[str], reviewed: Reviewed) -> Iterator[str]:
        """The arguments, snapshots that the lab itself writes by their paths in the private folder."""
        own = {name for name in reviewed.snapshots if not (self.folder / name).exists()}
        for argument in arguments:
            option, equals, name = argument.rpartition("=")
            if name in own.union(reviewed.written) and (not equals or option in _SNAPSHOT_OPTIONS):
                yield f"{option}{equals}{Path(self.environment['HOME'], name)}"
            else:
                yield argument


@contextmanager
def surroundings(
    lab: Lab,
    folder: Path,
    kubeconfig: Path,
    environment: Mapping[str, str],
    *,
    context: str | None = None,
    own: bool,
) -> Iterator[Surroundings]:
    """For one run. `own`: the cluster is one of Tonnage's, whose kubeconfig is taken as it is.

    Raises:
        ConfigError: a program is not here, or the kubeconfig cannot be used.
    """
    programs = _programs(lab, environment)
    with tempfile.TemporaryDirectory(prefix="tonnage-lab-") as name:
        private = Path(name)
        variables = _variables(private, environment)
        if not own:
            document = _kubeconfig(kubeconfig, context, environment, variables)
            kubeconfig = private / "kubeconfig"
            kubeconfig.touch(mode=0o600)
            kubeconfig.write_text(json.dumps(document, default=str), encoding="utf-8")
        yield Surroundings(folder, programs, {**variables, "KUBECONFIG": str(kubeconfig)})


def _programs(lab: Lab, environment: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    programs = {
        "kubectl": (str(kubectl_binary(environment=environment).absolute()),),
        "tonnage": (sys.executable, "-m", "tonnage"),
    }
    if any(step.command.program == "helm" for step in (*lab.steps, *lab.cleanup)):
        helm = shutil.which("helm", path=environment.get("PATH"))
        if helm is None:
            raise ConfigError(
                Problem(
                    "helm is not installed",
                    why="the lab needs it",
                    remedy="https://helm.sh/docs/intro/install",
                )
            )
        programs["helm"] = (str(Path(helm).absolute()),)
    return programs


def _variables(private: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """The person's variables without those that steer programs."""
    home, programs = private / "home", private / "path"
    for folder in (home, programs):
        folder.mkdir(mode=0o700)
    passed_on = {name: value for name, value in environment.items() if not name.upper().startswith(_LEFT_OUT)}
    # an empty entry is the folder in which a program runs: the lab's
    modules = [
        str(Path(entry).absolute()) for entry in passed_on.get("PYTHONPATH", "").split(os.pathsep) if entry
    ]
    return {
        **passed_on,
        "PATH": str(programs),
        "HOME": str(home),
        **{f"XDG_{name}_HOME": str(home / name.lower()) for name in _FOLDERS},
        "PYTHONPATH": os.pathsep.join(modules),
        "PYTHONUSERBASE": site.getuserbase(),
        "PYTHONSAFEPATH": "1",  # else Python takes modules out of the lab's folder
        "KUBECTL_KUBERC": "false",
        "NO_COLOR": "1",
        "COLUMNS": "160",
    }


def _kubeconfig(
    path: Path, context: str | None, before: Mapping[str, str], after: Mapping[str, str]
) -> dict[str, Any]:
    """One context, one cluster, one user; a program that gives out credentials still finds what it knows."""
    from tonnage.adapters.kubernetes.kubeconfig import single_context

    document = single_context(path, context)
    for entry in document["users"]:
        program = entry["user"].get("exec")
        if isinstance(program, dict) and isinstance(program.get("command"), str):
            pairs = [pair for pair in program.get("env") or [] if isinstance(pair, dict)]
            names = {pair.get("name") for pair in pairs}
            changed = {**dict.fromkeys(after, ""), **before}
            lost = {name: value for name, value in changed.items() if after.get(name) != value}
            entry["user"]["exec"] = {
                **program,
                "command": _absolute_command(program["command"], path, before),
                "env": [
                    *pairs,
                    *({"name": name, "value": value} for name, value in lost.items() if name not in names),
                ],
            }
    return document


def _absolute_command(command: str, kubeconfig: Path, environment: Mapping[str, str]) -> str:
    """As kubectl finds it: a path is of the kubeconfig's folder, a bare name is looked up in PATH."""
    if "/" in command:
        return str(kubeconfig.absolute().parent / command)
    return shutil.which(command, path=environment.get("PATH")) or command
