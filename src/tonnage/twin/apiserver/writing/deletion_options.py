"""What deletions and evictions say of how something goes.

Source: ValidateDeleteOptions of k8s.io/apimachinery pkg/apis/meta/v1/validation (v1.35).
"""

from __future__ import annotations

from typing import Final

from tonnage.decide.kubernetes.api.problems import Errors, FieldError, InvalidError, invalid, unsupported
from tonnage.model.json import JsonObject
from tonnage.model.json_access import at, items, text
from tonnage.twin.apiserver.ownership.manager_names import options_status
from tonnage.twin.apiserver.requests import DeleteOptions

_PROPAGATIONS: Final = ("Foreground", "Background", "Orphan", "nil")


def deletion_options(body: JsonObject) -> tuple[DeleteOptions, bool]:
    """How something is to be deleted, and whether that is only tried. Raises ApiError 422.

    `body` is what a DeleteOptions says.
    """
    propagation, orphans = at(body, "propagationPolicy"), at(body, "orphanDependents")
    wrong: list[FieldError] = []
    if orphans is not None and propagation is not None:
        words = "orphanDependents and deletionPropagation cannot be both set"
        wrong.append(invalid("propagationPolicy", propagation, words))
    if propagation is not None and propagation not in _PROPAGATIONS[:3]:
        wrong.append(unsupported("propagationPolicy", propagation, _PROPAGATIONS))
    dry_runs = [str(entry) for entry in items(body, "dryRun")]
    wrong += dry_run_problems(dry_runs)
    if wrong:
        raise InvalidError(options_status("DeleteOptions", tuple(wrong)))
    if orphans is not None:
        propagation = "Orphan" if orphans is True else "Background"
    grace = at(body, "gracePeriodSeconds")
    options = DeleteOptions(
        grace if isinstance(grace, int) else None,
        propagation if isinstance(propagation, str) else "",
        text(body, "preconditions", "uid"),
        text(body, "preconditions", "resourceVersion"),
    )
    return options, bool(dry_runs)


def dry_run_problems(dry_runs: list[str]) -> Errors:
    """What is wrong with how something is only tried."""
    if all(entry == "All" for entry in dry_runs):
        return ()
    return (unsupported("dryRun", [*dry_runs], ("All",)),)
