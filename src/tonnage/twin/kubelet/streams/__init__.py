"""exec, attach and logs as kubectl speaks them: SPDY and WebSocket; never what a program prints."""
