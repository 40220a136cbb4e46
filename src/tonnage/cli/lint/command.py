"""`tonnage lint`: what is wrong with manifests and GPU configuration before they are applied."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tonnage.cli.awaited import awaited
from tonnage.cli.options import Common, common_options, examples
from tonnage.cli.terminal.failure import render_problem
from tonnage.cli.terminal.output import emit, printable, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tonnage.cli.lint.files import Files, ReadableFile
    from tonnage.diagnose.lint.lint import LintContext, LintReport
    from tonnage.diagnose.lint.sheet import Sheet
    from tonnage.model.json import JsonValue


@click.command(
    help="Check manifests and GPU configuration before they are applied.\n\n"
    "Quotas, claims and classes, device-plugin, MIG and operator configuration, also in ConfigMaps. "
    "FILE is a file, a pattern, - for stdin, or a folder, whose .yaml, .yml and .json files are read unless "
    "hidden. lint lists what it does not know as not judged. It reads no cluster without --snapshot, "
    "--kubeconfig or --context; with one it also checks that named objects exist and that nodes would take "
    "the pods.",
    epilog=examples(
        "tonnage lint deploy/",
        "tonnage lint job.yaml --snapshot cluster.json",
        "kustomize build . | tonnage lint - --context production",
        "tonnage lint claims.yaml --fix --dry-run   # show the repairs as a diff",
        "tonnage lint . -o sarif > lint.sarif",
    ),
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(allow_dash=True))
@click.option(
    "-R",
    "--recursive/--no-recursive",
    default=True,
    help="Read subfolders, too [default: yes].",
)
@click.option(
    "--fix",
    is_flag=True,
    help="Repair the files in place where the repair is certain; comments and order stay.",
)
@click.option("--dry-run", "--diff", "dry_run", is_flag=True, help="Show what --fix would do, as a diff.")
@common_options(output=("text", "json", "yaml", "sarif"), cluster=True, namespace=True, snapshot=True)
def command(common: Common, files: tuple[str, ...], recursive: bool, fix: bool, dry_run: bool) -> int:
    """Exit status 1 for errors and warnings, 2 for what cannot be read, or when nothing was judged."""
    from tonnage.cli.lint.files import read_files, write_text
    from tonnage.cli.lint.lint_context import given_for
    from tonnage.diagnose.lint.lint import lint

    if "-" in files and str(common.snapshot) == "-":
        raise click.UsageError("stdin cannot be both FILE and --snapshot")
    read = read_files(files, recursive=recursive)
    if fix and not dry_run and any(text.path is None for text in read.texts):
        raise click.UsageError("stdin cannot be repaired in place; --dry-run shows the diff")
    sheets = _sheets(read)
    context = awaited(given_for(common, sheets))
    if not (fix or dry_run):
        return _answered(lint(sheets, context), read, common, context)
    from tonnage.diagnose.lint.repair import repaired_texts

    fixed = repaired_texts(sheets, context)
    changed = [text for text in read.texts if text.name in fixed.sheets]
    if dry_run:
        diffs = {text.name: _diff(text, fixed.sheets[text.name].text) for text in changed}
        return _answered(fixed.before, read, common, context, diffs)
    for text in changed:
        write_text(text, fixed.sheets[text.name].text)
    return _answered(fixed.after, read, common, context, repaired=len(changed))


def check_mig_parted(common: Common, files: tuple[str, ...]) -> int:
    """The same of files which, where they are no objects of Kubernetes, must be configurations of MIG."""
    from dataclasses import replace

    from tonnage.cli.lint.files import read_files
    from tonnage.cli.lint.lint_context import given_for
    from tonnage.diagnose.lint.lint import lint

    read = read_files(files, recursive=False)
    named = frozenset(text.name for text in read.texts if text.path is None or text.name in files)
    sheets = _sheets(read)
    context = replace(awaited(given_for(common, sheets)), mig_parted=named)
    return _answered(lint(sheets, context), read, common, context)


def _sheets(read: Files) -> Sequence[Sheet]:
    """The texts, each of which is parsed once, whoever asks for its documents."""
    from tonnage.diagnose.lint.sheet import Sheet

    return [Sheet(text.name, text.content) for text in read.texts]


def _diff(text: ReadableFile, new: str) -> str:
    from tonnage.cli.terminal.diffs import unified_diff

    return unified_diff(text.content, new, text.name)


def _answered(
    report: LintReport,
    read: Files,
    common: Common,
    context: LintContext,
    diffs: dict[str, str] | None = None,
    repaired: int = 0,
) -> int:
    """The exit status, after everything is said. `diffs`: what repairs would change; `repaired`: files."""
    from tonnage.diagnose.lint.fix import repairs
    from tonnage.diagnose.lint.lint import with_fixable
    from tonnage.model.severity import Severity

    report = with_fixable(report, (repair.index for repair in repairs(report)))
    if common.output in ("json", "yaml"):
        _emit(report, read, common, context, diffs or {}, repaired)
    else:
        _show(report, read, common, context, diffs or {}, repaired)
    for problem in (*read.problems, *report.unreadable):
        say(render_problem(problem, colour=True), err=True)
    for note in read.notes:
        say(note, err=True)
    if report.unreadable or read.problems:
        return 2
    if report.count(Severity.ERROR) + report.count(Severity.WARNING):
        return 1
    return 0 if report.judged else 2


def _emit(
    report: LintReport,
    read: Files,
    common: Common,
    context: LintContext,
    diffs: dict[str, str],
    repaired: int,
) -> None:
    """The answer for programs."""
    from tonnage.cli.lint.report import answer

    problems, counts = (*read.problems, *report.unreadable), (len(read.texts), repaired)
    changes: list[JsonValue] = [{"file": name, "diff": diff} for name, diff in diffs.items()]
    emit({**answer(report, problems, counts, context.cluster), "changes": changes}, common.output)


def _show(
    report: LintReport,
    read: Files,
    common: Common,
    context: LintContext,
    diffs: dict[str, str],
    repaired: int,
) -> None:
    """The answer as text or SARIF."""
    from tonnage import __version__
    from tonnage.cli.lint.report import rendered

    problems = (*read.problems, *report.unreadable)
    if common.output == "sarif":
        from tonnage.diagnose.lint.coverage import unread_of
        from tonnage.diagnose.lint.fix import repairs
        from tonnage.diagnose.lint.sarif import sarif

        cluster = context.cluster
        unread = unread_of(cluster.ground.view.snapshot) if cluster is not None else ()
        fixes = {repair.index: repair for repair in repairs(report)}
        emit(sarif(report.findings, problems, __version__, fixes, report.unjudged, unread), "json")
        return
    for text in diffs.values():
        say(printable(text), end="")
    counts = (len(read.texts), repaired)
    say(rendered(report, problems, counts, verbose=common.verbose, colour=True))
