"""From a request to what it asks for: the rule tables, paths, bodies, model names."""
