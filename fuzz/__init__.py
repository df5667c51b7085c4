"""Searching for what nobody thought of: each harness holds a part of the gateway against a second reading of it.

Knows: the gateway, second implementations of what it reads, atheris (in `engine.py` alone). Only tests import it.
"""
