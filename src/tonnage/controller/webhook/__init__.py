"""The webhook that judges configurations of claims at admission, and its certificate."""
