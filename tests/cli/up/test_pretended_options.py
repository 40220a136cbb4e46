"""Every option of the agent has a side in a pretended container, whose manifest somebody else wrote."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import click
import pytest

from tonnage.agent.options import AgentOptions, wrong_options
from tonnage.cli.node.command import command
from tonnage.cli.node.nvidia_flags import PLUGIN_FLAGS
from tonnage.cli.node.plugin_flags import EnvironmentOption
from tonnage.cli.up.pretended_options import SIDES, Side, agent_arguments_on_the_twin
from tonnage.documents.device_plugin.config import parse_device_plugin_config
from tonnage.model.errors import ConfigError
from tonnage.twin.host_programs import PretendedPrograms
from tonnage.twin.kubelet.containers.runtime_port import ContainerContext

ROOT = Path("/run/tonnage/0")
KUBECONFIG = Path("/state/kubeconfig")
OPTIONS = {option.name or "": option for option in command.params}
OUT = "/../../../../../../../etc/passwd"


def told(*argv: str, **env: str) -> dict[str, Any]:
    parts = SimpleNamespace(
        argv=("tonnage", "node", *argv), env={"NODE_NAME": "a", **env}, node_root=ROOT, stdio=None
    )
    return dict(agent_arguments_on_the_twin(cast(ContainerContext, parts), KUBECONFIG))


def of_side(side: Side) -> list[str]:
    return [name for name, found in SIDES.items() if found is side]


def test_every_option_has_a_side() -> None:
    """A new option of `tonnage node` is refused on the twin until somebody has said here what it may do."""
    assert set(SIDES) == {*OPTIONS, "help"}


def test_every_variable_is_read_out_of_the_container() -> None:
    """One that click itself reads would be that of the person who runs the twin."""
    strangers = {
        name
        for name, option in OPTIONS.items()
        if option.envvar is not None and not isinstance(option, EnvironmentOption)
    }
    assert not strangers
    assert not command.context_settings.get("auto_envvar_prefix")


def _paths(found: dict[str, Any]) -> Iterator[Path]:
    yield from (value for value in found.values() if isinstance(value, Path))
    yield Path(found["devices"].removeprefix("scenario:"))
    yield ROOT / found["kubelet_socket"].lstrip("/")


@pytest.mark.parametrize("name", of_side(Side.PATH))
@pytest.mark.parametrize("by_variable", [False, True], ids=["a flag", "a variable"])
def test_no_path_leads_out_of_the_nodes_folder(name: str, by_variable: bool) -> None:
    option, value = OPTIONS[name], f"scenario:{OUT}" if name == "devices" else OUT
    variables = [option.envvar] if isinstance(option.envvar, str) else option.envvar or ()
    given = [{variable: value} for variable in variables] if by_variable else []
    for env in given or [{}]:
        found = told(*([] if env else [f"{option.opts[0]}={value}"]), **env)
        for path in _paths(found):
            assert path.is_relative_to(ROOT)
            assert ".." not in path.parts
        if name in {flag.parameter for flag in PLUGIN_FLAGS} and name != "driver_root_ctr_path":
            with pytest.raises(ConfigError, match="is not an absolute path"):
                parse_device_plugin_config("", source="--config", overrides=found["overrides"])


def test_a_path_that_is_no_text_for_a_path_is_refused_by_the_agent() -> None:
    found = told("--kubelet-socket=../../x")
    assert [problem.where for problem in wrong_options(AgentOptions(**cast(Any, found)))] == [
        "--kubelet-socket"
    ]


@pytest.mark.parametrize(
    ("argv", "env", "what"),
    [
        pytest.param(["--kubeconfig=/home/me/.kube/config"], {}, "--kubeconfig cannot", id="a kubeconfig"),
        pytest.param(["--context=production"], {}, "--context cannot", id="a context"),
        pytest.param(["--standalone"], {}, "--standalone cannot", id="without a cluster"),
        pytest.param(["--help"], {}, "--help", id="help for the terminal of somebody else"),
        pytest.param(["--send-signal"], {}, "--send-signal has no effect", id="of anywhere is not an effect"),
        pytest.param([], {"KUBECONFIG": "/home/me/.kube/config"}, "KUBECONFIG cannot", id="a variable"),
    ],
)
def test_what_leads_elsewhere_is_refused(
    argv: list[str], env: dict[str, str], what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(click.ClickException) as refused:
        told(*argv, **env)
    assert what in refused.value.format_message()
    assert capsys.readouterr() == ("", "")


def test_an_option_without_a_side_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "tonnage.cli.up.pretended_options.SIDES", {k: v for k, v in SIDES.items() if k != "mig_evict"}
    )
    assert told()["mig_evict"] is False
    with pytest.raises(click.UsageError, match="--mig-evict cannot be used on the twin"):
        told("--mig-evict")


def test_the_clusters_own_kubeconfig_may_be_named() -> None:
    assert told(KUBECONFIG=str(KUBECONFIG)) == told()


@pytest.mark.parametrize(
    ("address", "served"),
    [
        ("127.0.0.1:9400", "127.0.0.1:9400"),
        ("[::1]:0", "[::1]:0"),
        ("localhost:9400", "localhost:9400"),
        ("127.0.0.1:80", ""),
        (":9400", ""),
        ("0.0.0.0:9400", ""),
        ("[::]:9400", ""),
        ("192.0.2.7:9400", ""),
        ("nonsense", "nonsense"),
    ],
)
def test_metrics_are_served_to_this_machine_alone(
    address: str, served: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tonnage")
    assert told(f"--metrics-address={address}")["metrics_address"] == served
    assert ("would serve metrics" in caplog.text) == (not served)


async def test_a_program_of_the_host_is_told_of_and_not_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tonnage")
    mark = tmp_path / "ran"
    programs = PretendedPrograms()
    await programs.run("/bin/sh", ["-c", f"touch {mark}"], variables={"A": "b c"}, folder="/opt")
    assert await programs.ask("systemctl", ("show", "--value", "--", "x.service")) == "active\n"
    await programs.run("true", ["x" * 10_000])
    assert not mark.exists()
    words = f"'A=b c' /bin/sh -c 'touch {mark}'"
    assert f"would run on the host, which the twin does not: folder=/opt command={words}" in caplog.text
    assert max(map(len, caplog.text.splitlines())) < 3000
