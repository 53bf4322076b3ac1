"""Parts of the radix tree: full attention, window, recurrent state."""
