"""Text of the page: introduction, findings, method."""

HEAD = """# Recorded agent sessions under the rules of servers

{sessions} recorded coding-agent sessions ({requests} requests, {tokens} million prompt tokens; from
callanjfox/kv-cache-tester, commit 94f6046, Apache-2.0), played by `cachesim workload`. `make workloads SESSIONS=FOLDER`
makes this page again.
"""

DISTANCES = """## How far from the bound

Evaluated tokens above the lower bound, in per cent of it: by default, and with the best of the settings where that is
another one (the fewest tokens; of equals the least memory).
"""

ALL = """## All sessions, default settings (hybrid, qwen3-next)

Per cent of the prompt tokens; MiB of checkpoints + prompt cache, the most after any answer.
"""

BOUNDS = """## Bounds

Per cent of the prompt tokens, default settings. "At least" is the lower bound that holds under any rules and any memory
(`cachesim/judging/lower_bound.py`); under the name of a rule set: the same rules with unlimited memory.
"""

LOSSES = """## Why tokens were evaluated again (hybrid, default settings)
"""

MEMORY = """## Memory

MiB of checkpoints + prompt cache, in the sizes of the real model: the most after any answer of any session.
"""

FINDINGS = """## What it says

Numbers are those of the hybrid model (qwen3-next) with the default settings in all sessions played, if nothing else is
said; "above the bound" is per cent of the least that any rules must evaluate.

- **How far from the bound?** The bound is {least} % of the prompt tokens. `latest` evaluates {latest} %
  ({latest_over}), `head` {head} % ({head_over}), `ik main` {ik} % ({ik_over}), mlx-lm 0.32.2 {mlx} % ({mlx_over}),
  `swa-first`, which makes no checkpoints for hybrid models, {swa} % ({swa_over}).
- **The best setting for one agent** is the default of a new llama-server. Unlimited memory gains it nothing
  ({latest_free} %). What must not be done is to switch checkpoints off: {without} % in place of {default} %. With 8
  checkpoints it is {eight} %, with 128 {many} %, without a distance between them {close} %.
- **Several agents want a slot and a context each.** Four sessions on one server need {four_least} % at the least.
  `latest` evaluates {four_default} by default (four slots in one context of 262,144 tokens, which is too small for
  them), {four_one} with one slot, {four_two} with two and {four_each} with four slots of 262,144 tokens each. One
  slot with a prompt cache without limit (`-np 1 --cache-ram -1`) comes to {four_one_all}. mlx-lm 0.32.2
  evaluates {mlx_four}. Unanswered are errors: the one context was full.
- **ik_llama.cpp with `-np 2` or more answers wrongly** if its model has recurrent layers: {ik_wrong} answers with
  `-np 4`. A checkpoint is restored into neighbouring cells. The cells of a slot are not neighbours once two
  conversations take turns, so that attention reads rows of other positions ([IK-D3](FAULTS.md#ik-d3)). A real server
  built from 8337e4c gives wrong answers in the same requests as the simulator (scenario `turns-of-two`). `-np 1` is
  right.
- **Sub-agents** need {agents_least} % at the least, in the seven sessions that have some. `latest` evaluates
  {agents_default} by default, {agents_one} with one slot, {agents_one_all} if the prompt cache has no limit
  besides, {agents_each} with four slots of their own.
- **ik_llama.cpp wants `--ctx-checkpoints 128`**: {ik_many} % in place of {ik_default} %; 8 are {ik_eight} %. It makes
  one every 512 tokens, so that 32 are soon too few, and the one that is needed is evicted.
- **The prompt cache hardly matters to one session at a time**: without it {no_cache} %, without its limit {all_cache} %
  in place of {default} %.
- **mlx-lm stores conversations at their ends only**: a prompt that leaves the one before it shortly before its end
  begins again at an older entry. Its ten entries have no limit in bytes by default: {mlx_gib} GiB at the most; give it
  `--prompt-cache-bytes`.
- **Wrong answers with windows** (gpt-oss): {window_latest} of `latest` and `head`, in three of the 30 sessions;
  {window_repaired} of `repaired`. In trace_0301 each restore of a window checkpoint loses a row
  ([window-erosion](FAULTS.md#window-erosion)), in trace_0497 and trace_0280 a batch that was only tried leaves rows
  purged ([tried-batch](FAULTS.md#tried-batch)); unscaled, as many answers of trace_0301 and trace_0497 are wrong.
  `swa-first`: {window_swa}.
  With the other kinds of model every answer is a cold run's. All answers that were compared: {judged}.
"""

METHOD = """## How it was counted

- *Tokens.* The recordings have an id for each full block of 64 tokens. The first later prompt that begins with all
  blocks of a prompt gives the rest: the tokens after its last block, and its answer, if there is room for it. Otherwise
  the answer is assumed to have been changed (its thinking removed). A message begins where an answer ends.
- *Scale.* 64 tokens are played as one; flags and numbers of the rules that count tokens, windows and bytes are scaled
  with them, and tokens counted as 64. Below, unscaled sessions stand beside it: under the llama.cpp rule sets it is
  off by less than 1 %, under ik_llama.cpp and mlx-lm by up to 4 %.
- *Order.* Requests are sent as recorded; only those whose recorded intervals all overlap are at work together. In
  which order those end depends on the scale: where that decides which slot a conversation gets, scaled and unscaled
  differ from there on (trace_0274 below).
- *Servers.* The default flags of each rule set; a context of 262,144 tokens, or the next power of two if a request
  needs it; bytes are those of the real models (F16 rows, F32 states), so that `--cache-ram` binds as it would. mlx-lm
  is sent plain completions, since recordings have no messages: it stores no segments of a chat.
- *Rule sets.* `latest` is b11549, `head` 3f545be, `repaired` b11549 with what it does wrong mended, `pr24143` that
  pull request on head. Flags that change nothing (options of checkpoints for a model of attention only, `-np 4 -kvu`
  where it is the default) are not played again. An engine that lacks a flag is n/a.
- *Checks.* Every cell asserts that no fewer tokens are evaluated than the bound. Judged cells are played twice,
  counted and by provenance, and must evaluate the same tokens.
- None of the 30 sessions has sub-agents; the seven that have some are from the same repository.
"""

UNSCALED = """## Unscaled (five sessions, hybrid, default settings)

Evaluated tokens with every token played; in parentheses how far the scaled ones are off.
"""

FINER = """## A finer scale (hybrid, default settings)

Evaluated tokens in per cent of the prompt tokens with 8 tokens as one, and with 64.
"""

TOGETHER = """## Four sessions on one server (hybrid)

The sessions in the order of their names, four on each server (the last has the rest), all begun at the same time:
`cachesim workload FOLDER --sessions 4 --scale 64`. By default a new llama-server has four slots that share the cells of
one context, ik_llama.cpp one slot; with `-np N` each slot has a context of its own.
"""

AGENTS = """## Sessions with sub-agents (hybrid)

Seven other sessions of the same repository: the main agent waits for its sub-agents, or goes on beside them.
"""
