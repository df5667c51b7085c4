"""Reading the configuration: YAML with places, secrets, checks, and watching files for changes."""
