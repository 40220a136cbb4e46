"""Rules of the API group resource.k8s.io: device classes, claims, slices; never which device is chosen."""
