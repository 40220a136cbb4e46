"""Names of a StatefulSet's revisions, which are made of what they keep."""

from __future__ import annotations

import pytest

from tonnage.model.json import JsonObject
from tonnage.twin.controllers.pod_templates import kept_template, revision_hash


def _template(image: str) -> JsonObject:
    """A template as a 1.35 server completes it."""
    return {
        "metadata": {"labels": {"a": "ss"}},
        "spec": {
            "containers": [
                {
                    "name": "c",
                    "image": image,
                    "resources": {},
                    "terminationMessagePath": "/dev/termination-log",
                    "terminationMessagePolicy": "File",
                    "imagePullPolicy": "Always",
                }
            ],
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "securityContext": {},
            "schedulerName": "default-scheduler",
        },
    }


@pytest.mark.parametrize(("image", "name"), [("i", "699ddb9dc5"), ("n", "58568b6bd6")])
def test_a_revision_has_the_name_that_a_genuine_controller_gives_it(image: str, name: str) -> None:
    assert revision_hash(kept_template(_template(image)), 0) == name
