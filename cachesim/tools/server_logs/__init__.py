"""Import of server logs: reconstruct the requests of a log as a scenario. Logs may be pasted, wrapped, truncated and of
any build. Their lines are untrusted data, read within fixed limits."""
