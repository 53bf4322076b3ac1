"""Scheduler, its policy, its batches and requests, and the worker."""
