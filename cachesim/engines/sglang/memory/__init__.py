"""Memory of the server: slot pools and the radix tree over them."""
