"""The resources that several parts of the server speak of, each as its group and plural."""

from __future__ import annotations

from typing import Final

from tonnage.twin.apiserver.object_store import Resource

API_SERVICE: Final[Resource] = ("apiregistration.k8s.io", "apiservices")
CLAIM: Final[Resource] = ("", "persistentvolumeclaims")
DEFINITION: Final[Resource] = ("apiextensions.k8s.io", "customresourcedefinitions")
DEPLOYMENT: Final[Resource] = ("apps", "deployments")
DEVICE_CLAIM: Final[Resource] = ("resource.k8s.io", "resourceclaims")
ENDPOINTS: Final[Resource] = ("", "endpoints")
ENDPOINT_SLICE: Final[Resource] = ("discovery.k8s.io", "endpointslices")
JOB: Final[Resource] = ("batch", "jobs")
NAMESPACE: Final[Resource] = ("", "namespaces")
NODE: Final[Resource] = ("", "nodes")
POD: Final[Resource] = ("", "pods")
SERVICE: Final[Resource] = ("", "services")
SERVICE_ACCOUNT: Final[Resource] = ("", "serviceaccounts")
VOLUME: Final[Resource] = ("", "persistentvolumes")
