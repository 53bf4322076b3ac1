"""A scenario on a real server: its tokens, its requests, and the server itself."""
