"""`tonnage node --dump`: what the agent of this node knows, asked over its socket."""

from __future__ import annotations

from pathlib import Path

from tonnage.adapters.agent_socket import SOCKET, ask_agent
from tonnage.agent.dump import VERSION
from tonnage.agent.options import STATE
from tonnage.cli.terminal.output import emit
from tonnage.model.errors import HardwareError, Problem
from tonnage.model.json import JsonObject, parsed_json


def show_dump(root: Path) -> int:
    """Print the dump of the agent below `root`. Raises HardwareError: there is none, or it cannot be read."""
    file = root / STATE / SOCKET
    emit(answered_dump(ask_agent(file), str(file)), "json")
    return 0


def answered_dump(answer: bytes, where: str) -> JsonObject:
    """The dump in an answer. Raises HardwareError: it is none of this version."""
    if not answer:
        remedy = "try again; the agent's log says why it refuses"
        raise HardwareError(Problem("the agent's answer is empty", where, remedy=remedy))
    try:
        dump = parsed_json(answer)
    except ValueError:
        dump = None
    version = dump.get("version") if isinstance(dump, dict) else None
    if not isinstance(dump, dict) or type(version) is not int:
        remedy = "find the program that listens there: ss -xlp"
        raise HardwareError(
            Problem("the program that answers is not an agent of Tonnage", where, remedy=remedy)
        )
    if version != VERSION:
        text = f"the agent's dump is of version {version}, and this tonnage reads {VERSION}"
        remedy = "use the agent's own program, in its pod: kubectl exec POD -- tonnage node --dump"
        raise HardwareError(Problem(text, where, f"the agent is {str(dump.get('agent'))[:60]}", remedy))
    return dump
