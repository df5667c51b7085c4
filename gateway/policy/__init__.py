"""Who may do what with which model: the engine, and the files a security team edits."""
