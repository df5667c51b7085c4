"""Names and passwords of all directories, and how failed ones are slowed down."""
