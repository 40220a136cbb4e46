"""Why a change of the MIG layout does not go on."""

from __future__ import annotations

from dataclasses import dataclass

from tonnage.decide.node.mig.users import MigUser


@dataclass(frozen=True, slots=True)
class GpuGone:
    """The driver does not show a GPU of the change, or of its board."""

    uuid: str

    def __str__(self) -> str:
        return f"{self.uuid} does not answer, or is gone: the driver does not show its MIG instances"


@dataclass(frozen=True, slots=True)
class ForeignInstance:
    """A reset would destroy an instance that is neither in the layout wanted nor in that of before."""

    uuid: str
    profile: str
    start: int

    def __str__(self) -> str:
        return f"{self.profile} at {self.start} of {self.uuid} is somebody else's, and a reset destroys it"


@dataclass(frozen=True, slots=True)
class InUse:
    """Somebody uses what the change would destroy."""

    users: tuple[MigUser, ...]

    def __str__(self) -> str:
        return "; ".join(map(str, self.users))


@dataclass(frozen=True, slots=True)
class BoardResetNeeded:
    """A GPU takes the other mode by a reset of its board: who uses the others has to be asked first."""

    uuid: str
    board: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.uuid} takes the other MIG mode only by a reset with {', '.join(self.board)}"


@dataclass(frozen=True, slots=True)
class RestartNeeded:
    """A GPU takes the other mode by no reset that is known."""

    uuid: str

    def __str__(self) -> str:
        return f"{self.uuid} takes the other MIG mode only by a restart of the node"


Obstacle = GpuGone | ForeignInstance | InUse | BoardResetNeeded | RestartNeeded
