"""Pages of the documentation, and the site that is built from them."""
