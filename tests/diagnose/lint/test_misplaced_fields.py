"""Fields of a ClusterPolicy that stand in the wrong section, as people write them."""

from __future__ import annotations

import asyncio

import pytest

from tonnage.cli.lint.lint_context import given_for
from tonnage.cli.options import Common
from tonnage.diagnose.lint.lint import lint
from tonnage.diagnose.lint.sheet import Sheet


@pytest.mark.parametrize(
    ("section", "remedy"),
    [
        (
            "driver: {use_ocp_driver_toolkit: true}",
            "the field of that name is spec.operator.use_ocp_driver_toolkit",
        ),
        ("devicePlugin: {mig: {strategy: single}}", "the field of that name is spec.mig"),
        ("driver: {tolerations: []}", "the field of that name is spec.daemonsets.tolerations"),
        ("toolkit: {installdir: /opt}", "use installDir if you meant that"),
        ("driver: {nodeSelector: {}}", "use one of: args, certConfig,"),
    ],
)
def test_where_the_field_is_is_said(section: str, remedy: str) -> None:
    head = "apiVersion: nvidia.com/v1\nkind: ClusterPolicy\nmetadata: {name: cluster-policy}\nspec:\n  "
    report = lint([Sheet("policy.yaml", head + section)], asyncio.run(given_for(Common(), [])))
    [remedies] = [f.reason.remedy for f in report.findings if f.code == "cluster-policy-key-unknown"]
    assert remedies.startswith(remedy)
