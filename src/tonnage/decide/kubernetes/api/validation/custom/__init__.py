"""Rules about CustomResourceDefinitions; objects of their kinds are judged in `api.custom`, never here."""
