"""The suite of ``conform`` for a running server, which it reaches through HTTP."""
