"""`tonnage cdi`: arguments and rendering; what a spec holds is never decided here."""
