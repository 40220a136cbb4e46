"""Rules about volumes, claims for them and storage classes; a pod's own volumes are in `pods`, never here."""
