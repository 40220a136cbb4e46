"""Control daemons of CUDA's multi-process service (MPS): what a node should run, and how it stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tonnage.model.names import ResourceName

MOST_MPS_CLIENTS: Final = 48
"""That any device serves at a time."""
MPS_IN_CONTAINER: Final = "/mps"
"""Where a container has the pipes of its resource's daemon."""
SHM_IN_CONTAINER: Final = "/dev/shm"  # noqa: S108 - a mount point that CUDA knows by this name
PIPE_VARIABLE: Final = "CUDA_MPS_PIPE_DIRECTORY"


@dataclass(frozen=True, slots=True)
class MpsDevice:
    """A device of a daemon, and how much of its memory a client may pin; 0 MiB for no limit."""

    uuid: str
    limit_mib: int


@dataclass(frozen=True, slots=True)
class MpsDaemon:
    """A resource's daemon, or a `claim`'s, on its devices, in the order in which CUDA counts them for it.

    `root` is the folder of MPS on the host. A client gets `threads_percent` of each device's threads. With
    `multi_user` one server serves the clients of all users, else those of one user after the other.
    """

    resource: ResourceName
    root: str
    threads_percent: int
    devices: tuple[MpsDevice, ...]
    multi_user: bool = False
    claim: str = ""
    """Its namespace and name; in the place of a resource it has a name that is short enough for sockets."""

    @property
    def subject(self) -> str:
        """What it serves, as people call it.

        >>> MpsDaemon(ResourceName("claim/690ca8efb4da-0"), "/mps", 100, (), claim="ml/train").subject
        'claim ml/train'
        """
        return f"claim {self.claim}" if self.claim else self.resource

    @property
    def folder(self) -> str:
        """Where its pipes and logs are, on the host."""
        return mps_folder(self.root, self.resource)

    def like(self, other: MpsDaemon) -> bool:
        """Whether clients would see no difference: the order of devices is none."""
        own, others = self.devices, other.devices
        return (self.resource, self.root, self.threads_percent, self.multi_user, frozenset(own)) == (
            *(other.resource, other.root, other.threads_percent, other.multi_user),
            frozenset(others),
        )


@dataclass(frozen=True, slots=True)
class MpsState:
    """How a resource's daemon stands: the limits that hold are `daemon`'s; `why` is empty when it serves.

    `restarts` counts starts after the first.
    """

    daemon: MpsDaemon
    why: str = ""
    restarts: int = 0


def mps_folder(root: str, resource: str) -> str:
    """The folder of a resource's daemon.

    >>> mps_folder("/run/nvidia/mps", "nvidia.com/gpu.shared")
    '/run/nvidia/mps/nvidia.com/gpu.shared'
    """
    return f"{root.rstrip('/')}/{resource}"
