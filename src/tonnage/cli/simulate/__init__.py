"""`tonnage simulate`: arguments and rendering; what would be placed is never decided here."""
