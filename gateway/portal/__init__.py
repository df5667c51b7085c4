"""The gateway's own pages: an aiohttp application, one more backend that is reached by the same relay."""
