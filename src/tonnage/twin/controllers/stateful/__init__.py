"""StatefulSets: pods by number, one after the other; never two of one number."""
