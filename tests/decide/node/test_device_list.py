"""What `deviceListStrategy: auto` comes to: CDI where all that it takes is known to be there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tonnage.decide.node.device_list import device_list
from tonnage.model.devices.sharing import DeviceListStrategy
from tonnage.model.errors import Problem
from tonnage.model.node.runtime_config import NodeRuntime, RuntimeConfig, RuntimeKind

CDI, VARIABLES = DeviceListStrategy.CDI_CRI, DeviceListStrategy.ENVVAR
FILE = ("/etc/containerd/config.toml",)


def containerd(cdi: bool | None, *problems: Problem) -> RuntimeConfig:
    where = "" if cdi is None else f"{FILE[0]}:12"
    return RuntimeConfig(RuntimeKind.CONTAINERD, FILE, cdi=cdi, cdi_where=where, problems=problems)


@pytest.mark.parametrize(
    ("kubelet", "runtime", "configs", "strategy", "why"),
    [
        pytest.param(
            "v1.35.8", "containerd://2.2.1", (), CDI, "containerd 2.2.1 have CDI", id="containerd 2"
        ),
        pytest.param(
            "v1.35.8", "containerd://v2.1.4-k3s1", (), CDI, "containerd 2.1.4-k3s1 have CDI", id="k3s"
        ),
        pytest.param(
            "v1.31.4+rke2r1", "containerd://2.0.0", (containerd(None),), CDI, "have CDI", id="says nothing"
        ),
        pytest.param(
            "v1.35.8",
            "containerd://2.2.1",
            (containerd(False),),
            VARIABLES,
            "has CDI switched off: /etc/containerd/config.toml:12",
            id="containerd 2, switched off",
        ),
        pytest.param(
            "v1.35.8",
            "containerd://2.2.1",
            (containerd(True), containerd(False)),
            VARIABLES,
            "switched off",
            id="one of two configurations switches it off",
        ),
        pytest.param(
            "v1.30.0", "containerd://1.7.24", (containerd(True),), CDI, "have CDI", id="1.7, switched on"
        ),
        pytest.param(
            "v1.30.0",
            "containerd://1.7.24",
            (replace(containerd(True), cdi_replaced="/etc/containerd/conf.d/a.toml"),),
            VARIABLES,
            "enable_cdi = true says so, and /etc/containerd/conf.d/a.toml does not",
            id="1.7, switched on, and a later file takes the place of that",
        ),
        pytest.param(
            "v1.35.8",
            "containerd://2.2.1",
            (replace(containerd(False), cdi_replaced="/etc/containerd/conf.d/a.toml"),),
            VARIABLES,
            "switched off",
            id="containerd 2 merges files",
        ),
        pytest.param(
            "v1.30.0",
            "containerd://1.7.24",
            (containerd(None),),
            VARIABLES,
            "enable_cdi = true says so, and /etc/containerd/config.toml does not",
            id="1.7, says nothing",
        ),
        pytest.param(
            "v1.30.0",
            "containerd://1.7.24",
            (),
            VARIABLES,
            "the agent does not see its configuration",
            id="1.7, not seen",
        ),
        pytest.param(
            "v1.30.0",
            "containerd://1.7.24",
            (containerd(None, Problem("the file is not valid TOML", "/etc/containerd/conf.d/a.toml:3")),),
            VARIABLES,
            "the file is not valid TOML",
            id="1.7, not readable",
        ),
        pytest.param(
            "v1.35.8",
            "containerd://2.2.1",
            (containerd(None, Problem("the file is not valid TOML", "a.toml:3")),),
            VARIABLES,
            "may have CDI switched off",
            id="2.2, not readable",
        ),
        pytest.param(
            "v1.29.0",
            "containerd://1.6.20",
            (containerd(True),),
            VARIABLES,
            "has no CDI",
            id="containerd 1.6",
        ),
        pytest.param(
            "v1.35.8",
            "containerd://2.2.1",
            (replace(containerd(True), cdi_elsewhere="config.toml:3"),),
            VARIABLES,
            "reads no CDI specs in /var/run/cdi: config.toml:3",
            id="specs are read from elsewhere alone",
        ),
        pytest.param("v1.33.0", "cri-o://1.33.2", (), CDI, "cri-o 1.33.2 have CDI", id="CRI-O"),
        pytest.param("v1.33.0", "cri-o://1.27.9", (), VARIABLES, "needs 1.28", id="CRI-O before"),
        pytest.param("v1.33.0", "cri-o://1.22.0", (), VARIABLES, "has no CDI", id="CRI-O long before"),
        pytest.param(
            "v1.28.9",
            "containerd://2.2.1",
            (),
            VARIABLES,
            "does not pass on CDI devices",
            id="kubelet before",
        ),
        pytest.param("v1.29.0", "containerd://2.2.1", (), CDI, "have CDI", id="the first kubelet"),
        pytest.param("v1.35.0", "docker://26.1", (), VARIABLES, "docker 26.1 may not have CDI", id="Docker"),
        pytest.param("v1.35.0", "containerd://Unknown", (), VARIABLES, "may not have CDI", id="no version"),
        pytest.param("odd", "containerd://2.2.1", (), VARIABLES, "kubelet odd", id="no kubelet version"),
        pytest.param("", "", (), None, "does not say yet", id="nothing is known"),
        pytest.param("v1.35.0", "", (), None, "does not say yet", id="the runtime is not known"),
    ],
)
def test_what_auto_comes_to(
    kubelet: str,
    runtime: str,
    configs: tuple[RuntimeConfig, ...],
    strategy: DeviceListStrategy | None,
    why: str,
) -> None:
    choice = device_list(NodeRuntime(kubelet, runtime, configs))
    assert choice.strategy is strategy
    assert why in choice.why


def test_an_agent_that_cannot_write_specs_names_no_cdi_device() -> None:
    node = NodeRuntime("v1.35.0", "containerd://2.2.1", unwritable="/var/run/cdi is not there")
    choice = device_list(node)
    assert choice.strategy is VARIABLES
    assert choice.why == "no CDI spec can be written: /var/run/cdi is not there"


def test_another_runtimes_configuration_does_not_count() -> None:
    leftover = RuntimeConfig(RuntimeKind.CONTAINERD, FILE, cdi=False, cdi_where="a:1")
    assert device_list(NodeRuntime("v1.33.0", "cri-o://1.33.0", (leftover,))).strategy is CDI
