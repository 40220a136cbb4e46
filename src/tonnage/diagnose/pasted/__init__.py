"""What pasted texts mean: of the scheduler part by part, of the API server and controllers by line. Pure."""
