"""The same case in the simulator and on a real server, request by request."""
