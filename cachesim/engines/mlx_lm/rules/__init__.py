"""Decisions of the server, one pure function each. Lengths and positions are tokens."""
