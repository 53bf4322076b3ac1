"""Which of our rules does a new llama.cpp touch? Compares two trees; see CONTRIBUTING.md, "a new llama.cpp"."""
