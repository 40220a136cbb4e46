"""Who owns which field of an object: server-side apply, and the bookkeeping that every other write owes it."""
