"""Credentials and callers that hold no more."""
