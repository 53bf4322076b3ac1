"""Decisions of the server as pure functions. Lengths and positions are tokens."""
