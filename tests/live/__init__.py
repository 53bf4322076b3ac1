"""The real llama-server and ours side by side: ``make live``. Needs a server that was built; the tests do not."""
