"""The store: objects, versions and watches, kept in SQLite if wished; it never knows a kind."""
