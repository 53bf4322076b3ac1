"""The table of recorded agent sessions under rule sets, kinds of model and settings (``make workloads``)."""
