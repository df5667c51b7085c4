"""Who calls: everything that a caller can show, and who is asked about it."""
