"""The radix tree: its nodes, locks, lists and parts."""
