"""What does cachesim make of files and command lines that nobody meant well?

A mutant is an input of ours that was changed: a scenario, a line, a recording, an option, the reply of a tested
process. Its number says which one it is, so every mutant can be made again. Each runs in a process of its own, with
bounds on time and memory, and must end as the documents say: a result, or one line about what is wrong.

    python -m tests.hostile --number 100000 --seed 0 --jobs 2        a campaign, which goes on where it stopped
    python -m tests.hostile --only trace:5                           one mutant: its files, its command line, its end
"""
