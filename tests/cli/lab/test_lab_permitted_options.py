"""What a lab may run, beside the programs themselves: an option takes a word there where the table says."""

from __future__ import annotations

import importlib
import re
import subprocess
from collections.abc import Mapping
from functools import cache

import click
import pytest

from scripts.find_helm import MAJORS, Major, helm_binary
from tonnage.cli.locations.kubectl import kubectl_binary
from tonnage.cli.main import COMMANDS
from tonnage.documents.lab.options import OptionKind
from tonnage.documents.lab.permitted import PERMITTED

pytestmark = pytest.mark.long

SWITCH_WITH_VALUE = frozenset({"--dry-run", "--validate", "--cascade"})
"""kubectl's options that are no booleans and yet take no word of their own (NoOptDefVal)."""
OPTION = re.compile(r"^\s+(?:(-\w), |    )?\s*(--[\w-]+)(.*)$", re.MULTILINE)


def said(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=True, timeout=120).stdout


def kubectl_options(version: str, subcommand: str) -> dict[str, bool]:
    """Option -> whether it takes a word."""
    program = str(kubectl_binary(version))
    found: dict[str, bool] = {}
    for text in (said(program, *subcommand.split(), "--help"), global_options(program)):
        for short, name, rest in OPTION.findall(text):
            takes = rest.strip(":") not in ("=true", "=false") and name not in SWITCH_WITH_VALUE
            found |= {name: takes} | ({short: takes} if short else {})
    return found


@cache
def global_options(program: str) -> str:
    return said(program, "options")


def disagreements(program: str, options: Mapping[str, Mapping[str, bool]]) -> dict[str, str]:
    """Where the table differs from `options`: by subcommand, whether each takes a word.

    Families of options are given to all of a kind, so a subcommand may lack one; no other may be missing.
    """
    every = {name for known in options.values() for name in known}
    return {
        f"{subcommand} {name}": "unknown" if name not in every else kind.name
        for subcommand, permitted in PERMITTED[program].items()
        for name, kind in permitted.options.items()
        if name not in every
        or options[subcommand].get(name, kind is not OptionKind.SWITCH) != (kind is not OptionKind.SWITCH)
    }


@pytest.mark.parametrize("version", ["1.35", "1.37"])
def test_kubectl_reads_options_as_the_table_says(version: str) -> None:
    read = {subcommand: kubectl_options(version, subcommand) for subcommand in PERMITTED["kubectl"]}
    assert disagreements("kubectl", read) == {}


def helm_options(major: Major, subcommand: str) -> dict[str, bool]:
    """Option -> whether it takes a word. Its type stands after one blank; `[=x]` is taken without a word."""
    found: dict[str, bool] = {}
    for short, name, rest in OPTION.findall(said(str(helm_binary(major)), *subcommand.split(), "--help")):
        typed = re.match(r" (\S+)", rest)
        takes = typed is not None and "[=" not in typed[1]
        found |= {name: takes} | ({short: takes} if short else {})
    return found


def test_helm_reads_options_as_the_table_says() -> None:
    for major in MAJORS:
        read = {subcommand: helm_options(major, subcommand) for subcommand in PERMITTED["helm"]}
        assert {name for name, kind in disagreements("helm", read).items() if kind != "unknown"} == set()


@pytest.mark.parametrize("subcommand", PERMITTED["tonnage"])
def test_tonnage_reads_options_as_the_table_says(subcommand: str) -> None:
    first, *rest = subcommand.split()
    command = importlib.import_module(COMMANDS[first][0]).command
    for name in rest:
        command = command.commands[name]
    takes = {
        name: not parameter.is_flag
        for parameter in command.params
        if isinstance(parameter, click.Option)
        for name in (*parameter.opts, *parameter.secondary_opts)
    }
    wrong = {
        name: kind
        for name, kind in PERMITTED["tonnage"][subcommand].options.items()
        if takes.get(name, "none") != (kind is not OptionKind.SWITCH)
    }
    assert wrong == {}


@pytest.mark.parametrize("subcommand", PERMITTED["tonnage"])
def test_an_option_of_tonnage_that_names_a_path_is_a_file_of_the_lab(subcommand: str) -> None:
    first, *rest = subcommand.split()
    command = importlib.import_module(COMMANDS[first][0]).command
    for name in rest:
        command = command.commands[name]
    paths = {
        name
        for parameter in command.params
        if isinstance(parameter, click.Option) and isinstance(parameter.type, click.Path)
        for name in parameter.opts
    }
    permitted = PERMITTED["tonnage"][subcommand].options
    files = {OptionKind.FILE, OptionKind.SNAPSHOT, OptionKind.WRITTEN_FILE}
    assert {name for name in paths & permitted.keys() if permitted[name] not in files} == set()


def test_click_takes_no_abbreviated_option() -> None:
    command = importlib.import_module(COMMANDS["status"][0]).command
    with pytest.raises(click.NoSuchOption):
        command.make_context("status", ["--snap", "x"])
