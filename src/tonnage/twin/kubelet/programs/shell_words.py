"""Words, operators and redirections of the twin's shell."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Final, TypeAlias

_OPERATORS: Final = ("&&", "||", ";;", ";", "|", "&", "(", ")", "\n")
_TO_FILES: Final = ("out>", "out>>", "in<")
_LONGEST_NAME: Final = 256
_WORD_ENDS: Final = " \t\n;|&()<>"


class ShellUnsupportedError(Exception):
    """The script uses something that the twin's shell does not know."""


@dataclass(frozen=True, slots=True)
class WordPart:
    """A piece of a word. `kind`: text, stars, variable, arithmetic or command; `quoted` are never split."""

    kind: str
    text: str
    quoted: bool = False


Word: TypeAlias = tuple[WordPart, ...]


@dataclass(frozen=True, slots=True)
class ShellToken:
    """An operator (`word` None), a redirection to or from a file (`target`) or a word."""

    operator: str = ""
    word: Word | None = None
    target: Word | None = None


class Lexer:
    """Cuts a script into tokens."""

    def __init__(self, text: str) -> None:
        self._text = text.replace("\\\n", "")
        self._at = 0

    def tokens(self) -> list[ShellToken]:
        tokens: list[ShellToken] = []
        while self._at < len(self._text):
            char = self._text[self._at]
            if char in " \t\r":
                self._at += 1
            elif char == "#":
                end = self._text.find("\n", self._at)
                self._at = len(self._text) if end < 0 else end
            elif redirect := self._redirect():
                tokens.append(redirect)
            elif operator := next((o for o in _OPERATORS if self._text.startswith(o, self._at)), ""):
                self._at += len(operator)
                tokens.append(ShellToken(operator))
            else:
                tokens.append(ShellToken(word=self._word()))
        return tokens

    def _redirect(self) -> ShellToken | None:
        for form, name in (
            ("2>&1", "err>out"),
            (">&2", "out>err"),
            ("1>&2", "out>err"),
            ("&>", "both>"),
            ("2>", "err>"),
            ("1>", "out>"),
            (">>", "out>>"),
            (">", "out>"),
            ("<<", ""),
            ("<", "in<"),
        ):
            if not self._text.startswith(form, self._at):
                continue
            if not name or self._text.startswith(("1>>", "2>>"), self._at):
                raise ShellUnsupportedError("here-document or appending")
            self._at += len(form)
            if name in {"err>out", "out>err"}:
                return ShellToken(name)
            while self._text[self._at : self._at + 1] == " ":
                self._at += 1
            target = self._word()
            if target == (WordPart("text", "/dev/null"),):
                return ShellToken(name.replace(">>", ">"))
            if name not in _TO_FILES:
                raise ShellUnsupportedError("redirection of errors to a file")
            return ShellToken(name, target=target)
        return None

    def _word(self) -> Word:
        parts: list[WordPart] = []
        while self._at < len(self._text) and self._text[self._at] not in _WORD_ENDS:
            char = self._text[self._at]
            if char == "'":
                end = self._text.find("'", self._at + 1)
                if end < 0:
                    raise ShellUnsupportedError("open quote")
                parts.append(WordPart("text", self._text[self._at + 1 : end], quoted=True))
                self._at = end + 1
            elif char == '"':
                parts += self._double()
            elif char == "\\":
                parts.append(WordPart("text", self._text[self._at + 1 : self._at + 2], quoted=True))
                self._at += 2
            elif char == "$":
                parts.append(self._dollar(quoted=False))
            elif char == "*":
                parts.append(WordPart("stars", char))
                self._at += 1
            elif char in "`?~" and (char != "?" or not parts):
                raise ShellUnsupportedError(f"{char} in a word")
            else:
                parts.append(WordPart("text", char))
                self._at += 1
        return _joined(parts)

    def _double(self) -> list[WordPart]:
        parts = [WordPart("text", "", quoted=True)]
        self._at += 1
        while (char := self._text[self._at : self._at + 1]) != '"':
            if not char or char == "`":
                raise ShellUnsupportedError("open quote or backquote")
            if char == "$":
                parts.append(self._dollar(quoted=True))
                continue
            if char == "\\" and self._text[self._at + 1 : self._at + 2] in '$"\\`':
                self._at += 1
                char = self._text[self._at]
            parts.append(WordPart("text", char, quoted=True))
            self._at += 1
        self._at += 1
        return parts

    def _dollar(self, *, quoted: bool) -> WordPart:
        rest = self._text[self._at : self._at + _LONGEST_NAME]
        if rest.startswith("$(("):
            end = self._text.find("))", self._at)
            if end < 0:
                raise ShellUnsupportedError("open arithmetic")
            text, self._at = self._text[self._at + 3 : end], end + 2
            return WordPart("arithmetic", text, quoted)
        if rest.startswith("$("):
            end = self._closing(self._at + 1)
            text, self._at = self._text[self._at + 2 : end], end + 1
            return WordPart("command", text, quoted)
        if rest.startswith("${"):
            end = self._text.find("}", self._at)
            name, self._at = self._text[self._at + 2 : end], end + 1
            plain, _, default = name.partition(":-")
            if end < 0 or not plain.isidentifier() or "$" in default:
                raise ShellUnsupportedError("parameter expansion")
            return WordPart("variable", name, quoted)
        name = "".join(_leading_name(rest[1:])) or rest[1:2]
        if not name or not (name.isidentifier() or name in "?$#@*0123456789"):
            self._at += 1
            return WordPart("text", "$", quoted)
        self._at += 1 + len(name)
        return WordPart("variable", name, quoted)

    def _closing(self, start: int) -> int:
        depth = 0
        for index in range(start, len(self._text)):
            depth += {"(": 1, ")": -1}.get(self._text[index], 0)
            if depth == 0:
                return index
        raise ShellUnsupportedError("open command substitution")


def _leading_name(text: str) -> list[str]:
    name: list[str] = []
    for char in text:
        if not (char == "_" or (char.isalnum() and char.isascii())) or (not name and char.isdigit()):
            break
        name.append(char)
    return name


def _joined(parts: list[WordPart]) -> Word:
    joined: list[WordPart] = []
    for (kind, quoted), alike in groupby(parts, key=lambda part: (part.kind, part.quoted)):
        if kind in ("text", "stars"):
            joined.append(WordPart(kind, "".join(part.text for part in alike), quoted))
        else:
            joined += alike
    return tuple(joined)
