"""Which MPS daemons a node needs, with which limits; none is ever started here."""
