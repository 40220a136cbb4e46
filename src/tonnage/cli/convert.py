"""`tonnage convert`: objects of older versions of resource.k8s.io in the form of v1."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tonnage.cli.options import Common, common_options, examples
from tonnage.cli.terminal.failure import render_problem
from tonnage.cli.terminal.output import emit, line, printable, say
from tonnage.model.json import JsonValue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tonnage.diagnose.migrate.api_conversion import ConvertedText


@click.command(
    help="Convert ResourceClaims, templates, DeviceClasses and ResourceSlices of v1beta1 and v1beta2 to v1."
    "\n\n"
    "Print the converted text. Comments and order stay, unless a document must be written anew, which is "
    "said. FILE is a file, a pattern, - for stdin, or a folder.",
    epilog=examples(
        "tonnage convert claims.yaml",
        "tonnage convert deploy/ --diff",
        "tonnage convert deploy/ --write            # change the files",
        "kubectl get resourceclaims.v1beta1.resource.k8s.io -o yaml | tonnage convert -",
    ),
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(allow_dash=True))
@click.option("--diff", "as_diff", is_flag=True, help="Show what changes in the files, as a diff.")
@click.option("--write", is_flag=True, help="Change the files in place.")
@common_options(output=("text", "json", "yaml"))
def command(common: Common, files: tuple[str, ...], as_diff: bool, write: bool) -> int:
    """Exit status 1 when an object stays in an older version; 2 for what cannot be read."""
    from tonnage.cli.lint.files import read_files, write_text
    from tonnage.diagnose.lint.sheet import Sheet
    from tonnage.diagnose.migrate.api_conversion import converted_text

    if write and "-" in files:
        raise click.UsageError("stdin cannot be changed in place; without --write the text is printed")
    read = read_files(files, recursive=True)
    sheets = [Sheet(text.name, text.content) for text in read.texts]
    for problem in (*read.problems, *(problem for sheet in sheets for problem in sheet.problems)):
        say(render_problem(problem, colour=True), err=True)
    converted = [converted_text(sheet) for sheet in sheets if not sheet.problems]
    contents = {text.name: text for text in read.texts}
    for text in converted:
        if write and text.text != text.sheet.text:
            write_text(contents[text.sheet.name], text.text)
    _show(converted, common, as_diff=as_diff, write=write)
    if read.problems or len(converted) < len(sheets):
        return 2
    return int(any(part.refusal for text in converted for part in text.objects))


def _show(converted: Sequence[ConvertedText], common: Common, *, as_diff: bool, write: bool) -> None:
    """The texts or diffs on stdout; what is to be known of objects on stderr."""
    if common.output in ("json", "yaml"):
        items: list[JsonValue] = [
            {
                "file": text.sheet.name,
                "subject": part.subject,
                "version": part.version,
                "converted": part.refusal is None,
                "why": None if part.refusal is None else part.refusal.message,
                "comments_lost": part.anew,
            }
            for text in converted
            for part in text.objects
        ]
        emit({"items": items}, common.output)
        return
    for text in converted:
        for part in text.objects:
            if part.refusal is not None or write:
                converted_to = f"{part.version} converted to v1"
                outcome = part.refusal.message if part.refusal is not None else converted_to
                say(f"{part.subject}: {outcome}", err=True)
            if part.anew:
                say(f"{part.subject}: written anew; comments of its document are lost", err=True)
        if as_diff:
            say(printable(_diff(text)), end="")
        elif not write:
            say(printable(text.text), end="" if text.text.endswith("\n") else "\n")
    if converted and not any(text.objects for text in converted):
        say("No object is of an older version of resource.k8s.io.", err=True)


def _diff(text: ConvertedText) -> str:
    from tonnage.cli.terminal.diffs import unified_diff

    return unified_diff(text.sheet.text, text.text, line(text.sheet.name))
