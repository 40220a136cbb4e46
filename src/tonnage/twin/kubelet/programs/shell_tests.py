"""`test` and `[` of the twin's shell."""

from __future__ import annotations

from tonnage.twin.kubelet.containers.files import FileTree


async def test(words: list[str], files: FileTree) -> int:
    """The exit status of `test WORDS`."""
    match words:
        case ["!", *rest]:
            return int(await test(rest, files) == 0)
        case ["-e" | "-f" | "-r" | "-s" | "-d" as operator, path]:
            return await _test_file(operator, path, files)
        case ["-n", text] | [text]:
            return int(not text)
        case ["-z", text]:
            return int(bool(text))
        case [left, "=" | "==", right]:
            return int(left != right)
        case [left, "!=", right]:
            return int(left == right)
        case [left, "-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge" as operator, right]:
            return _compare(left, operator, right)
    return 1


async def _test_file(operator: str, path: str, files: FileTree) -> int:
    content = await files.read(path)
    folder = content is None and await files.names(path) is not None
    verdicts = {"-d": folder, "-f": content is not None, "-s": bool(content)}
    return int(not verdicts.get(operator, folder or content is not None))


def _compare(left: str, operator: str, right: str) -> int:
    try:
        a, b = int(left), int(right)
    except ValueError:
        return 2
    holds = {"-eq": a == b, "-ne": a != b, "-lt": a < b, "-le": a <= b, "-gt": a > b, "-ge": a >= b}
    return int(not holds[operator])
