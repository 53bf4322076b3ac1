"""Fuzz test of malformed files and command lines.

A mutant is a changed input: a scenario, a line, a recording, an option, or the reply of a tested process. Its number
reproduces it. Each mutant runs in a separate process with limits on time and memory. It must end as documented: with a
result, or with a line about the error.

    python -m tests.hostile --number 100000 --seed 0 --jobs 2        run a campaign, or continue it
    python -m tests.hostile --only trace:5                           show a mutant: its files, command line and end
"""
