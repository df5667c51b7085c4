"""Logging a browser in with an OpenID provider."""
