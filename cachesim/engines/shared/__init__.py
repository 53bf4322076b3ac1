"""Parts shared by the engines: batches, samplers, rows in cells, rule sets, restore points, flags and sizes."""
