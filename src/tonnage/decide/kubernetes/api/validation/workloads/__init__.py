"""Rules of the API groups apps, batch and policy; what their templates say of pods is in `pods`, never here."""
