"""`tonnage up` and `down`: start and end a cluster on either engine, and never decide within it."""
