"""`tonnage migrate`: arguments and rendering; what becomes of a manifest is never decided here."""
