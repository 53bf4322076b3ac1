"""Named classes of accepted differences between simulator and real server, each with a predicate and a smallest
conversation.

Any other difference counts. The size of a number never justifies a verdict: the conversation is repeated under other
tokens (``renamed``), and the result decides.
"""

from __future__ import annotations

import re

from cachesim.engines.llama_cpp.rules.newest_memories import reads_all

OTHER = 99.0                # distance of an answer with other tokens
LARGE = 0.05
"""A difference of log-probabilities that rounding cannot cause: with F16 K/V, flash attention and other cell places, an
answer that reads only its own rows differs by at most 0.022."""


def shown(difference, recording, runs, plain=None):
    """True if the simulator reports foreign reads and the real answer equals a cold answer within rounding, but not
    under other tokens."""
    return _verdict(difference) == ("equal", "broken") and any(broken and beyond for broken, _, beyond in runs)


def not_shown(difference, recording, runs, plain=None):
    """True if the real answer differs from a cold answer in its last digits, and repetitions under other tokens show no
    more. Undecided, and counted separately. An answer without any difference does not qualify: then the simulator is
    wrong about the foreign reads."""
    if _verdict(difference) not in (("equal", "broken"), ("differs", "holds")):
        return False
    wrong = difference.ours == "broken"
    alike = [(apart, beyond) for broken, apart, beyond in runs if broken == wrong]
    if not alike or any(beyond for _, beyond in alike):
        return False
    return 0 < max(size(difference, recording), *(apart for apart, _ in alike)) <= LARGE


PLAIN = 5e-5                # largest rounding of answers without flash attention; 4.3e-6 was measured


def rounded(difference, recording, runs, plain=None):
    """True if an answer differs from a cold answer only in its numbers, all rows were read, and without flash attention
    the same requests, which restored the same tokens, were answered like cold ones. Flash attention adds rows up as
    F16, in the order of the cells: a row that is missing or foreign would differ in both."""
    if _verdict(difference) != ("differs", "holds") or plain is None or size(difference, recording) >= OTHER:
        return False
    server = recording["server"]
    if not (has_flash(recording) and reads_all(server["n_slots"], server["kv_unified"]).value):
        return False
    before = [step for step in recording["steps"] if step["i"] <= difference.step]
    return plain["restored"] == restored(before) and max(plain["apart"], default=OTHER) <= PLAIN


def has_flash(recording):
    """True if the recorded server computed with flash attention."""
    words = recording.get("base_flags", [])
    return "on" in (words[words.index("-fa") :][:2] if "-fa" in words else [])


def restored(steps):
    """Return how many tokens of each answered prompt were cached."""
    return [(one.get("response") or {}).get("cache_n") for step in steps for one in step.get("steps", [step])]


def size(difference, recording):
    """Return how far the answers of the differing step are from cold answers."""
    step = next(step for step in recording["steps"] if step["i"] == difference.step)
    return max((apart_of(cold) for one in step.get("steps", [step]) for cold in colds(one)), default=0.0)


def log_cut_off(difference, recording, runs, plain=None):
    """True if both servers ended in this step, with the same message, and the real log lacks its last lines: another
    thread writes the log, and the process ended first. An exception leaves no message that is recorded."""
    step = next(step for step in recording["steps"] if step["i"] == difference.step)
    if difference.what != "event" or difference.recorded is not None or not difference.ended or "died" not in step:
        return False
    said, ours = [_cause(line.partition(": ")[2]) for line in step["died"]["fatal"]], _cause(difference.ended)
    return not said or any(line in ours or ours in line for line in said)


def _cause(text):
    """Return the reason that an assertion quotes; another last message without the address of an issue, and without
    what only the simulator adds."""
    quoted = re.search(r'"([^"]+)"', text)
    return quoted[1] if quoted else re.split(r": https?:| \(slot ", text)[0]


def _verdict(difference):
    return (difference.recorded, difference.ours) if difference.what == "verdict" else None


def apart_of(cold):
    """Return how far an answer is from a cold answer; other tokens are at maximum distance."""
    return cold.get("max_dlogprob", 0.0) if cold["equal"] or cold.get("tie") else OTHER


def colds(member):
    """Return the comparisons of a request with a cold run, including its further completions."""
    response = member.get("response") or {}
    return [one["cold"] for one in (member, *response.get("completions", ())) if "cold" in one]


NAMED = {"shown under other tokens": shown, "not shown": not_shown, "log cut off": log_cut_off,
         "rounded by flash attention": rounded}  # fmt: skip
"""Name -> predicate of a difference, its recording, of its repetitions under other tokens (ours says wrong, how far the
answer is from a cold one, is that beyond rounding), and of its repetition without flash attention (tokens restored, how
far the answers are from cold ones). At most five."""


def name_of(difference, recording, runs=(), plain=None):
    """Return the class of a difference, "" for none."""
    return next((name for name, holds in NAMED.items() if holds(difference, recording, runs, plain)), "")
