"""What the command line says to the controller."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WebhookOptions:
    """`secret` of the controller's namespace has certificate and key.

    `configuration` names the ValidatingWebhookConfiguration that is told whom to trust, by the replica that
    leads and issues the certificate; empty: that is somebody else's.
    """

    address: str
    secret: str
    configuration: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerOptions:
    """`identity` names this process in the Lease; empty addresses: nothing is served.

    `operand_image` is that of pods that follow the agents' parts; empty: there are none.
    """

    namespace: str
    operator_namespace: str
    identity: str
    lease: str = "tonnage-controller"
    elect: bool = True
    dry_run: bool = False
    once: bool = False
    metrics_address: str = ""
    operand_image: str = ""
    operand_pull_secrets: tuple[str, ...] = ()
    """Secrets of the operator's namespace with which it is pulled."""
    workload_image: str = ""
    """A user's, whose own program validates nodes; empty: ours does."""
    drivers: bool = False
    """Whether it installs and upgrades drivers."""
    registries: tuple[str, ...] = ()
    """Hosts that may be asked whether an image exists."""
    cluster_metrics_s: float = 0
    """How often metrics of the cluster are worked out while it leads; 0: they are not."""
    rejected_pods: bool = False
    """Whether pods that kubelet rejected go once their devices are there."""
    withdraw: bool = False
    """Take away what controller and agents have left in the cluster, and end."""
    agents_divide: bool = False
    """Whether agents divided GPUs, so that the state of MIG layouts is theirs to be taken away."""
    definitions: bool = False
    """Upgrade the definitions of NVIDIA's kinds, and end."""
    webhook: WebhookOptions | None = None
    """Judge configurations of claims at admission."""
