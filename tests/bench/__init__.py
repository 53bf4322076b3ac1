"""Speed and memory of cachesim, measured: ``make bench``. Not part of the test suite, which never times anything."""
