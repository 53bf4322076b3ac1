"""Reports: how results and errors look on a screen or as JSON. They decide nothing."""
