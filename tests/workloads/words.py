"""What the page says in words: what it is, what was found, how it was counted."""

HEAD = """# Recorded agent sessions under the rules of servers

{sessions} recorded coding-agent sessions ({requests} requests, {tokens} million prompt tokens; from
callanjfox/kv-cache-tester, commit 94f6046, Apache-2.0), played by `cachesim workload`. `make workloads SESSIONS=FOLDER`
makes this page again. A number in parentheses is that of the sessions that were played, where it was not all of them.
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
