"""Texts whose pods claim their GPUs: the new objects first, and edits that leave all else as it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from tonnage.diagnose.lint.manifest_objects import PodSite, items_of
from tonnage.diagnose.lint.sheet import Sheet, TextEdit
from tonnage.diagnose.migrate.claim_migration import ClaimMigration, claim_migrations
from tonnage.diagnose.migrate.text_changes import NotEditableError, block_lines, edited, text_edits
from tonnage.model.json import JsonObject
from tonnage.model.json_access import text as text_at
from tonnage.model.reasons.pod.migration import TextNotEditable


@dataclass(frozen=True, slots=True)
class MigratedText:
    """A text with what becomes of its pods; `text` is the old one where nothing could be migrated."""

    sheet: Sheet
    migrations: tuple[ClaimMigration, ...]
    objects: tuple[JsonObject, ...]
    text: str


def migrated_texts(
    sheets: Sequence[Sheet], namespace: str, products: Sequence[str]
) -> Iterator[MigratedText]:
    """The texts one after another; an object that one of them has already is not made twice."""
    existing: set[tuple[str, str, str]] = set()
    for sheet in sheets:
        existing |= {_key(part.value) for part in items_of(sheet, namespace)}
    for sheet in sheets:
        migrations = [m for part in items_of(sheet, namespace) for m in claim_migrations(part, products)]
        edits: list[TextEdit] = []
        tried: list[ClaimMigration] = []
        for document, group in groupby(migrations, key=lambda m: m.site.manifest.document):
            own_edits, own = _edits(sheet, document, [*group])
            edits += own_edits
            tried += own
        objects: list[JsonObject] = []
        for body in (body for migration in tried for body in migration.objects()):
            if _key(body) not in existing:
                existing.add(_key(body))
                objects.append(body)
        yield MigratedText(sheet, tuple(tried), tuple(objects), _with(objects, edited(sheet.text, edits)))


def yaml_of(objects: Iterable[JsonObject]) -> str:
    """Objects as documents of YAML."""
    return "---\n".join("\n".join([*block_lines(body, 0), ""]) for body in objects)


def _with(objects: Sequence[JsonObject], text: str) -> str:
    if not objects:
        return text
    first = text.removeprefix("---\n")
    return f"{yaml_of(objects)}---\n{first}"


def _edits(
    sheet: Sheet, document: int, migrations: list[ClaimMigration]
) -> tuple[list[TextEdit], list[ClaimMigration]]:
    """The edits of one document, or none where its text cannot be edited: then its pods stay as they are."""
    changes = [change for migration in migrations for change in migration.changes]
    if not changes:
        return [], migrations
    why = "the file is JSON, where claims and pods cannot stand one after another: write it as YAML"
    if not sheet.text.lstrip().startswith(("{", "[")):
        try:
            return text_edits(sheet, document, changes), migrations
        except NotEditableError as error:
            why = f"its text cannot be edited: {error}"
    return [], [
        migration if migration.refusal else _unedited(migration.site, why) for migration in migrations
    ]


def _unedited(site: PodSite, why: str) -> ClaimMigration:
    return ClaimMigration(site, refusal=TextNotEditable(subject=site.manifest.subject, message=why))


def _key(body: JsonObject) -> tuple[str, str, str]:
    return text_at(body, "kind"), text_at(body, "metadata", "namespace"), text_at(body, "metadata", "name")
