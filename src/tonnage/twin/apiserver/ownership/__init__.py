"""Who owns which field of an object: server-side apply and its kin; never whether it is valid."""
