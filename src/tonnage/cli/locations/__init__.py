"""Where things lie that commands use: programs, folders, labs, sockets, state; never what is in them."""
