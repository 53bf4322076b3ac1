"""``cachesim memory``: memory that a server takes for the caches of a model, before it starts."""
