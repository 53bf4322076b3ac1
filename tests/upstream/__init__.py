"""Comparison of two llama.cpp trees: rules whose source changed. See CONTRIBUTING.md, "a new llama.cpp"."""
