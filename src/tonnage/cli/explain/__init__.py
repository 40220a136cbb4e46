"""`tonnage explain`: arguments and rendering; why a pod waits is never decided here."""
