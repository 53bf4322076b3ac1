"""What the page says in words: what it is, what was found, how it was counted."""

HEAD = """# Recorded agent sessions under the rules of servers

{sessions} recorded coding-agent sessions ({requests} requests, {tokens} million prompt tokens; from
callanjfox/kv-cache-tester, commit 94f6046, Apache-2.0), played by `cachesim workload`. `make workloads SESSIONS=FOLDER`
makes this page again. A number in parentheses is that of the sessions that were played, where it was not all of them.
"""

DISTANCES = """## How far from the bound

Evaluated tokens above the lower bound, in per cent of it: by default, and with the best of the settings where that is
another one (the fewest tokens; of equals the least memory).
"""

BOUNDS = """## Bounds

Per cent of the prompt tokens, default settings. "At least" is the lower bound that holds under any rules and any memory
(`cachesim/verdicts/lower_bound.py`); under the name of a rule set: the same rules with unlimited memory.
"""

LOSSES = """## Why tokens were evaluated again (hybrid, default settings)
"""

MEMORY = """## Memory

MiB of checkpoints + prompt cache, in the sizes of the real model: the most after any answer of any session.
"""

FINDINGS = """## What it says

"""

METHOD = """## How it was counted

"""

UNSCALED = """## Unscaled (five sessions, hybrid, default settings)

Evaluated tokens with every token played; in parentheses how far the scaled ones are off.
"""

FINER = """## A finer scale (hybrid, default settings)

Evaluated tokens in per cent of the prompt tokens with 8 tokens as one, and with 64.
"""
