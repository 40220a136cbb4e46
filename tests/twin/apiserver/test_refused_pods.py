"""What a genuine API server says to pods with one thing in them each, the twin says word for word."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.api_stores import new_store
from tonnage.model.errors import ApiError
from tonnage.twin.apiserver.requests import FieldValidation, Options, ResourcePath
from tonnage.twin.apiserver.server import ApiServer
from tonnage.twin.apiserver.verbs import Verbs
from tonnage.twin.clock import VirtualClock

RECORDED = yaml.load(
    (Path(__file__).parents[2] / "diagnose" / "refused_pods.yaml").read_text(), yaml.CSafeLoader
)


@pytest.fixture(scope="module")
def verbs() -> Verbs:
    """Of a server of which everything is asked as a dry run: nothing is left behind."""
    return ApiServer(VirtualClock(), store=new_store()).verbs


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: str(case["about"]))
async def test_a_pod_is_refused_in_the_servers_words(verbs: Verbs, case: dict[str, Any]) -> None:
    manifest = json.loads(case["manifest"])
    group, _, version = manifest["apiVersion"].rpartition("/")
    served = verbs.registry.find_kind(group, version, manifest["kind"])
    assert served is not None
    path = (group, version, served.row.plural)
    options = Options(dry_run=True, field_validation=FieldValidation.STRICT)
    request = verbs.request("create", ResourcePath(path, "default"), options=options)
    said = ""
    try:
        await verbs.create(request, manifest)
    except ApiError as error:
        said = error.message
    assert said == case["said"]
