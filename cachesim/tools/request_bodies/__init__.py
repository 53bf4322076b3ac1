"""Import of request bodies sent by a client: the position and cause of each change between consecutive prompts, and a
scenario made from them."""
