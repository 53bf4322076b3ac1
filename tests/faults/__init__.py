"""Fault injection into running commands: killed processes, full disks, closed pipes. ``python -m tests.faults`` prints
a table."""
