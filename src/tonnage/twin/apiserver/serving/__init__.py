"""HTTP faces of the server: listening, encoding, streams; what a request means is never decided here."""
