"""Tables that `kubectl get` shows: columns by kind out of an object, and never out of the store."""
