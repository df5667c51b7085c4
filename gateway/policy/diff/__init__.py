"""What changes when one policy takes the place of another, for everybody whom either can tell apart."""
