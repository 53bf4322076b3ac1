"""What engines really share: batches, forced sampling, rows in cells, shares in single precision."""
