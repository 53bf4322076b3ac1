"""cachesim: the reference simulator of KV-cache and recurrent-state cache semantics in LLM servers."""

__version__ = "0.1.0"
