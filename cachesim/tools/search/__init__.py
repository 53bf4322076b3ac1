"""Drawn conversations, the properties that a cache must have, and the search for conversations that violate them."""
