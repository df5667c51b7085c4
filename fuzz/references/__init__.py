"""Second implementations, each behind one function that reads exactly one message or says why it does not."""
