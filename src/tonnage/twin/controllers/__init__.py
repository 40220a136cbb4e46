"""The twin's controllers: loops over the API as their own users; never a look into the store."""
