"""The node agent: what it is told, and how its loops are wired to the world."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tonnage.adapters.ports import Clock, KubernetesApi


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """What the agent is told at start.

    `devices` is `nvml` or `scenario:FILE`. `root` stands before every path of the node (`/var/lib/kubelet`,
    `/var/lib/tonnage`). `config_map` is `NAMESPACE/NAME`; `config` a file that stands in when neither label nor
    ConfigMap names a configuration.
    """

    node_name: str
    devices: str = "nvml"
    root: Path = Path("/")
    config: Path | None = None
    config_map: str = "tonnage-system/device-plugin-config"


async def run_agent(options: AgentOptions, *, api: KubernetesApi | None, clock: Clock) -> None:
    """Run until cancelled; without `api` the configuration is `options.config` and nothing is published.

    Raises:
        ConfigError: an option cannot be used.
    """
    raise NotImplementedError
