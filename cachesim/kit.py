"""The former name of ``cachesim.tools.conformance``; it goes on working, with a hint."""

import warnings

from cachesim.tools.conformance import Finding, Memory, Nonconforming, Reply, Report, Result, Toy, conform

__all__ = ["Finding", "Memory", "Nonconforming", "Reply", "Report", "Result", "Toy", "conform"]

warnings.warn("cachesim.kit is now called cachesim.tools.conformance", DeprecationWarning, stacklevel=2)
