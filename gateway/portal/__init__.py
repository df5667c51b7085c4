"""The gateway's own pages: one more backend, an aiohttp application on a Unix socket, reached by the same relay."""
