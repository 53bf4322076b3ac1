"""Benchmarks of speed and memory: ``make bench``. They are not part of the test suite, which does not measure time.

``rows`` is the list of rows, ``spellings`` writes a row for an older commit, ``inputs`` has the files that rows read,
``drivers`` has the programs of rows that do not run a command. ``measure`` runs a row, each command in a process that
``launch`` starts and reads. ``checkout`` prepares the other commit, ``table`` prints results, ``results`` keeps them in
``results.md``, ``work`` counts work without a clock.
"""
