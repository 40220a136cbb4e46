"""`python -m tonnage`: the command line without an installed script."""

from __future__ import annotations

from tonnage.cli.main import main

if __name__ == "__main__":
    main()
