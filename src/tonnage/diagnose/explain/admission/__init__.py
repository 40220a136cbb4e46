"""What the API server says to a manifest, in its words and in ours; never a word of nodes."""
