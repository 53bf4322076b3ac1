"""What must the fuzzer find, and where must it find nothing? Most of it is marked slow."""
