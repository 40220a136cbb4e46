"""Variables out of files that containers write, in a strict subset of what a shell reads.

Source: Kubernetes 1.35, pkg/kubelet/util/env.
"""

from __future__ import annotations

from collections.abc import Iterator


def variable_in(text: str, wanted: str) -> str:
    """The value of a variable in a file of lines `NAME='value'`; empty where the file has none.

    What stands after the variable is not looked at. Raises ValueError for a line before it that is none.

    >>> variable_in("# made by init\\nA='1' # one\\nB='2\\n3'\\n", "B")
    '2\\n3'
    """
    lines = iter(text.removesuffix("\n").split("\n"))
    for whole in lines:
        line = whole.lstrip(" \t")
        if not line or line.startswith("#"):
            continue
        name, equals, value = line.partition("=")
        if not equals or not name or name != name.rstrip(" \t"):
            raise ValueError(f"no variable: {line}")
        if value.startswith((" ", "\t")):
            found = ""
        elif value.startswith("'"):
            found = _quoted(value[1:], lines)
        else:
            raise ValueError(f"value without quotes: {line}")
        if name == wanted:
            return found
    return ""


def _quoted(rest: str, following: Iterator[str]) -> str:
    """What stands before the closing quote, maybe lines later."""
    found, quote, after = rest.partition("'")
    while not quote:
        line = next(following, None)
        if line is None:
            raise ValueError("quote without an end")
        more, quote, after = line.partition("'")
        found += f"\n{more}"
    after = after.lstrip(" \t")
    if after and not after.startswith("#"):
        raise ValueError(f"text after a quote: {after}")
    return found
