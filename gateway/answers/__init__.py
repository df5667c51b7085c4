"""What is read from answers as they pass: token counts, where an event stream ends."""
