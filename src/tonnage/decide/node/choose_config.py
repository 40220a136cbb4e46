"""Which device-plugin configuration a node asks for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from tonnage.model.devices.sharing import PluginConfig
from tonnage.model.errors import Problem
from tonnage.model.names import CONFIG_LABEL
from tonnage.model.node.plugin_settings import FALLBACKS

DEFAULT_KEY: Final = "default"
_FALLBACKS: Final = ("named", "single", "empty")
_MOST_KEYS: Final = 20


@dataclass(frozen=True, slots=True)
class ConfigChoice:
    """A configuration as text; `source` says where it is from, `key` is the ConfigMap's key."""

    text: str
    source: str
    key: str = ""


@dataclass(frozen=True, slots=True)
class ConfigInForce:
    """What the node runs, and why it is not what was asked for (empty when it is)."""

    config: PluginConfig
    choice: ConfigChoice
    error: str = ""
    device_list: str = ""
    """What `deviceListStrategy: auto` came to, and why; empty where it is not asked for."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """How a node asks: by the value of its label, else the key `default`, else by the fallbacks in order.

    `config_map` is `NAMESPACE/NAME`. Of the fallbacks `named` is the key of that name, `single` the only key,
    `empty` the file, else what is built in.
    """

    config_map: str
    label: str = CONFIG_LABEL
    default: str = ""
    fallbacks: tuple[str, ...] = FALLBACKS


def unknown_fallbacks(fallbacks: Iterable[str]) -> Problem | None:
    """What is wrong with a list of fallbacks."""
    unknown = next((name for name in fallbacks if name not in _FALLBACKS), None)
    if unknown is None:
        return None
    remedy = f"some of {', '.join(_FALLBACKS)}"
    return Problem(f"unknown fallback strategy: {unknown[:60]!r}", "--fallback-strategies", remedy=remedy)


def choose(
    label_value: str | None,
    configs: Mapping[str, str] | None,
    file: ConfigChoice | None,
    wishes: Wishes,
    *,
    absent: str = "does not exist",
) -> ConfigChoice | Problem:
    """The configuration that a node asks for with its label's value, or why there is none.

    `configs` is None when there is no ConfigMap, `absent` says why. Source: NVIDIA/k8s-device-plugin v0.20,
    cmd/config-manager; a file is Tonnage's own.
    """
    if label_value:
        return _keyed(label_value, configs, wishes, f"label {wishes.label}", absent)
    if wishes.default:
        return _keyed(wishes.default, configs, wishes, "--default-config", absent)
    keys = configs or {}
    for fallback in wishes.fallbacks:
        if fallback == "named" and DEFAULT_KEY in keys:
            return _of(DEFAULT_KEY, keys, wishes)
        if fallback == "single" and len(keys) == 1:
            return _of(next(iter(keys)), keys, wishes)
        if fallback == "empty":
            return file or ConfigChoice("", "built-in")
    return file or Problem(
        "no config was set, no default was provided, and all fallbacks failed",
        "--fallback-strategies",
        f"ConfigMap {wishes.config_map} {absent}" if configs is None else _listed(keys),
        f"label the node {wishes.label}, or add empty to the fallbacks",
    )


def _keyed(
    key: str, configs: Mapping[str, str] | None, wishes: Wishes, where: str, absent: str
) -> ConfigChoice | Problem:
    if configs is not None and key in configs:
        return _of(key, configs, wishes)
    return Problem(
        f"no device-plugin configuration {key[:63]!r}",
        where,
        f"ConfigMap {wishes.config_map} " + (absent if configs is None else "has no such key"),
        _listed(configs) if configs else f"create ConfigMap {wishes.config_map} with that key",
    )


def _listed(configs: Mapping[str, str]) -> str:
    return f"its keys: {', '.join(sorted(configs)[:_MOST_KEYS]) or 'none'}"


def _of(key: str, configs: Mapping[str, str], wishes: Wishes) -> ConfigChoice:
    return ConfigChoice(configs[key], f"{wishes.config_map}[{key}]", key)
