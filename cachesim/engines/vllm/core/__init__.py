"""Scheduling and cache management: requests, blocks, and which tokens a step evaluates."""
