"""The API server's own rules, where this installation has them."""

from __future__ import annotations

from tonnage.cli.terminal.output import say
from tonnage.model.kubernetes.api_answer import ApiServer


def api_server() -> ApiServer | None:
    """What answers as the API server would; None, with a word on stderr, in the agent's image."""
    try:
        from tonnage.decide.kubernetes.api.creation import answer_to_create
    except ModuleNotFoundError:
        say("not checked against the API server's own rules: this image does not contain them", err=True)
        return None
    return answer_to_create
