"""`tonnage mig`: arguments and rendering; which layouts there are is never decided here."""
