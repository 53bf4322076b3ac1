"""Check that a cause or a change of the client that a report names is true for a request of a recorded log."""

from __future__ import annotations

import re
from typing import Callable, Mapping

from tests.logs.slow_logs.recorded_log import RecordedLog, Truth
from tests.logs.slow_logs.report_claims import Claim

UNJUDGED = "unjudged"
FEW = 10                    # a prompt shares a beginning only if it is less than one in so many tokens
NEAR_END = 16               # tokens that a template puts at the end of a prompt
NO_LOAD = 0.5               # the prompt cache is not asked if a prompt keeps more than this share of the slot
CUT_ANYWHERE = "attention"
EARLIER = {
    "checkpoint-erased": "erased invalidated context checkpoint",
    "checkpoint-evicted": "erasing old context checkpoint",
    "checkpoint-too-close": "erasing context checkpoint too close",
}
"""Causes in earlier requests, with the words of their lines. The lost restore point may have had only a part of the
common prefix."""
_LENGTH = re.compile(r"\bn_tokens = (\d+)")


def may_load(log: RecordedLog, truth: Truth) -> bool:
    """True if the server may have loaded an entry of the prompt cache for a request. Only a log with the events
    of the caches shows it."""
    if log.has_trace:
        return truth["task"] in log.loaded
    held, common = truth["slot_held"], truth["common_slot"]
    keeps = held and common / held >= NO_LOAD and common / truth["prompt"] > log.options["slot_prompt_similarity"]
    return bool(log.options["cache_ram"]) and not keeps


def compared_prefixes(log: RecordedLog, truth: Truth) -> set[tuple[int, int]]:
    """Return common prefix and tokens of everything that the request may have been compared with: the slot, and an
    entry of the prompt cache that was loaded into it."""
    pairs = {(truth["common_slot"], truth["slot_held"] or 0)}
    if may_load(log, truth):
        earlier = {one["request"]: one for one in log.requests.values()}
        for number in truth["common_previous_prompts"]:
            one = earlier[int(number)]
            pairs |= {(common, one["end"]) for common in _commons(truth, one) if common <= one["end"]}
    return pairs


def _commons(truth: Truth, earlier: Truth) -> set[int]:
    """Return the possible common prefixes with what an earlier request left in its slot."""
    common = truth["common_previous_prompts"][str(earlier["request"])]
    if truth["common_best_request"] == earlier["request"]:
        return {min(truth["common_best"], earlier["end"])}
    if common < earlier["prompt"]:
        return {min(common, earlier["end"])}
    return {min(common, earlier["end"]), min(truth["common_best"], earlier["end"])}


def losses(log: RecordedLog, truth: Truth) -> set[int]:
    """Return the tokens of a common prefix that a request evaluated again, without the last token of its prompt, which
    every request evaluates."""
    usable = truth["prompt"] - 1
    return {max(0, min(common, usable) - truth["reused"]) for common, _ in compared_prefixes(log, truth)}


def why_cause_is_false(log: RecordedLog, truth: Truth | None, claim: Claim) -> str:
    """Return why a named cause is false, "" if it is true."""
    if claim.name == "server-warning":
        words = claim.text.partition('"')[2].rstrip('"')
        return "" if any(words[:60] in line for line in log.lines) else "the log has no such line"
    if truth is None:
        return UNJUDGED if claim.task is None else f"the log has no task {claim.task}"
    if truth["reused"] is None:
        return UNJUDGED
    judge = CAUSES.get(claim.name)
    if judge is None:
        return UNJUDGED
    if not judge(log, truth):
        return f"reused {truth['reused']}, common {truth['common_slot']}, held {truth['slot_held']}, " \
               f"prompt {truth['prompt']}: {truth['what']}"  # fmt: skip
    possible = losses(log, truth)
    if claim.name in EARLIER:
        possible = possible | parts(log, truth, EARLIER[claim.name])
    if claim.low is not None and not any(map(claim.contains, possible)):
        return f"lost is {' or '.join(map(str, sorted(possible)))}"
    return ""


def parts(log: RecordedLog, truth: Truth, words: str) -> set[int]:
    """Return the parts of the losses that single checkpoints explain: the tokens between the reused ones and the end of
    each checkpoint within a common prefix that a line with these words removed."""
    removed = {int(found[1]) for line in log.lines if words in line and (found := _LENGTH.search(line))}
    longest = max(common for common, _ in compared_prefixes(log, truth))
    return {length - truth["reused"] for length in removed if truth["reused"] < length <= longest}


def _is_identical(log: RecordedLog, truth: Truth) -> bool:
    return any(common == truth["prompt"] for common, _ in compared_prefixes(log, truth))


def _is_edited(log: RecordedLog, truth: Truth) -> bool:
    return any(truth["reused"] < common < min(truth["prompt"], held) for common, held in compared_prefixes(log, truth))


def _lost_beginning(log: RecordedLog, truth: Truth) -> bool:
    return any(common * FEW < min(truth["prompt"], held) for common, held in compared_prefixes(log, truth))


def _without_checkpoint(log: RecordedLog, truth: Truth) -> bool:
    if log.has_trace:
        return _logs(log, truth, "forcing full prompt")
    return log.memory != CUT_ANYWHERE and not truth["reused"] and max(losses(log, truth)) > 0


def _restored_too_early(log: RecordedLog, truth: Truth) -> bool:
    if log.has_trace:
        return _logs(log, truth, "restored context checkpoint")
    is_restored = any(0 < truth["reused"] < common for common, _ in compared_prefixes(log, truth))
    return log.memory != CUT_ANYWHERE and is_restored


def _logs(log: RecordedLog, truth: Truth, words: str) -> bool:
    name = f"task {truth['task']} |"
    return any(name in line and words in line for line in log.lines)


def _logged(words: str) -> Callable[[RecordedLog, Truth], bool]:
    """Return a judge of causes in earlier requests: the log has such a line, and tokens were evaluated again."""

    def judge(log: RecordedLog, truth: Truth) -> bool:
        return any(words in line for line in log.lines) and max(losses(log, truth)) > 0

    return judge


CAUSES: Mapping[str, Callable[[RecordedLog, Truth], bool]] = {
    "identical-prompt": _is_identical,
    "edited-prompt": _is_edited,
    "lost-prefix": _lost_beginning,
    "no-checkpoint": _without_checkpoint,
    "checkpoint-too-late": _restored_too_early,
    **{name: _logged(words) for name, words in EARLIER.items()},
}  # fmt: skip


def why_change_is_false(log: RecordedLog, truth: Truth, how: str) -> str:
    """Return why a class of the client's change is false, "" if it is true for a text that the request met."""
    judge = CHANGES.get(how)
    if judge is None:
        return UNJUDGED
    if any(judge(log, truth, common, held) for common, held in compared_prefixes(log, truth)):
        return ""
    return f"{truth['what']}: common {truth['common_slot']}, held {truth['slot_held']}, prompt {truth['prompt']}"


def _ends(log: RecordedLog, truth: Truth, held: int) -> list[int]:
    """Return the lengths of earlier prompts whose request left so many tokens."""
    earlier = [one for one in log.requests.values() if one["request"] < truth["request"] and one["end"] == held]
    return [one["prompt"] for one in earlier]


def _extends(_: RecordedLog, truth: Truth, common: int, held: int) -> bool:
    return common == held and truth["prompt"] > held


def _same_prompt(_: RecordedLog, truth: Truth, common: int, __: int) -> bool:
    return bool(common == truth["prompt"])


def _is_new(_: RecordedLog, truth: Truth, common: int, held: int) -> bool:
    return common * FEW < min(truth["prompt"], held) or not held


def _changed_answer(log: RecordedLog, truth: Truth, common: int, held: int) -> bool:
    return any(end <= common < held for end in _ends(log, truth, held)) and common < truth["prompt"]


def _at_turn_end(log: RecordedLog, truth: Truth, common: int, held: int) -> bool:
    is_near = any(abs(end - common) <= NEAR_END for end in _ends(log, truth, held))
    return is_near and common < min(held, truth["prompt"])


def _changed_history(log: RecordedLog, truth: Truth, common: int, held: int) -> bool:
    return any(common < end for end in _ends(log, truth, held)) and common < truth["prompt"]


def _changed_end(log: RecordedLog, truth: Truth, common: int, held: int) -> bool:
    return _changed_answer(log, truth, common, held) or _at_turn_end(log, truth, common, held)


CHANGES: Mapping[str, Callable[[RecordedLog, Truth, int, int], bool]] = {
    "extends": _extends, "again": _same_prompt, "new": _is_new, "answer": _changed_answer, "turn end": _at_turn_end,
    "history": _changed_history, "start": _changed_history, "history or turn end": _changed_history,
    "answer or turn end": _changed_end,
}  # fmt: skip
