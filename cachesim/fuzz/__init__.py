"""Conversations as real clients make them, properties that a cache owes, and the search for one that breaks another."""
