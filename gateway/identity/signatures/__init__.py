"""Keys and signed tokens as bytes: JSON Web Keys, JSON Web Tokens, the gateway's own keys."""
