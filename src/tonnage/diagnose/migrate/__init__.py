"""Manifests in another form: GPU requests as claims, and objects of older versions of resource.k8s.io."""
