"""Adapters of released packages for ``conform``, with their known faults as expectations."""
