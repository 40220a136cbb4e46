"""`tonnage access`: the rights that commands need, and what a command says when it lacks some."""
