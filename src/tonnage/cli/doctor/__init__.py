"""`tonnage doctor`: arguments and rendering; what is wrong with a node is never decided here."""
