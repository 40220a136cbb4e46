"""What others have written into an object of ours, and what they have only added."""

from __future__ import annotations

import pytest

from tonnage.decide.cluster.operate.drift import has_kept
from tonnage.model.json import JsonObject, JsonValue

MAIN: JsonObject = {
    "name": "main",
    "image": "ours:1",
    "args": ["init"],
    "env": [{"name": "EMPTY", "value": ""}, {"name": "COUNT", "value": "1"}],
    "resources": {"limits": {"cpu": "0.5", "memory": 1024}},
    "volumeMounts": [{"mountPath": "/a", "name": "x"}],
}
WANTED: JsonObject = {
    "nodeSelector": {"part": "true"},
    "hostNetwork": False,
    "tolerations": [{"key": "a", "operator": "Exists"}],
    "containers": [MAIN],
}


def changed(container: JsonObject | None = None, **spec: JsonValue) -> JsonObject:
    return {**WANTED, "containers": [{**MAIN, **(container or {})}], **spec}


@pytest.mark.parametrize(
    "standing",
    [
        pytest.param(WANTED, id="nothing"),
        pytest.param(changed(dnsPolicy="ClusterFirst"), id="a default"),
        pytest.param(
            changed({"env": [{"name": "EMPTY"}, {"name": "COUNT", "value": "1"}]}),
            id="an empty value is not stored",
        ),
        pytest.param(changed({"resources": {"limits": {"cpu": "500m", "memory": "1Ki"}}}), id="quantities"),
        pytest.param(
            changed(containers=[{"name": "theirs"}, MAIN]), id="a container of a webhook's, before ours"
        ),
        pytest.param(changed(nodeSelector={"part": "true", "zone": "a"}), id="one more label"),
    ],
)
def test_what_is_added_changes_nothing(standing: JsonObject) -> None:
    assert has_kept(standing, WANTED)


@pytest.mark.parametrize(
    "standing",
    [
        pytest.param({}, id="all is gone"),
        pytest.param(changed({"image": "theirs:1"}), id="another image"),
        pytest.param(changed({"args": ["init", "more"]}), id="one more argument"),
        pytest.param(changed({"args": []}), id="no argument"),
        pytest.param(
            changed({"env": [{"name": "EMPTY", "value": "x"}, {"name": "COUNT", "value": "1"}]}), id="a value"
        ),
        pytest.param(
            changed({"env": [{"name": "EMPTY"}, {"name": "COUNT", "value": "1000m"}]}),
            id="a value that would be as much, were it an amount",
        ),
        pytest.param(changed({"resources": {"limits": {"cpu": "501m", "memory": 1024}}}), id="an amount"),
        pytest.param(changed({"volumeMounts": [{"mountPath": "/b", "name": "x"}]}), id="another place"),
        pytest.param(changed(hostNetwork=True), id="a switch"),
        pytest.param(changed(nodeSelector={"part": "false"}), id="a label"),
        pytest.param(changed(tolerations=[]), id="a toleration is gone"),
    ],
)
def test_what_is_changed_is_seen(standing: JsonObject) -> None:
    assert not has_kept(standing, WANTED)
