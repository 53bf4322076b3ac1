"""Benchmarks of speed and memory: ``make bench``. They are not part of the test suite, which does not measure time.

``rows`` is the list of rows, ``spellings`` writes a row for an older commit, ``drivers`` has the programs of rows that
do not run a command, ``measure`` runs a row in a process of its own, ``checkout`` prepares the other commit, ``table``
prints and stores results, ``work`` counts work without a clock.
"""
