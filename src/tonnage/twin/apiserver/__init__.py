"""The twin's API server: it keeps and serves objects; controllers' work is never done here."""
