"""CDI specs as doctor reads them: whatever lies in the folders, soon and with little memory."""

from __future__ import annotations

from pathlib import Path

from tonnage.adapters.node_facts.cdi import cdi_facts
from tonnage.adapters.node_facts.files import NodeFiles

ETC = "etc/cdi"
LARGE = 4 << 20


def test_a_key_that_comes_again_after_very_many_is_named(tmp_path: Path) -> None:
    (tmp_path / ETC).mkdir(parents=True)
    keys = ",".join(f'"k{number}":0' for number in range(150_000))
    (tmp_path / ETC / "a.json").write_text(f'{{{keys},"k149999":1}}')
    (spec,) = cdi_facts(NodeFiles(tmp_path)).specs
    assert spec.trouble == 'failed to parse CDI Spec: key "k149999" already set in map'


def test_of_specs_that_are_too_large_together_the_first_are_looked_at(tmp_path: Path) -> None:
    for folder, number in ((ETC, 6), ("var/run/cdi", 3)):
        (tmp_path / folder).mkdir(parents=True)
        for name in range(number):
            with (tmp_path / folder / f"{name}.json").open("wb") as file:
                file.truncate(LARGE)
    facts = cdi_facts(NodeFiles(tmp_path))
    assert [spec.path for spec in facts.specs] == [
        *(f"/etc/cdi/{name}.json" for name in range(4)),
        *(f"/var/run/cdi/{name}.json" for name in range(3)),
    ]
    assert facts.crowded == {"/etc/cdi": 6}
