"""What must the fuzzer find, and where must it find nothing? Not collected by pytest, the tests marked slow apart."""
