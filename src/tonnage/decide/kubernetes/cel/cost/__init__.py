"""What an expression may cost at most, estimated before it runs; never measured."""
