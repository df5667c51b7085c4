"""Calls are held against the terms of their grant: what they may ask for, and which fields they may send."""
