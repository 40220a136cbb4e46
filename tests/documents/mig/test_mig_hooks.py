"""Hooks and GPU clients in the words of NVIDIA's manager: what is read, and everything that is refused."""

from __future__ import annotations

import pytest

from tonnage.documents.mig.hooks import parse_gpu_clients, parse_mig_hooks
from tonnage.model.errors import ConfigError
from tonnage.model.mig.hooks import MigHook

HOOKS = """\
version: v1
hooks:
  apply-start:
  - workdir: /etc/nvidia-mig-manager
    command: /bin/bash
    args: [-x, -c, "source hooks.sh; start ${MIG_PARTED_SELECTED_CONFIG}"]
    envs: {A: b}
  apply-exit:
  - command: /bin/true
"""


def test_hooks_are_read() -> None:
    assert parse_mig_hooks(HOOKS, source="f") == {
        "apply-start": (
            MigHook(
                "/bin/bash",
                ("-x", "-c", "source hooks.sh; start ${MIG_PARTED_SELECTED_CONFIG}"),
                {"A": "b"},
                "/etc/nvidia-mig-manager",
            ),
        ),
        "apply-exit": (MigHook("/bin/true"),),
    }
    assert parse_mig_hooks(HOOKS, source="f")["apply-exit"][0].where.startswith("f:9")


def test_clients_are_read_in_their_order_with_the_kind_of_unit_that_systemctl_takes_them_for() -> None:
    text = "version: v1\nsystemd-services: [nvsm.service, dcgm, nvsm.service, x.socket]\n"
    assert parse_gpu_clients(text, source="f") == ("nvsm.service", "dcgm.service", "x.socket")


def test_every_problem_of_the_hooks_is_told_at_once_with_its_place() -> None:
    text = """\
version: v2
hooks:
  pre-aply-mode: [{command: /bin/true}]
  apply-exit:
  - {command: "", workdir: etc, envs: {1a: b}, environment: {}}
"""
    with pytest.raises(ConfigError) as refused:
        parse_mig_hooks(text, source="f")
    said = "\n".join(map(str, refused.value.problems))
    for word in (
        *(
            "f:1:",
            "unknown version: v2",
            "unknown hook pre-aply-mode",
            "use pre-apply-mode if you meant that",
        ),
        *("no command", "'etc' is not an absolute path", "'1a' is not the name of a variable", "environment"),
    ):
        assert word in said, word


@pytest.mark.parametrize("name", ["--now", "a b", "../x", "", "a;b", "x" * 300])
def test_what_is_no_unit_is_no_client(name: str) -> None:
    with pytest.raises(ConfigError, match="is not a systemd unit"):
        parse_gpu_clients(f'version: v1\nsystemd-services: ["{name}"]\n', source="f")


def test_other_clients_are_refused_and_not_passed_over() -> None:
    with pytest.raises(ConfigError, match="kubernetes-services"):
        parse_gpu_clients("version: v1\nkubernetes-services: []\n", source="f")
