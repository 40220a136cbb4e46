"""How answers and errors reach a person or a script; never what they say."""
