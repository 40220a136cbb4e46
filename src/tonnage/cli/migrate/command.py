"""`tonnage migrate dra`: manifests that count GPUs as manifests that claim them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from tonnage.cli.awaited import awaited
from tonnage.cli.options import Common, common_options, examples
from tonnage.cli.terminal.failure import render_problem
from tonnage.cli.terminal.output import Verbatim, emit, line, printable, say, shell_word
from tonnage.model.json import JsonObject, JsonValue

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tonnage.cli.lint.files import Files
    from tonnage.diagnose.cluster_view import Ground
    from tonnage.diagnose.migrate.claim_migration import ClaimMigration
    from tonnage.diagnose.migrate.migrated_texts import MigratedText
    from tonnage.diagnose.migrate.same_devices import DeviceComparison


@click.group(help="Bring manifests to another form: GPU requests to claims.")
def command() -> None:
    """The group alone does nothing."""


@command.command(
    help="Turn GPU requests into claims: a DeviceClass, a ResourceClaimTemplate and the changed pod.\n\n"
    "Node affinity and nodeSelectors on the product, memory, family or compute capability of GPUs move into "
    "the DeviceClass; everything else stays. The command compares the devices that match before and after on "
    "the cluster, and names those that do not match both ways.",
    epilog=examples(
        "tonnage migrate dra train.yaml",
        "tonnage migrate dra deploy/ --diff",
        "tonnage migrate dra train.yaml --snapshot cluster.jsonl.gz",
        "tonnage migrate dra train.yaml --write    # change the file",
        "tonnage migrate dra deployment.yaml -o patch --no-cluster   # commands for what runs already",
    ),
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(allow_dash=True))
@click.option("--diff", "as_diff", is_flag=True, help="Show what changes in the files, as a diff.")
@click.option("--write", is_flag=True, help="Change the files in place; comments and order stay.")
@click.option("--no-cluster", is_flag=True, help="Do not read a cluster, and compare no devices.")
@common_options(output=("text", "patch", "json", "yaml"), cluster=True, namespace=True, snapshot=True)
def dra(common: Common, files: tuple[str, ...], as_diff: bool, write: bool, no_cluster: bool) -> int:
    """Exit status 1 when a pod stays as it is, or other devices match; 2 for what cannot be read."""
    from tonnage.cli.lint.files import read_files, write_text
    from tonnage.diagnose.lint.sheet import Sheet
    from tonnage.diagnose.migrate.migrated_texts import migrated_texts

    if "-" in files and str(common.snapshot) == "-":
        raise click.UsageError("stdin cannot be both FILE and --snapshot")
    if write and "-" in files:
        raise click.UsageError("stdin cannot be changed in place; --diff shows the changes")
    read = read_files(files, recursive=True)
    ground = None if no_cluster else awaited(_ground(common))
    sheets = [Sheet(text.name, text.content) for text in read.texts]
    for problem in (*read.problems, *(problem for sheet in sheets for problem in sheet.problems)):
        say(render_problem(problem, colour=True), err=True)
    readable = [sheet for sheet in sheets if not sheet.problems]
    migrated = list(migrated_texts(readable, common.namespace or "default", _products(ground)))
    compared = _compared(migrated, ground) if ground is not None else {}
    if write:
        contents = {text.name: text for text in read.texts}
        for text in migrated:
            if text.text != text.sheet.text:
                write_text(contents[text.sheet.name], text.text)
    _show(migrated, compared, common, as_diff=as_diff, written=write)
    return _status(read, sheets, migrated, compared)


def _status(
    read: Files,
    sheets: Sequence[object],
    migrated: Sequence[MigratedText],
    compared: Mapping[int, DeviceComparison],
) -> int:
    if read.problems or len(migrated) < len(sheets):
        return 2
    every = [migration for text in migrated for migration in text.migrations]
    left = any(migration.refusal for migration in every) or not every
    return int(left or any(not comparison.proven for comparison in compared.values()))


async def _ground(common: Common) -> Ground:
    """The cluster that the devices are compared on."""
    from tonnage.cli.cluster import snapshot_of
    from tonnage.diagnose.cluster_view import ground_of

    return ground_of(await snapshot_of(common, "migrate dra"), version=common.server_version or "")


def _products(ground: Ground | None) -> list[str]:
    """Names of products as drivers say them: of the cluster, and those that the catalogue knows."""
    from tonnage.model.catalog.gpus import gpu_models

    names = {model.product for model in gpu_models().values()}
    if ground is not None:
        snapshot = ground.view.snapshot
        names |= {device.product for report in snapshot.gpu.values() for device in report.devices}
        names |= {
            str(name)
            for part in snapshot.slices
            for device in part.devices
            if isinstance(name := device.attributes.get("productName"), str)
        }
    return sorted(name for name in names if name)


def _compared(migrated: Sequence[MigratedText], ground: Ground) -> dict[int, DeviceComparison]:
    """By identity of the migration. What cannot be decoded as a pod is not compared."""
    from tonnage.cli.lint.lint_context import read_pod
    from tonnage.diagnose.lint.manifest_objects import at_path, mapping
    from tonnage.diagnose.migrate.same_devices import compared_devices

    compared: dict[int, DeviceComparison] = {}
    for migration in (migration for text in migrated for migration in text.migrations):
        if migration.refusal is not None:
            continue
        site = migration.site
        document = migration.after()
        pods = [
            read_pod({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": spec})
            for spec in (site.spec, mapping(at_path(document, site.path)))
        ]
        before, after = pods
        if before is not None and after is not None:
            compared[id(migration)] = compared_devices(migration, before.pod, after.pod, ground)
    return compared


def _show(
    migrated: Sequence[MigratedText],
    compared: Mapping[int, DeviceComparison],
    common: Common,
    *,
    as_diff: bool,
    written: bool,
) -> None:
    if common.output in ("json", "yaml"):
        items: list[JsonValue] = [
            _json(text, migration, compared.get(id(migration)))
            for text in migrated
            for migration in text.migrations
        ]
        emit({"items": items}, common.output)
        return
    if not any(text.migrations for text in migrated):
        say("No manifest asks for GPUs by number.", err=True)
    if common.output == "patch":
        _show_patches(migrated)
        return
    from tonnage.diagnose.migrate.migrated_texts import yaml_of

    for text in migrated:
        for migration in text.migrations:
            for sentence in _lines(migration, compared.get(id(migration))):
                say(sentence)
    for text in migrated:
        if as_diff:
            say(printable(_diff(text)), end="")
        elif text.objects and not written:
            say("")
            say(f"# {text.sheet.name}: new objects; --diff shows the changed pods")
            say(printable(yaml_of(text.objects)), end="")


def _lines(migration: ClaimMigration, comparison: DeviceComparison | None) -> Iterator[str]:
    if migration.refusal is not None:
        yield f"{migration.subject}: stays as it is: {migration.refusal.message}"
        return
    requests = ", ".join(
        f"{request.count} of class {request.device_class}{f' ({request.profile})' if request.profile else ''}"
        for request in migration.requests
    )
    yield f"{migration.subject}: claims {requests}, by the template {migration.template}"
    yield from (f"  {note}" for note in migration.notes)
    if comparison is not None:
        yield from (f"  {line}" for line in comparison.lines())


def _json(text: MigratedText, migration: ClaimMigration, comparison: DeviceComparison | None) -> JsonObject:
    return {
        "file": text.sheet.name,
        "subject": migration.subject,
        "migrated": migration.refusal is None,
        "why": None if migration.refusal is None else migration.refusal.message,
        "notes": [*migration.notes],
        "objects": [*migration.objects()],
        "patch": _patch(migration),
        "devices": comparison.to_json() if comparison is not None else None,
    }


def _patch(migration: ClaimMigration) -> list[JsonValue]:
    """RFC 6902, for the object that stands."""
    above = migration.site.manifest.path
    return [change.to_json(above, exists=False) for change in migration.changes]


def _show_patches(migrated: Sequence[MigratedText]) -> None:
    """The new objects and, for what runs already, commands that change it. A pod must be created again."""
    from tonnage.diagnose.migrate.migrated_texts import yaml_of

    for text in migrated:
        if text.objects:
            say("kubectl apply -f - <<'EOF'")
            say(printable(yaml_of(text.objects)), end="")
            say("EOF")
        for migration in text.migrations:
            manifest = migration.site.manifest
            if migration.refusal is not None:
                say(f"# {migration.subject}: stays as it is: {migration.refusal.message}")
            elif manifest.kind == "Pod":
                say(f"# {migration.subject}: a pod cannot be changed: delete it, and apply the new file")
            else:
                kind, group = manifest.kind.lower(), manifest.group
                target = f"{kind}.{group}/{manifest.name}" if group else f"{kind}/{manifest.name}"
                words = ["kubectl", "patch", target, "-n", manifest.namespace, "--type=json", "-p"]
                patch = shell_word(json.dumps(_patch(migration)))
                say(Verbatim(" ".join([*map(shell_word, words), patch])))


def _diff(text: MigratedText) -> str:
    from tonnage.cli.terminal.diffs import unified_diff

    return unified_diff(text.sheet.text, text.text, line(text.sheet.name))
