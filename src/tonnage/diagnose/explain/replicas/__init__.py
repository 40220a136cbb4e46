"""All pods of all manifests of a file, placed one after the other; a single pod is explained beside it."""
