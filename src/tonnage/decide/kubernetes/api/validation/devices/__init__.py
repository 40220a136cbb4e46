"""Rules of the API group resource.k8s.io: device classes, claims and slices; never which device is allocated."""
