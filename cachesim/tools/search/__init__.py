"""Conversations as real clients make them, properties that a cache must have, and the search for what breaks them."""
