"""`tonnage operator plan`: what a ClusterPolicy would change, and what the API server would say to it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tonnage.cli.awaited import awaited
from tonnage.cli.operator.namespaces import named_namespaces, operator_namespaces
from tonnage.cli.operator.policy_view import FEW_FIELDS, OperatorPlace, operator_view, show_view
from tonnage.cli.options import Common, common_options, examples
from tonnage.cli.terminal.output import line, say
from tonnage.model.errors import ConfigError, Problem

if TYPE_CHECKING:
    from tonnage.diagnose.policy_admission import PolicyAdmission
    from tonnage.model.json import JsonObject
    from tonnage.reading.gpu_policy import OperatorManifests
    from tonnage.wire.nvidia import ClusterPolicy, NvidiaDriver


@click.command(
    help="Show what a ClusterPolicy would change on each node, before it is applied. Nothing is changed."
    " NVIDIADrivers of the file count, too.",
    epilog=examples(
        "tonnage operator plan cluster-policy.yaml",
        "helm template gpu-operator nvidia/gpu-operator | tonnage operator plan -",
    ),
)
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True))
@operator_namespaces
@common_options(output=("text", "wide", "json", "yaml"), cluster=True)
def plan(common: Common, file: str, operator_namespace: str, agents_namespace: str) -> int:
    """Exit status 1 where the policy would be refused, or not be ready."""
    manifests = _manifests_in(file)
    [policy], drivers = manifests.policies, manifests.drivers
    admissions = _admissions(manifests)
    objects: list[ClusterPolicy | NvidiaDriver] = [policy, *drivers]
    for obj in objects:
        obj.spec = admissions[_subject(obj)].pruned
    place = OperatorPlace(operator_namespace, agents_namespace, named_namespaces())
    shown = awaited(operator_view(common, place, (policy,), drivers))
    assert shown is not None  # there is at least the one in the file
    view, operated_drivers = shown
    if common.output in ("text", "wide"):
        _show_admissions(admissions, file, common)
    first, *others = (admission.to_json() for admission in admissions.values())
    more: JsonObject = {"admission": first, "driverAdmissions": [*others]}
    show_view(view, operated_drivers, common, planned=True, more=more)
    refused = any(admission.is_refused for admission in admissions.values())
    return 0 if view.judgement.state == "ready" and not refused else 1


def _subject(obj: ClusterPolicy | NvidiaDriver) -> str:
    return f"{obj.kind} {obj.metadata.name}"


def _admissions(manifests: OperatorManifests) -> dict[str, PolicyAdmission]:
    """What the API server says to each object; the policy first."""
    import msgspec

    from tonnage.cli.api_rules import policy_faults
    from tonnage.diagnose.policy_admission import driver_admission, policy_admission

    return {
        _subject(obj): admission(obj.spec, policy_faults(msgspec.to_builtins(obj)))
        for objects, admission in (
            (manifests.policies, policy_admission),
            (manifests.drivers, driver_admission),
        )
        for obj in objects
    }


def _show_admissions(admissions: dict[str, PolicyAdmission], file: str, common: Common) -> None:
    """What becomes of the file before it is a policy."""
    for subject, admission in admissions.items():
        if admission.missing:
            missing = ", ".join(admission.missing)
            say(line(f"The API server refuses {subject}, since it lacks {missing}."))
            say(line(f"  what to do: tonnage lint --fix {file}"))
        for words in admission.refused:
            say(line(f"The API server refuses {subject}: {words}"))
        if admission.unknown:
            few = len(admission.unknown) <= FEW_FIELDS or common.output == "wide" or common.verbose
            names = admission.unknown if few else admission.unknown[:FEW_FIELDS]
            more = "" if few else f" and {len(admission.unknown) - FEW_FIELDS} more"
            kind = subject.partition(" ")[0]
            refusal = f"kubectl refuses fields that {kind} does not have, and Helm drops them"
            say(line(f"{refusal}: {', '.join(names)}{more}."))
        if admission.refused or admission.unknown:
            say(line(f"  what to do: tonnage lint {file}"))
    if any(admission.is_refused or admission.unknown for admission in admissions.values()):
        say("Without that it comes to this:")
        say()


def _manifests_in(file: str) -> OperatorManifests:
    """The one ClusterPolicy of a file, and its NVIDIADrivers. Raises ConfigError."""
    from tonnage.cli.locations.labs_and_scenarios import read_text
    from tonnage.reading.gpu_policy import operator_manifests

    manifests = operator_manifests(read_text(Path(file)), "stdin" if file == "-" else file)
    if len(manifests.policies) != 1:
        problem = f"{len(manifests.policies)} ClusterPolicies of nvidia.com/v1; one is expected"
        raise ConfigError(Problem(problem, where=file, remedy="write one, with apiVersion and kind"))
    return manifests
