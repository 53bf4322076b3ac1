"""Text of the page: introduction, findings, method."""

HEAD = """# Recorded agent sessions under the rules of servers

{sessions} recorded coding-agent sessions ({requests} requests, {tokens} million prompt tokens; from
callanjfox/kv-cache-tester, commit 94f6046, Apache-2.0), run by `cachesim workload`. `make workloads SESSIONS=FOLDER`
writes this page.
"""

DISTANCES = """## Distance from the bound

Evaluated tokens above the lower bound, in per cent of it: with the default settings and, if different, with the best
settings (fewest tokens; among equals, least memory).
"""

ALL = """## All sessions, default settings (hybrid, qwen3-next)

Per cent of the prompt tokens; MiB of checkpoints + prompt cache, maximum after any answer.
"""

BOUNDS = """## Bounds

Per cent of the prompt tokens, default settings. "At least" is the lower bound for any rules and any memory
(`cachesim/judging/lower_bound.py`). The column of a rule set: the same rules with unlimited memory.
"""

LOSSES = """## Why tokens were re-evaluated (hybrid, default settings)
"""

MEMORY = """## Memory

MiB of checkpoints + prompt cache, in the sizes of the real model: maximum after any answer of any session.
"""

FINDINGS = """## Findings

Unless stated otherwise, numbers are for the hybrid model (qwen3-next) with the default settings in all sessions. "Above
the bound" is per cent of the minimum that any rules must evaluate.

- **Distance from the bound.** The bound is {least} % of the prompt tokens. `latest` evaluates {latest} %
  ({latest_over}), `b10587` {b10587} % ({b10587_over}), `ik main` {ik} % ({ik_over}), mlx-lm 0.32.2 {mlx} %
  ({mlx_over}), `b6160`, which creates no checkpoints for hybrid models, {b6160} % ({b6160_over}).
- **The best setting for one agent** is the default of a new llama-server. Unlimited memory gains nothing
  ({latest_free} %). Do not switch checkpoints off: {without} % instead of {default} %. With 8
  checkpoints it is {eight} %, with 128 {many} %, without a minimum distance {close} %.
- **Several agents need a slot and a context each.** Four sessions on one server need at least {four_minimum} %.
  `latest` evaluates {four_default} by default (four slots in one context of 262,144 tokens, which is too small for
  them), {four_one} with one slot, {four_two} with two and {four_each} with four slots of 262,144 tokens each. One
  slot with an unlimited prompt cache (`-np 1 --cache-ram -1`) evaluates {four_one_all}, mlx-lm 0.32.2
  {mlx_four}. Unanswered requests got errors: the one context was full.
- **ik_llama.cpp gives wrong answers with `-np 2` or more** if its model has recurrent layers: {ik_wrong} answers with
  `-np 4`. It restores a checkpoint into contiguous cells. The cells of a slot are not contiguous once two
  conversations alternate, so attention reads rows of other positions ([IK-D3](FAULTS.md#ik-d3)). A real server
  built from 8337e4c gives wrong answers in the same requests as the simulator (scenario
  `ik-alternating-slots-wrong-cells`). With `-np 1` the answers are correct.
- **Sub-agents** need at least {agents_minimum} %, in the seven sessions that have some. `latest` evaluates
  {agents_default} by default, {agents_one} with one slot, {agents_one_all} with one slot and an unlimited prompt
  cache, {agents_each} with four slots of their own.
- **ik_llama.cpp needs `--ctx-checkpoints 128`**: {ik_many} % instead of {ik_default} %; with 8 it is {ik_eight} %. It
  creates one every 512 tokens, so it soon exceeds 32 and evicts the needed one.
- **The prompt cache hardly matters to one session at a time**: {no_cache} % without it, {all_cache} % without its
  limit, {default} % by default.
- **mlx-lm stores conversations only at their ends**: a prompt that differs shortly before the end of the previous one
  resumes from an older entry. Its ten entries have no byte limit by default, and reached {mlx_gib} GiB; set
  `--prompt-cache-bytes`.
- **Wrong answers with windows** (gpt-oss): {window_latest} for `latest` and `b10587`, in three of the 30 sessions;
  {window_repaired} for `repaired`. In trace_0301 each restore of a window checkpoint loses a row
  ([window-erosion](FAULTS.md#window-erosion)), in trace_0497 and trace_0280 undoing a prepared batch does not restore
  purged rows ([tried-batch](FAULTS.md#tried-batch)); unscaled, as many answers of trace_0301 and trace_0497 are wrong.
  `b6160`: {window_b6160}.
  With the other kinds of model every answer equals a cold run's. Answers compared: {judged}.
"""

METHOD = """## Method

- *Tokens.* The recordings have an id for each full block of 64 tokens. The first later prompt that begins with all
  blocks of a prompt provides the rest: the tokens after its last block, and its answer, if it fits. Otherwise the
  answer is assumed to have been changed (its thinking removed). A message begins where an answer ends.
- *Scale.* 64 tokens run as one. Windows, bytes, and all flags and rule constants that count tokens are scaled too;
  printed token counts are multiplied by 64. The unscaled sessions show the error: less than 1 % under the llama.cpp
  rule sets, up to 4 % under ik_llama.cpp and mlx-lm.
- *Order.* Requests are sent as recorded; requests run concurrently only if all their recorded intervals overlap. The
  scale affects the order in which they end. If that order decides which slot a conversation gets, scaled and unscaled
  runs differ from there on (trace_0274).
- *Servers.* The default flags of each rule set; a context of 262,144 tokens, or the next power of two if a request
  needs it; bytes are those of the real models (F16 rows, F32 states), so `--cache-ram` has its real effect. mlx-lm
  gets plain completions, since recordings have no messages: it stores no segments of a chat.
- *Rule sets.* `latest` is b11549, `repaired` b11549 with repaired rules, `b10587` commit 3f545be, `pr24143` that pull
  request on b10587. Flags without effect (checkpoint options for an attention-only model, `-np 4 -kvu` where it is the
  default) are not run again. n/a: the engine lacks the flag.
- *Checks.* Every cell asserts that no fewer tokens are evaluated than the bound. Judged cells run twice, counted and
  with provenance, and must evaluate the same tokens.
- None of the 30 sessions has sub-agents; the seven that have some are from the same repository.
"""

UNSCALED = """## Unscaled (five sessions, hybrid, default settings)

Evaluated tokens of unscaled runs; in parentheses the deviation of the scaled runs.
"""

FINER = """## A finer scale (hybrid, default settings)

Evaluated tokens in per cent of the prompt tokens, with 8 and with 64 tokens run as one.
"""

TOGETHER = """## Four sessions on one server (hybrid)

The sessions are sorted by name and distributed over servers, four on each, the rest on the last. The sessions of a
server start at the same time, and 64 tokens are simulated as one (see *Scale* below):
`cachesim workload FOLDER --sessions 4 --scale 64`. By default a new llama-server has four slots that share the cells of
one context, ik_llama.cpp one slot; with `-np N` each slot has its own context.
"""

AGENTS = """## Sessions with sub-agents (hybrid)

Seven other sessions of the same repository: the main agent waits for its sub-agents, or continues beside them.
"""
