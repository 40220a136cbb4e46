"""How a patch changes an object, in each of the forms that clients send; never what the outcome may be."""
