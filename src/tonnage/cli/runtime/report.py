"""How `tonnage runtime` tells what it found: lines and diffs for people, JSON for scripts."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from tonnage.cli.terminal.failure import render_problem
from tonnage.cli.terminal.output import lines, printable, say

if TYPE_CHECKING:
    from tonnage.model.json import JsonObject, JsonValue
    from tonnage.model.node.runtime_change import FileEdit, NriAnswer, RuntimePlan, RuntimeSeen
    from tonnage.model.reasons.node.runtime_plans import RuntimeNotConfigured

_BY_CDI: Final = "Tonnage does not need it: through CDI a container gets exactly the devices of kubelet."
_BY_VARIABLES: Final = (
    "Tonnage does not need it: by variables for NVIDIA's toolkit a container gets the devices that"
    " kubelet counted."
)
_NRI: Final = (
    "With that plugin any pod gets every device that its annotation nvidia.cdi.k8s.io names. The chart",
    "denies such pods outside of the namespaces in admissionPolicy.deviceAnnotationNamespaces.",
)
RESTART: Final = (
    "containers keep running; for some seconds no pod starts or ends, and the node may be NotReady"
)


def tell(state: RuntimeSeen, plan: RuntimePlan, *, written: bool, restarted: bool) -> None:
    """Print a plan, or what was made of it, for a person."""
    for refusal in plan.refusals:
        say(render_problem(refusal.problem), err=True)
    if not plan.refusals:
        say(plan.why)
    for edit in plan.edits:
        say(printable(_diff(edit)), end="")
    if written:
        say(f"Changed {', '.join(edit.path for edit in plan.edits)}.")
    if restarted:
        say(f"Restarted {state.unit}: the change is in force.")
    elif plan.edits:
        when = "To put the change in force" if written else "Nothing is written yet; once it is"
        say(f"{when}: systemctl restart {state.unit}  ({RESTART})")


def plan_json(state: RuntimeSeen, plan: RuntimePlan, *, restarted: bool) -> JsonObject:
    """The same for scripts."""
    edits: list[JsonValue] = [
        {"path": edit.path, "action": _action(edit), "diff": _diff(edit)} for edit in plan.edits
    ]
    answer: JsonObject = {
        "runtime": _runtime(state),
        "standing": plan.standing.value,
        "message": plan.why,
        "edits": edits,
        "restart": f"systemctl restart {state.unit}" if edits else "",
        "restarted": restarted,
        "problems": _problems(plan.refusals),
    }
    if plan.inventory is not None:
        inventory = plan.inventory
        answer["cdi"] = {"state": inventory.cdi.value, "reason": inventory.cdi_reason}
        answer["nri"] = {"state": inventory.nri.value, "reason": inventory.nri_reason}
    return answer


def _runtime(state: RuntimeSeen) -> JsonObject:
    return {
        "name": state.kind.value if state.kind is not None else "",
        "version": state.version,
        "toldBy": state.version_source,
        "files": [file.path for file in state.files if file.text is not None],
    }


def _problems(refusals: Iterable[RuntimeNotConfigured]) -> list[JsonValue]:
    return [
        {"what": problem.what, "where": problem.where, "why": problem.why, "remedy": problem.remedy}
        for problem in (refusal.problem for refusal in refusals)
    ]


def _action(edit: FileEdit) -> str:
    return "create" if edit.before is None else "delete" if edit.after is None else "edit"


def _diff(edit: FileEdit) -> str:
    """As `diff -u` writes it."""
    before, after = ((text or "").splitlines(keepends=True) for text in (edit.before, edit.after))
    old, new = (edit.path if text is not None else "/dev/null" for text in (edit.before, edit.after))
    cut = "\n\\ No newline at end of file\n"
    lines = difflib.unified_diff(before, after, old, new)
    return "".join(line if line.endswith("\n") else f"{line}{cut}" for line in lines)


def tell_nri(state: RuntimeSeen, answer: NriAnswer) -> None:
    """Print whether NRI works here, for a person."""
    for refusal in answer.refusals:
        say(render_problem(refusal.problem), err=True)
    if not answer.refusals and state.kind is not None:
        name = f"{state.kind.value} {state.version}"
        say(f"NRI is on in {name} ({answer.reason}), and NVIDIA's plugin works with it.")
    asking = ", ".join(answer.plugins)
    say(f"Enabled by {asking}." if asking else "Nothing on this node enables it.")
    say(_BY_CDI if answer.by_cdi else _BY_VARIABLES)
    say(lines(_NRI))


def nri_json(state: RuntimeSeen, answer: NriAnswer) -> JsonObject:
    """The same for scripts."""
    return {
        "runtime": _runtime(state),
        "works": not answer.refusals,
        "reason": answer.reason,
        "askedForBy": [*answer.plugins],
        "problems": _problems(answer.refusals),
    }
