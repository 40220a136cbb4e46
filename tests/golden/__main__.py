"""`make golden`: write the records anew; `git diff tests/golden` shows what changed, which needs a reason."""

from __future__ import annotations

from golden.records import NAMES, RECORDS, path_of, recorder


def main() -> None:
    wanted = {path_of(name) for name in NAMES}
    for stale in set(RECORDS.rglob("*.txt")) - wanted:
        stale.unlink()
    changed = 0
    with recorder() as current:
        for name in NAMES:
            path, text = path_of(name), current(name)
            if not path.exists() or path.read_text() != text:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
                changed += 1
    print(f"{len(NAMES)} records, {changed} changed")


if __name__ == "__main__":
    main()
