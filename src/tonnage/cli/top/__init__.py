"""`tonnage top`: where usage is read, the screen and its keys."""
