"""`sh` and `bash` inside a pretended container: a small honest subset, and pretending for the rest."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final, TypeAlias

from tonnage.model.whole_numbers import whole_number
from tonnage.twin.kubelet.containers.files import FileError
from tonnage.twin.kubelet.containers.runtime_port import ContainerContext, Program, Stdio
from tonnage.twin.kubelet.programs.arithmetic import evaluate
from tonnage.twin.kubelet.programs.basic import matches, pretend
from tonnage.twin.kubelet.programs.shell_streams import Piped
from tonnage.twin.kubelet.programs.shell_syntax import (
    AndOr,
    If,
    Node,
    Sequence,
    ShellPipeline,
    Simple,
    While,
    parse_script,
)
from tonnage.twin.kubelet.programs.shell_tests import test
from tonnage.twin.kubelet.programs.shell_words import ShellUnsupportedError, Word, WordPart

Finder: TypeAlias = Callable[[ContainerContext], Program | None]
_BUILTINS: Final = frozenset(
    {":", "exit", "cd", "export", "set", "unset", "wait", "trap", "test", "[", "exec"}
)
_WRITTEN: Final = {"": "out", "/dev/stdout": "out", "/dev/stderr": "err"}
"""Where output goes that is written to no file."""
_DEEPEST: Final = 20
_LONGEST_WORD: Final = 128 << 10
"""Linux's MAX_ARG_STRLEN."""
_LONGEST_WORDS: Final = 2 << 20
"""What a program may be given altogether, variables included."""
_MOST_INPUT: Final = 64 << 10
_TOO_LONG: Final = 126


class _ExitError(Exception):
    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class _TooLongError(Exception):
    """Words or variables have become longer than any program can be given."""


async def shell(context: ContainerContext, find: Finder) -> int:
    """Run `sh [-c SCRIPT [NAME ARGUMENT…]]`, or the lines of standard input.

    As a container's main process, a script that the twin cannot run as it stands (its grammar or one of its
    commands is unknown) is pretended as a whole; executed by a person it fails as a shell would.
    """
    options = list(context.argv[1:])
    while options and options[0] in {"-l", "-e", "-x", "-u", "-i", "--login", "-o", "pipefail"}:
        options.pop(0)
    if options and options[0].startswith("-") and options[0].endswith("c") and len(options) > 1:
        return await _run_script(context, find, options[1], options[2:])
    if options:
        return await pretend(context) if context.main else _no_file(context, options[0])
    return await _interactive(context, find)


def _no_file(context: ContainerContext, name: str) -> int:
    context.stdio.write_error(f"{context.argv[0]}: {name}: No such file or directory\n".encode())
    return 127


async def _run_script(context: ContainerContext, find: Finder, script: str, arguments: list[str]) -> int:
    interpreter = _Interpreter(context, find, arguments)
    try:
        tree = parse_script(script)
    except ShellUnsupportedError as error:
        if context.main:
            return await pretend(context, f"the twin's shell does not know this: {error}")
        context.stdio.write_error(
            f"{context.argv[0]}: the twin's shell does not know this: {error}\n".encode()
        )
        return 127
    if context.main and not all(interpreter.knows(name) for name in _commands_in(tree)):
        return await pretend(context)
    try:
        return await interpreter.run(tree)
    except _ExitError as ended:
        return ended.code


async def _interactive(context: ContainerContext, find: Finder) -> int:
    interpreter = _Interpreter(context, find, [])
    prompt = b"# " if context.interactive else b""
    pending = b""
    context.stdio.write(prompt)
    while typed := await context.stdio.read():
        if context.interactive:
            context.stdio.write(typed.replace(b"\r", b"\r\n"))
            typed = typed.replace(b"\r", b"\n")
        if b"\x04" in typed:
            break
        *lines, pending = (pending + typed).split(b"\n")
        if len(pending) > _MOST_INPUT:
            context.stdio.write_error(b"line too long\n")
            return 2
        for line in lines:
            try:
                interpreter.status = await interpreter.run(parse_script(line.decode(errors="replace")))
            except ShellUnsupportedError as error:
                context.stdio.write_error(f"the twin's shell does not know this: {error}\n".encode())
                interpreter.status = 2
            except _ExitError as ended:
                return ended.code
            context.stdio.write(prompt)
    return interpreter.status


def _commands_in(node: Node) -> Iterator[str]:
    match node:
        case Simple(words=words):
            if words and all(part.kind == "text" for part in words[0]):
                yield "".join(part.text for part in words[0])
        case ShellPipeline(commands=nodes) | Sequence(items=nodes):
            for inner in nodes:
                yield from _commands_in(inner)
        case AndOr(first=first, rest=rest):
            yield from _commands_in(first)
            for _, inner in rest:
                yield from _commands_in(inner)
        case While(condition=condition, body=body):
            yield from _commands_in(condition)
            yield from _commands_in(body)
        case If(branches=branches, otherwise=otherwise):
            for branch in (*branches, *([(otherwise, otherwise)] if otherwise else [])):
                yield from _commands_in(branch[0])
                yield from _commands_in(branch[1])


class _Interpreter:
    def __init__(self, context: ContainerContext, find: Finder, arguments: list[str]) -> None:
        self._context = context
        self._find = find
        self._variables = dict(context.env)
        self._variables |= {str(index): text for index, text in enumerate(arguments or [context.argv[0]])}
        # Repeatable on purpose: RANDOM depends on the pod alone.
        self._random = random.Random(context.pod.metadata.uid)  # noqa: S311
        self._depth = 0
        self.status = 0

    def knows(self, name: str) -> bool:
        """Whether a command is one that the twin can run."""
        return name in _BUILTINS or self._find(replace(self._context, argv=(name,))) is not None

    async def run(self, node: Node, stdio: Stdio | None = None) -> int:
        """The exit status of the node. Raises _ExitError when the script ends itself."""
        streams = stdio or self._context.stdio
        match node:
            case Sequence(items=items):
                for inner in items:
                    self.status = await self.run(inner, streams)
            case Simple():
                self.status = await self._simple(node, streams)
            case AndOr():
                self.status = await self._and_or(node, streams)
            case ShellPipeline():
                self.status = await self._pipeline(node, streams)
            case While(condition=condition, body=body):
                while await self.run(condition, streams) == 0:
                    self.status = await self.run(body, streams)
                    await self._context.work.command(self._context.clock)
            case If(branches=branches, otherwise=otherwise):
                self.status = await self._if(branches, otherwise, streams)
        return self.status

    async def _and_or(self, node: AndOr, streams: Stdio) -> int:
        status = await self.run(node.first, streams)
        for needs_success, inner in node.rest:
            if (status == 0) == needs_success:
                status = await self.run(inner, streams)
        return status

    async def _if(
        self, branches: tuple[tuple[Node, Node], ...], otherwise: Node | None, streams: Stdio
    ) -> int:
        for condition, body in branches:
            if await self.run(condition, streams) == 0:
                return await self.run(body, streams)
        return await self.run(otherwise, streams) if otherwise is not None else 0

    async def _pipeline(self, node: ShellPipeline, streams: Stdio) -> int:
        stdin: bytes | None = None
        status = 0
        for index, command in enumerate(node.commands):
            last = index == len(node.commands) - 1
            pipe = Piped(streams, self._context.work, stdin=stdin, out="out" if last else "keep")
            status = await self.run(command, pipe)
            stdin = bytes(pipe.content)
        return int(status == 0) if node.negated else status

    async def _filed(self, node: Simple, streams: Stdio) -> int:
        """Run a command whose input or output is a file."""
        files = self._context.files
        stdin, written = None, ("", "")
        for operator, target in node.files:
            path = " ".join(await self._fields(target))
            if operator != "in<":
                written = operator, path
            elif (stdin := await files.read(path)) is None:
                return self._line_error(streams, f"{path}: No such file or directory", 1)
        out = _WRITTEN.get(written[1], "keep")
        pipe = Piped(streams, self._context.work, stdin=stdin, out=out)
        status = await self._simple(replace(node, files=()), pipe)
        if out == "keep":
            try:
                await files.write(written[1], bytes(pipe.content), append=written[0] == "out>>")
            except FileError as error:
                return self._line_error(streams, f"{written[1]}: {error}", 1)
        return status

    def _line_error(self, streams: Stdio, text: str, status: int) -> int:
        streams.write_error(f"{self._context.argv[0]}: line 1: {text}\n".encode())
        return status

    async def _simple(self, node: Simple, streams: Stdio) -> int:
        await self._context.work.command(self._context.clock)
        try:
            return await (self._filed(node, streams) if node.files else self._plain(node, streams))
        except _TooLongError:
            return self._line_error(streams, "Argument list too long", _TOO_LONG)

    async def _plain(self, node: Simple, streams: Stdio) -> int:
        values = {name: " ".join(await self._fields(word)) for name, word in node.assignments}
        words = await self._expand(node.words)
        if not words:
            self._set(values)
            return 0
        if node.out != "out" or node.err != "err" or node.no_input:
            stdin = b"" if node.no_input else None
            streams = Piped(streams, self._context.work, stdin=stdin, out=node.out, err=node.err)
        if words[0] in _BUILTINS:
            return await self._builtin(words, streams)
        context = replace(
            self._context,
            argv=tuple(words),
            env={**{name: value for name, value in self._variables.items() if not name.isdigit()}, **values},
            stdio=streams,
            interactive=False,
            main=False,
        )
        program = self._find(context)
        if program is None:
            missing = "No such file or directory" if "/" in words[0] else "command not found"
            return self._line_error(streams, f"{words[0]}: {missing}", 127)
        return await program(context) & 0xFF

    async def _builtin(self, words: list[str], streams: Stdio) -> int:
        match words:
            case ["exit", *rest]:
                number = whole_number(rest[0]) if rest else None
                raise _ExitError(self.status if number is None else number & 0xFF)
            case ["exec", *rest] if rest:
                raise _ExitError(
                    await self._simple(Simple((), tuple(_quoted(text) for text in rest)), streams)
                )
            case ["export", *rest]:
                for text in rest:
                    name, equals, value = text.partition("=")
                    if equals:
                        self._set({name: value})
            case ["unset", *rest]:
                for name in rest:
                    self._variables.pop(name, None)
            case ["test", *rest]:
                return await test(rest, self._context.files)
            case ["[", *rest]:
                return await test(rest[:-1], self._context.files)
        return 0

    def _set(self, values: Mapping[str, str]) -> None:
        """Raises _TooLongError: all variables together are more than a program could be given."""
        self._variables |= values
        if sum(len(name) + len(value) for name, value in self._variables.items()) > _LONGEST_WORDS:
            for name in values:
                del self._variables[name]
            raise _TooLongError

    async def _expand(self, words: tuple[Word, ...]) -> list[str]:
        expanded: list[str] = []
        size = 0
        for word in words:
            fields = await self._fields(word)
            if any(part.kind == "stars" for part in word):
                fields = [path for field in fields for path in await matches(self._context, field) or [field]]
            size += sum(map(len, fields)) + len(fields)
            if size > _LONGEST_WORDS:
                raise _TooLongError
            expanded += fields
        return expanded

    async def _fields(self, word: Word) -> list[str]:
        fields = [""]
        some = False
        size = 0
        for part in word:
            text = await self._value(part.kind, part.text)
            size += len(text)
            literal = part.quoted or part.kind in ("text", "stars")
            if size > (_LONGEST_WORD if literal else _LONGEST_WORDS):
                raise _TooLongError
            if literal:
                fields[-1] += text
                some = True
                continue
            pieces = text.split()
            if not pieces:
                continue
            fields[-1] += pieces[0]
            fields += pieces[1:]
            some = True
        return fields if some else []

    async def _value(self, kind: str, text: str) -> str:
        if kind in ("text", "stars"):
            return text
        if kind == "variable":
            return self._variable(text)
        if kind == "arithmetic":
            return str(evaluate(text, self._variable))
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _ExitError(2)
        try:
            pipe = Piped(self._context.stdio, self._context.work, out="keep")
            await self.run(parse_script(text), pipe)
        except ShellUnsupportedError:
            return ""
        finally:
            self._depth -= 1
        return bytes(pipe.content).decode(errors="replace").rstrip("\n")

    def _variable(self, text: str) -> str:
        name, _, default = text.partition(":-")
        if name == "RANDOM":
            return str(self._random.randrange(32768))
        if name == "?":
            return str(self.status)
        if name == "$":
            return "1"
        if name in {"@", "*"}:
            return " ".join(value for key, value in self._variables.items() if key.isdigit() and key != "0")
        return self._variables.get(name, "") or default


def _quoted(text: str) -> Word:
    return (WordPart("text", text, quoted=True),)
