"""What became of calls: audit lines, numbers, the metrics page."""
