"""Speaking with one OpenID provider: its documents, its keys, what it says of tokens, its logins."""
