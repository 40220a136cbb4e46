"""What a snapshot has in place of what was taken out of it."""

from __future__ import annotations

from typing import Final

REDACTED: Final = "[redacted]"
