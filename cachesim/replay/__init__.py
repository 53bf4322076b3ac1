"""Recorded traces of real servers: read, checked, and replayed step by step against our rule sets."""
