"""Bearer tokens: who vouches for which, what they say, what they are bound to."""
