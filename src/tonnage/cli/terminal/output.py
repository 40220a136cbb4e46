"""The one way out: all that the program prints passes here, answers for scripts and lines for people.

Names and messages come out of clusters and files that others write. Whatever a text is put together from,
`say` shows what is not printable as an escape, newlines too; only the functions here make a `SafeText`, which
it writes as it stands. Colours are put on by `styled`, after the text was made printable.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TextIO

import click

from tonnage.cli.terminal.printable_json import printable_json
from tonnage.cli.terminal.wrapping import wrapped
from tonnage.model.json import JsonValue
from tonnage.model.printable import is_printable, printable_line, printable_text

_DELETE: Final = b"\x7f"
_ERASE_LINE: Final = "\r\x1b[K"
_CLEAR: Final = "\x1b[H\x1b[2J"
_OTHER_SCREEN: Final = "\x1b[?1049h\x1b[?25l"
_FIRST_SCREEN: Final = "\x1b[?25h\x1b[?1049l"
_HOME: Final = "\x1b[H"
_LINE_END: Final = "\x1b[K"
_SCREEN_END: Final = "\x1b[J"
_LEAST_COLUMNS: Final = 60
_USUAL_COLUMNS: Final = 80
_LONGEST_NUMBER: Final = 5
_PLAIN: Final = frozenset(range(0x20, 0x7F)) - frozenset(b"'\\")


class SafeText(str):
    """Text that a terminal may have as it stands, made by the functions of this module alone."""

    __slots__ = ()


class Verbatim(SafeText):
    """Safe text whose lines are kept as they are: a diff, or what another program says."""

    __slots__ = ()


def say(content: str = "", *, err: bool = False, end: str = "\n") -> None:
    """Print a line, or a SafeText; colours only where they are wanted.

    On a terminal it is wrapped to its width, unless it is Verbatim.
    """
    stream = sys.stderr if err else sys.stdout
    text, width = line(content), terminal_width(err=err)
    shown = text if width is None or isinstance(text, Verbatim) else wrapped(text, width)
    click.echo(f"{shown}{end}", nl=False, err=err, color=colour_wanted(stream, os.environ))


def emit(answer: JsonValue, output: str) -> None:
    """Print an answer as JSON or YAML: of what is not printable escapes, which are read as the same value."""
    shown = yaml_text(answer) if output == "yaml" else f"{_json_text(answer)}\n"
    click.echo(shown, nl=False, color=True)  # it has no colours that would have to be taken out


def emit_json_lines() -> Callable[[bytes], object]:
    """What writes whole lines of JSON to stdout, in the same way."""
    write = sys.stdout.buffer.write
    return lambda lines: write(_printable_json_bytes(lines))


def progress(content: str, *, end: str = "") -> None:
    """On a terminal one line in place of the one before it; nothing elsewhere."""
    if sys.stderr.isatty():
        click.echo(f"{_ERASE_LINE}{line(content)}{end}", err=True, nl=False, color=True)


def redraw(content: str) -> None:
    """Print a text in place of all that is on the terminal; elsewhere below what was printed before."""
    clear = _CLEAR if sys.stdout.isatty() else ""
    click.echo(f"{clear}{printable(content)}", color=colour_wanted(sys.stdout, os.environ))


def switch_screen(*, other: bool) -> None:
    """Go to the terminal's other screen, without a cursor; or back to what was there before, with it."""
    click.echo(_OTHER_SCREEN if other else _FIRST_SCREEN, nl=False, color=True)


def paint(rows: Sequence[str]) -> None:
    """Put the lines in the place of all that is on the screen, the first one bold where that is wanted."""
    bold = colour_wanted(sys.stdout, os.environ)
    shown = [styled(row, bold=True) if bold and not number else line(row) for number, row in enumerate(rows)]
    ended = f"{_LINE_END}\n".join(shown)
    click.echo(f"{_HOME}{ended}{_LINE_END}{_SCREEN_END}", nl=False, color=True)


def terminal_width(*, err: bool = False) -> int | None:
    """Columns of the terminal, of which at least 60 are used; None where the output goes to none."""
    stream = sys.stderr if err else sys.stdout
    if not stream.isatty():
        return None
    columns = os.environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit() and len(columns) < _LONGEST_NUMBER:
        return max(_LEAST_COLUMNS, int(columns))
    try:
        return max(_LEAST_COLUMNS, os.get_terminal_size(stream.fileno()).columns or _USUAL_COLUMNS)
    except OSError:
        return _USUAL_COLUMNS


def colour_wanted(stream: TextIO, environment: Mapping[str, str]) -> bool:
    """Whether to colour `stream`: a terminal, and nobody said no (`NO_COLOR`, `TERM=dumb`)."""
    return stream.isatty() and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"


def line(*parts: str) -> SafeText:
    """The parts behind one another on one line; a SafeText among them stays as it is.

    >>> line("node ", "a\\x1b[2J\\nb")
    'node a\\\\x1b[2J\\\\nb'
    """
    if len(parts) == 1 and isinstance(parts[0], SafeText):
        return parts[0]
    return SafeText("".join(part if isinstance(part, SafeText) else printable_line(part) for part in parts))


def lines(rows: Iterable[str]) -> SafeText:
    """A line below the other."""
    return SafeText("\n".join(map(line, rows)))


def printable(text: str) -> SafeText:
    """A text of several lines that are kept as they are: a diff, or what another program says.

    >>> printable("a\\x1b[2Jb\\n")
    'a\\\\x1b[2Jb\\n'
    """
    return text if isinstance(text, SafeText) else Verbatim(printable_text(text))


def indented(text: str, margin: int) -> SafeText:
    """The same below a label: every line but the first begins after so many blanks."""
    return SafeText(printable(text).replace("\n", "\n" + " " * margin))


def styled(text: str, *, fg: str | None = None, bold: bool | None = None) -> SafeText:
    """A line, or a SafeText, in a colour."""
    return SafeText(click.style(line(text), fg=fg, bold=bold))


def shell_word(text: str) -> SafeText:
    r"""The text as one word of a shell's command line.

    >>> shell_word("/a b"), shell_word("/a\x1b'ö\u202e")
    ("'/a b'", "$'/a\\x1b\\x27\\xc3\\xb6\\xe2\\x80\\xae'")
    """
    if is_printable(text):
        return SafeText(shlex.quote(text))
    quoted = "".join(chr(byte) if byte in _PLAIN else f"\\x{byte:02x}" for byte in os.fsencode(text))
    return SafeText(f"$'{quoted}'")


def yaml_text(answer: JsonValue) -> str:
    """An answer as YAML."""
    import yaml

    from tonnage.cli.terminal.yaml_output import PrintableDumper

    text: str = yaml.dump(answer, Dumper=PrintableDumper, sort_keys=False, allow_unicode=True)
    return text


def _json_text(answer: JsonValue) -> str:
    import msgspec

    try:
        written = msgspec.json.format(msgspec.json.encode(answer), indent=2)
    except UnicodeEncodeError:  # a lone surrogate, such as of a file's name that is not UTF-8
        import json

        return printable_json(json.dumps(answer, indent=2, ensure_ascii=False)).decode()
    return _printable_json_bytes(written).decode()


def _printable_json_bytes(document: bytes) -> bytes:
    """Almost every answer is ASCII, which is seen at once."""
    return document if document.isascii() and _DELETE not in document else printable_json(document.decode())
