"""Where the CEL library is left out, as in the agent's image, a selector is unsupported, never false."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
sys.modules["cel_expr_python"] = None
from tonnage.decide.kubernetes.claims.cel_errors import CelUnsupportedError
from tonnage.decide.kubernetes.claims.expressions import CelSelector
try:
    CelSelector("device.driver == 'gpu.nvidia.com'", 35)
except CelUnsupportedError as error:
    print(error)
"""


def test_a_selector_is_unsupported_without_the_library() -> None:
    answer = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60
    )
    assert answer.stdout == "CEL, which the agent's image leaves out\n"
