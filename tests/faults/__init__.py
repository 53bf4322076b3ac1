"""What is left of a command after something died, was full, or went away? ``python -m tests.faults`` shows a table."""
