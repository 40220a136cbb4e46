"""Who owns which field of an object: server-side apply, and what every other write owes it."""
