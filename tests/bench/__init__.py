"""Benchmarks of speed and memory: ``make bench``. They are not part of the test suite, which does not measure time.

``rows`` lists what is measured, ``spellings`` writes a row for an older commit, ``drivers`` are the programs of rows
that no command covers, ``measure`` runs a row in a process of its own, ``checkout`` prepares the other commit, ``table``
prints and stores results, ``work`` counts work without a clock.
"""
