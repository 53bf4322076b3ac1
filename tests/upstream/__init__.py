"""Comparison of two llama.cpp trees: rules whose source changed. See CONTRIBUTING.md, "A build"."""
