"""The types of what expressions know: objects, requests, policies; never their values."""
