"""Everything that can go wrong, as one tree.

    TonnageError
    ├── ConfigError      what a person wrote is wrong: a document, a flag, an object   exit status 2
    ├── HardwareError    a device, its driver or the node's file system failed         exit status 3
    ├── ClusterError     the API server or kubelet is unreachable or refused           exit status 3
    │   └── ApiError     the API server answered with a Status; GoneError for 410
    └── Bug              Tonnage contradicts itself; please report                     exit status 70

A refusal of a pod is not an error but a value: see `model.verdict`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: what, where (`file:line:column` or a field path), why, and what to do."""

    what: str
    where: str = ""
    why: str = ""
    remedy: str = ""

    def __str__(self) -> str:
        head = f"{self.where}: {self.what}" if self.where else self.what
        return "\n".join(
            [
                head,
                *(
                    f"  {label}: {text}"
                    for label, text in (("why", self.why), ("remedy", self.remedy))
                    if text
                ),
            ]
        )


class TonnageError(Exception):
    """Base of the tree; carries every problem found, never only the first."""

    exit_status = 1

    def __init__(self, *problems: Problem) -> None:
        super().__init__(*problems)
        self.problems = problems

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)


class ConfigError(TonnageError):
    """What a person wrote cannot be used."""

    exit_status = 2


class HardwareError(TonnageError):
    """A device, its driver or the node's file system failed."""

    exit_status = 3


class ClusterError(TonnageError):
    """The API server or the kubelet could not be reached, or refused."""

    exit_status = 3


class ApiError(ClusterError):
    """The API server's own refusal: HTTP `code`, CamelCase `reason`, and its message as it stands."""

    def __init__(self, code: int, reason: str, message: str, *, where: str = "") -> None:
        super().__init__(Problem(message, where=where))
        self.code = code
        self.reason = reason
        self.message = message


class GoneError(ApiError):
    """410: the resource version asked for has been compacted away; list again.

    `resume` continues a list at a newer version, where the server offers that.
    """

    def __init__(self, message: str = "too old resource version", resume: str = "") -> None:
        super().__init__(410, "Expired", message)
        self.resume = resume


class Bug(TonnageError):  # noqa: N818 - the word of the design, and what it is
    """Tonnage contradicts itself."""

    exit_status = 70


def first_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """What ended the loops: our own error if there is one, else the first of what was raised."""
    ours = group.subgroup(TonnageError)
    inner: BaseException = (ours or group).exceptions[0]
    return first_error(inner) if isinstance(inner, BaseExceptionGroup) else inner


def words_of(error: BaseException) -> str:
    """What an error says; of one of the operating system its words alone, without number and path.

    >>> words_of(FileNotFoundError(2, "No such file or directory", "a.yaml"))
    'No such file or directory'
    >>> words_of(ValueError("not a number"))
    'not a number'
    """
    words = error.strerror if isinstance(error, OSError) else ""
    return words or str(error)


def not_utf8(error: UnicodeDecodeError, where: str) -> Problem:
    """What is wrong with a file that cannot be decoded, in plain words.

    >>> try:
    ...     bytes([0x67, 0x70, 0x75, 0x2C, 0xFF]).decode()
    ... except UnicodeDecodeError as error:
    ...     print(not_utf8(error, "a.csv"))
    a.csv: the file is not UTF-8
      why: byte 5 is 0xff
      remedy: save it as UTF-8
    """
    why = f"byte {error.start + 1} is {error.object[error.start]:#04x}"
    return Problem("the file is not UTF-8", where, why, "save it as UTF-8")
