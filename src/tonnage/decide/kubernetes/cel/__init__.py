"""CEL as the API server takes it: types, functions, costs; never an evaluation without bounds."""
