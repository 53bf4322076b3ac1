"""Memory of the server: pools of slots, and the radix tree over them."""
