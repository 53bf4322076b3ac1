"""Comparison of a scenario in the simulator and on a real server, request by request."""
