"""A body of YAML as the JSON that a server makes of it: keys sorted, the last of a key that stands twice.

Source: sigs.k8s.io/yaml (YAMLToJSON, YAMLToJSONStrict).
"""

from __future__ import annotations

from tonnage.decide.kubernetes.api.encoding.body import Repeated
from tonnage.model.json import JsonObject, JsonValue


def parse_yaml(content: bytes) -> JsonValue:
    """The first document; with keys that stand twice it is `Repeated`.

    Raises:
        ConfigError: it is no YAML, or over a bound.
        UnicodeDecodeError: it is no text.
    """
    # kubectl turns YAML into JSON itself; only hand-made requests come here. Reading is the documents' task,
    # which bounds aliases and depth; its imports are heavy and seldom needed.
    from tonnage.documents.yaml.reader import read_yaml_all

    documents, _ = read_yaml_all(content.decode(), source="body")
    if not documents:
        return None
    value = _sorted(documents[0].value)
    if not isinstance(value, dict) or not documents[0].repeated:
        return value
    marked = Repeated(value)
    marked.lines = tuple(
        f'line {line}: key "{key}" already set in map' for key, line in documents[0].repeated
    )
    return marked


def _sorted(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        ordered: JsonObject = {key: _sorted(value[key]) for key in sorted(value)}
        return ordered
    return [_sorted(element) for element in value] if isinstance(value, list) else value
