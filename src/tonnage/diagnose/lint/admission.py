"""What lint says about one object that is to be stored, for a webhook: of claims, templates and classes."""

from __future__ import annotations

from typing import Final

from tonnage.diagnose.lint.finding import Draft
from tonnage.diagnose.lint.manifest_objects import ManifestObject, mapping
from tonnage.diagnose.lint.rule_inputs import KindFields, RuleInputs
from tonnage.diagnose.lint.rules import claims
from tonnage.diagnose.lint.sheet import Sheet
from tonnage.documents.yaml.reader import field_path
from tonnage.model.admission import AdmissionJudgement, FieldRefusal
from tonnage.model.json import JsonObject
from tonnage.model.reasons.lint.manifests import ClaimConfigInvalid
from tonnage.model.severity import Severity

_NO_TEXT: Final = Sheet("", "")
"""Objects of requests were not written by a person: their findings have no line."""


def judge_claims(value: JsonObject) -> AdmissionJudgement:
    """The findings on a claim, a template or a class; nothing is found of any other kind.

    Refused is what the driver will refuse and the API server takes. All else that lint calls an error or a
    warning is a warning: the server has the last word about its own fields.
    """
    namespace = mapping(value.get("metadata")).get("namespace")
    own = namespace if isinstance(namespace, str) else ""
    manifest = ManifestObject(_NO_TEXT, 0, (), value, own)
    inputs = RuleInputs((manifest,), KindFields(), lambda _pod: None)
    drafts = list(claims.of_manifest(manifest, inputs))
    return AdmissionJudgement(
        tuple(
            FieldRefusal(field_path(draft.path), _words(draft))
            for draft in drafts
            if isinstance(draft.reason, ClaimConfigInvalid)
        ),
        tuple(
            f"{field_path(draft.path)}: {_words(draft)}"
            for draft in drafts
            if not isinstance(draft.reason, ClaimConfigInvalid) and _severity(draft) is not Severity.NOTE
        ),
    )


def _severity(draft: Draft) -> Severity:
    return draft.severity or draft.reason.severity


def _words(draft: Draft) -> str:
    """The finding in lint's words, on one line."""
    reason = draft.reason
    return f"{reason.message} [{reason.code}]" + (f"; {reason.remedy}" if reason.remedy else "")
