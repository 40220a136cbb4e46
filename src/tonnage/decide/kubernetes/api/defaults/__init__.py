"""What the server fills in where a writer left a field out; never over a value that was sent."""
