"""YAML without what steers a terminal: PyYAML leaves bidirectional controls as they are."""

from __future__ import annotations

from typing import Any

import yaml

from tonnage.model.printable import printable_text


class PrintableDumper(yaml.SafeDumper):
    """Scalars with such code points stand in double quotes, as ASCII with escapes."""

    def analyze_scalar(self, scalar: str) -> Any:
        """Which styles a scalar may have."""
        analysis = super().analyze_scalar(scalar)
        if printable_text(scalar) != scalar:
            analysis.allow_flow_plain = analysis.allow_block_plain = False
            analysis.allow_single_quoted = analysis.allow_block = False
        return analysis

    def write_double_quoted(self, text: str, split: bool = True) -> None:
        """As PyYAML, in ASCII where something is not printable."""
        before = self.allow_unicode
        self.allow_unicode = before and printable_text(text) == text
        super().write_double_quoted(text, split)
        self.allow_unicode = before
