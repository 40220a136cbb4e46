"""Volumes of pods as far as they have a say in where a pod may run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PodVolume:
    """A volume of a pod that comes from a PersistentVolumeClaim; `ephemeral`: one made for the pod."""

    name: str
    claim: str
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class VolumeClaim:
    """A PersistentVolumeClaim. `volume` is what it is or shall be bound to; `bound`: it is."""

    namespace: str
    name: str
    volume: str = ""
    bound: bool = False
    storage_class: str = ""
    lost: bool = False
    terminating: bool = False
    owner: str = ""


@dataclass(frozen=True, slots=True)
class StorageClass:
    """A storage class; `waits`: a claim is bound when a pod that uses it is placed.

    `provisioner` makes its volumes.
    """

    name: str
    waits: bool = False
    provisioner: str = ""
