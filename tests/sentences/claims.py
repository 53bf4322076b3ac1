"""Claims about the past in the printed sentences of ``run`` and ``why``: patterns, each with the comparison that
decides whether an event or the contents of the run agree."""

from __future__ import annotations

import re
from typing import Any, Callable, NamedTuple

from cachesim import events as ev
from cachesim.base.tokens import common_prefix
from cachesim.engines.base import CACHE_OFF
from cachesim.engines.ik_llama.events import PromptTruncated
from cachesim.engines.llama_cpp import events as llama_ev
from cachesim.engines.mlx_lm import events as mlx
from cachesim.engines.sglang import events as sglang
from cachesim.engines.sglang.mem_cache import tree_events
from cachesim.engines.shared import slot_events as slot_ev
from cachesim.engines.vllm.core import kv_cache_events
from tests.sentences.witness import RunFacts


class Place(NamedTuple):
    """A request of a run that a sentence is about. ``rule``: id of the rule printed beside the sentence."""

    facts: RunFacts
    number: int
    rule: str = ""

    def happened(self, kind: type[ev.Event], **fields: object) -> bool:
        """True if an event of this kind with these fields occurred during the request."""
        return self.facts.happened(self.number, kind, **fields)

    def lost(self, kind: str, *causes: str) -> list[Any]:
        """Return the removals of restore points of a kind, with one of these causes, during the request."""
        return [event for event in self.facts.events(self.number, ev.Lost)
                if event.key[0].startswith(kind) and (not causes or event.cause in causes)]  # fmt: skip

    @property
    def found(self) -> tuple[int, ...]:
        """The tokens that the request found in its slot."""
        return self.facts.witness.launched.get(self.number, (-1, ()))[1]

    @property
    def prompt(self) -> tuple[int, ...]:
        """The prompt of the request."""
        return self.facts.witness.prompts.get(self.number, ())

    @property
    def answer(self) -> Any:
        """The answer to the request."""
        return self.facts.witness.answers.get(self.number)

    @property
    def answered_prompt(self) -> tuple[int, ...]:
        """The prompt that was answered, perhaps shortened by the server."""
        return self.prompt if self.answer is None or self.answer.prompt is None else self.answer.prompt


Check = Callable[[tuple[int, ...], "re.Match[str]", Place], bool]


def _sum(n: tuple[int, ...], match: re.Match[str], at: Place) -> bool:
    *whole, kept, restored, loaded, evaluated = n[:6] if match["part"] else n[:5]
    return len(at.answered_prompt) == whole[-1] and whole[0] == kept + restored + loaded + evaluated


def _repeated_sum(n: tuple[int, ...], match: re.Match[str], at: Place) -> bool:
    prompt, *parts, done = n[:6]
    return len(at.answered_prompt) == prompt < done == sum(parts)


def _restored(n: tuple[int, ...], match: re.Match[str], at: Place) -> bool:
    return any(0 <= event.n_past - n[-1] <= 1 for event in at.facts.events(at.number, slot_ev.CkptRestore))


def _loaded(n: tuple[int, ...], match: re.Match[str], at: Place) -> bool:
    if match["source"] in ("an entry", "entries"):
        fetched = [event.n_cached for event in at.facts.events(at.number, mlx.Fetched)]
        return n[0] in fetched or at.happened(slot_ev.PcLoad)
    hits = [event.hit for event in at.facts.events(at.number, kv_cache_events.LookedUp)]
    hits += [max(event.hit, event.full) for event in at.facts.events(at.number, sglang.Matched)]      # host memory, too
    return any(hit >= n[0] or match["source"] != "blocks" for hit in hits) and any(hits)


def _no_prefix(n: tuple[int, ...], match: re.Match[str], at: Place) -> bool:
    """Nothing that the request could find shares a token with it."""
    row = at.facts.witness.launched.get(at.number, (-1, ()))[0]
    matched = [event.full for event in at.facts.events(at.number, sglang.Matched) if event.request == row]
    looked = [event for event in at.facts.events(at.number, kv_cache_events.LookedUp) if event.request == row]
    return not any(matched) and not any(event.junction or any(map(any, event.tables)) for event in looked)


def _whole_prompt(n: tuple[int, ...], match: re.Match[str], at: Place) -> bool:
    return at.found[: len(at.answered_prompt)] == at.answered_prompt


def _holds(n: tuple[int, ...], match: re.Match[str], at: Place) -> bool:
    after = at.facts.witness.after[at.number]
    return len(after.slots.get(int(match["slot"]), ())) == int(match["held"])


def _entries(n: tuple[int, ...], match: re.Match[str], at: Place) -> bool:
    after = at.facts.witness.after[at.number]
    return len(after.lengths("entry")) == int(match["entries"])


def _shift(n: tuple[int, ...], match: re.Match[str], at: Place) -> bool:
    _, keep, discard = n
    return any(event.n_keep == keep and event.n_discard == discard
               for event in at.facts.events(at.number, slot_ev.CtxShift)) or _truncated(n, match, at)  # fmt: skip


def _truncated(n: tuple[int, ...], match: re.Match[str], at: Place) -> bool:
    return bool(at.answer is not None and at.answer.truncated)


def _evaluated_before(n: tuple[int, ...], match: re.Match[str], at: Place) -> bool:
    witness = at.facts.witness
    texts = [text for i, text in witness.texts.items() if i != at.number]
    texts += [tuple(witness.answers[i].slot_tokens) for i in witness.prompts if i != at.number]
    return n[-1] <= max((common_prefix(text, at.answered_prompt) for text in texts), default=0)


def _none_longer(n: tuple[int, ...], match: re.Match[str], at: Place) -> bool:
    before = at.facts.witness.before[at.number]
    return at.facts.pooled or before.longest_share(at.prompt) <= max(at.answer.cache_n, 0)


def _still(n: tuple[int, ...], match: re.Match[str], at: Place) -> bool:
    before, length, shared = at.facts.witness.before[at.number], int(match["length"]), int(match["shared"])
    if at.facts.pooled:
        return True
    kind = match["what"].partition(" ")[0]
    texts = [tokens for _, tokens in before.stored] if kind != "slot" else [before.slots[int(match["what"].split()[1])]]
    return any(len(text) == length and common_prefix(text, at.prompt) == shared for text in texts)


CHARGES = {
    "removed from the prompt cache on load": "consumed", "evicted": "evicted", "erased": "erased", "cleared": "cleared",
    "truncated": "truncated", "overwritten": "overwritten",
}  # fmt: skip


def _charged(n: tuple[int, ...], match: re.Match[str], at: Place) -> bool:
    """The restore point was lost at that request, in this way, by the rule, and has this kind."""
    where = int(match["at"]) if match["at"] else at.number
    cause, rule, kind = CHARGES[match["how"]], match["rule"] or "", match["kind"]
    for event in at.facts.events(where, ev.Lost, ev.Advanced, ev.Gained):
        key = event.key if isinstance(event, ev.Lost) else event.point.key
        if (event.cause, event.rule, key[0]) == (cause, rule, kind):
            return True
    return False


def _not_used(n: tuple[int, ...], match: re.Match[str], at: Place) -> bool:
    kind, before = match["kind"], at.facts.witness.before[at.number]
    if at.facts.pooled:
        return True
    if kind == "slot":
        return any(before.slots.values()) or bool(at.found)
    return bool(before.lengths(kind)) or at.happened(ev.Gained)


def _erases(n: tuple[int, ...], match: re.Match[str], at: Place) -> bool:
    """Every checkpoint that the sentences of this rule erase is lost by this rule."""
    said = sum(_count_of(event.value) for event in at.facts.events(at.number, ev.Decided) if event.rule == at.rule)
    lost = [event for event in at.lost("checkpoint") if event.rule == at.rule]
    return len(lost) == said


def _count_of(value: Any) -> int:
    return len(value) if isinstance(value, tuple | list) else 1


def _saved(n: tuple[int, ...], match: re.Match[str], at: Place) -> bool:
    gained = [event.point.n for event in at.facts.events(at.number, ev.Gained) if event.point.key[0] == "entry"]
    return n[0] in gained or (at.happened(slot_ev.PcSave, n_tokens=n[0]) and bool(gained))


def _entry_lost(*causes: str) -> Check:
    return lambda n, match, at: bool(at.lost("entry", *causes))


def _event(kind: type[ev.Event], *names: str) -> Check:
    """The event with the numbers of the sentence as these fields, in order."""
    def check(n: tuple[int, ...], match: re.Match[str], at: Place) -> bool:
        return at.happened(kind, **dict(zip(names, n, strict=False)))

    return check


def _any(*checks: Check) -> Check:
    return lambda n, match, at: any(check(n, match, at) for check in checks)


def _removed_mlx(*reasons: str) -> Check:
    return lambda n, match, at: any(event.reason in reasons for event in at.facts.events(at.number, mlx.Removed))


def _found_empty(n: tuple[int, ...], match: re.Match[str], at: Place) -> bool:
    return at.number in at.facts.witness.launched and not at.found and not at.facts.pooled


def _extends(n: tuple[int, ...], match: re.Match[str], at: Place) -> bool:
    return bool(at.found) and at.answered_prompt[: len(at.found)] == at.found


def _no_common(n: tuple[int, ...], match: re.Match[str], at: Place) -> bool:
    return bool(at.found) and not common_prefix(at.found, at.answered_prompt)


def _lcp(n: tuple[int, ...], match: re.Match[str], at: Place) -> bool:
    return n[0] == common_prefix(at.found, at.answered_prompt)



def _slot_empty(n: tuple[int, ...], match: re.Match[str], at: Place) -> bool:
    before = at.facts.witness.before[at.number]
    return any(not tokens for tokens in before.slots.values()) or not at.found


def _selected(n: tuple[int, ...], match: re.Match[str], at: Place) -> bool:
    return any(event.slot == n[0] for event in at.facts.events(at.number, ev.Launch, ev.Decided)) and (
        at.happened(slot_ev.PcSearch) or "searches the prompt cache" not in match.string)


def _reset(n: tuple[int, ...], match: re.Match[str], at: Place) -> bool:
    """llama.cpp logs the reset; ik_llama.cpp has only the decision."""
    decided = [event.rule for event in at.facts.events(at.number, ev.Decided)]
    return at.happened(slot_ev.FullReprocess) or any(rule.startswith("IK-CKPT-RESET") for rule in decided)


def _no_cache_prompt(n: tuple[int, ...], match: re.Match[str], at: Place) -> bool:
    return not at.facts.steps[at.number].request.cache_prompt


def _cache_off(n: tuple[int, ...], match: re.Match[str], at: Place) -> bool:
    return at.answer.unread == CACHE_OFF and not at.answer.cache_n


def _nothing(n: tuple[int, ...], match: re.Match[str], at: Place) -> bool:
    return not at.answer.cache_n


def _failed(n: tuple[int, ...], match: re.Match[str], at: Place) -> bool:
    return bool(at.answer.status == n[0])


def _died(n: tuple[int, ...], match: re.Match[str], at: Place) -> bool:
    return bool(at.answer.died)


def _refused_removal(n: tuple[int, ...], match: re.Match[str], at: Place) -> bool:
    return at.happened(llama_ev.TrimRefused) or at.happened(ev.SeqRm, ok=False)


def _entry_gained(n: tuple[int, ...], match: re.Match[str], at: Place) -> bool:
    """An entry was stored, of as many tokens as the sentence says."""
    lengths = [event.point.n for event in at.facts.events(at.number, ev.Gained) if event.point.key[0] == "entry"]
    return bool(lengths) and (not n or n[0] in lengths)


def _entries_evicted(n: tuple[int, ...], match: re.Match[str], at: Place) -> bool:
    return len(at.lost("entry", "evicted")) >= n[0]


def _reused(kind: type[ev.Event], name: str) -> Check:
    """An event of this kind whose field has the first number of the sentence."""
    return lambda n, match, at: at.happened(kind, **{name: n[0]})


def _context_shift(n: tuple[int, ...], match: re.Match[str], at: Place) -> bool:
    return at.happened(slot_ev.CtxShift, n_keep=n[1], n_discard=n[2])


def _stored(n: tuple[int, ...], match: re.Match[str], at: Place) -> bool:
    return at.happened(mlx.Inserted, n_tokens=n[0])


def _put_back(n: tuple[int, ...], match: re.Match[str], at: Place) -> bool:
    return any(event.retracted for event in at.facts.events(at.number, sglang.SchedulerStep))


def _charged_tokens(n: tuple[int, ...], match: re.Match[str], at: Place) -> bool:
    return n[0] <= at.answer.prompt_n


REASONS: list[tuple[str, Check]] = [
    (r"forced full re-processing", _reset),
    (r"cache_prompt is false", _no_cache_prompt),
    (r"prefix cache off", _cache_off),
    (r"no cached prefix", _no_prefix),
    (r"nothing reused", _nothing),
    (r"empty slot", _found_empty),
    (r"no common prefix", _no_common),
    (r"LCP (\d+), seq_rm failed", _refused_removal),
    (r"LCP (\d+), nothing reused", _lcp),
    (r"LCP (\d+), restored (\d+)", _restored),
    (r"loaded (\d+) from (?P<source>an entry|\w+(?: and \w+)*)", _loaded),
    (r"whole prompt held, all but 1", _whole_prompt),
    (r"extends the slot", _extends),
    (r"LCP (\d+), (\d+) moved", _event(slot_ev.ReuseChunk)),
    (r"LCP (\d+), (\d+) kept after a context shift", _event(PromptTruncated)),
    (r"LCP (\d+), kept (\d+)", _lcp),
    (r"LCP (\d+)", _lcp),
    (r"(?:REFUSED|ERROR) \((\d+)\)", _failed),
    (r"server died", _died),
]  # fmt: skip
"""Reasons of reused tokens, without the end ", disconnected"."""

RANGE = r"(?:request \d+: (\d+) tokens? re-evaluated: |\d+\.\.\d+ +)"
LINES: list[tuple[str, Check]] = [
    (r"(\d+) tokens?, some more than once: (\d+) kept \+ (\d+) restored \+ (\d+) loaded \+ (\d+) evaluated = (\d+).*",
     _repeated_sum),
    (r"(?:(\d+)(?P<part> of ))?(\d+) tokens? = (\d+) kept \+ (\d+) restored \+ (\d+) loaded \+ (\d+) evaluated.*",
     _sum),
    (r"at most (\d+) reusable(?: with a correct answer)?; (\d+) evaluated before", _evaluated_before),
    (r"when the request came, no restore point shared more tokens with it than it reused", _none_longer),
    (r"still stored: (?P<what>slot \d+|[\w ]+?(?: in slot \d+)?) (?:with|of) (?P<length>\d+) tokens?, "
     r"(?P<shared>\d+) shared with this prompt; .*", _still),
    (RANGE + r"(?P<kind>.+?) (?P<how>removed from the prompt cache on load|evicted|erased|cleared|truncated|"
     r"overwritten)(?: \(?at request (?P<at>\d+))?,? ?\(?(?P<rule>[\w.-]+)?\)?", _charged),
    (RANGE + r"(?P<kind>.+?) (?:not used|chosen but unreadable).*", _not_used),
    (r"request \d+: (\d+) tokens? re-evaluated: .*", _charged_tokens),
]  # fmt: skip

STATE: list[tuple[str, Check]] = [
    (r"slot (?P<slot>\d+) holds (?P<held>\d+) tokens?", _holds),
    (r"prompt cache: (?P<entries>\d+) entr(?:y|ies)(?: of (?P<mib>[\d.]+) MiB)?", _entries),
    (r"context shift at (\d+): kept (\d+), dropped (\d+)", _shift),
]  # fmt: skip

DECISIONS: list[tuple[str, Check]] = [
    (r"restored context checkpoint \(n_tokens = (\d+).*", _event(slot_ev.CkptRestore, "n_tokens")),
    (r"restored checkpoint \(pos_max = (\d+)\): n_past = .*", _event(slot_ev.CkptRestore, "pos_max")),
    (r"restores checkpoint n_tokens = (\d+) .*", _event(slot_ev.CkptRestore, "n_tokens")),
    (r"restores checkpoint pos_max = (\d+) .*", _event(slot_ev.CkptRestore, "pos_max")),
    (r"erases \d+ (?:\w+ )?checkpoints? .*", _erases),
    (r"erases checkpoint pos_max = (\d+) .*", _event(slot_ev.CkptEvict, "pos_max")),
    (r"checkpoint created (?:at n_tokens = (\d+)|after the whole prompt).*", _event(slot_ev.CkptCreate)),
    (r"forcing full prompt re-processing.*", _reset),
    (r"saved to prompt cache: (\d+) tokens?.*", _saved),
    (r"saved to prompt cache \(.*", _entry_gained),
    (r"slot of (\d+) tokens? saved to prompt cache: .*", _saved),
    (r"idle slot of (\d+) tokens? saved to the prompt cache.*", _entry_gained),
    (r"found a better prompt: entry .*", _any(_event(slot_ev.PcLoad), _event(slot_ev.PcLoadFailed))),
    (r"the entry is removed from the prompt cache on (?:load|fetch).*", _entry_lost("consumed")),
    (r"the entry stays in the prompt cache; the slot gets a copy", _event(slot_ev.PcLoad)),
    (r"evicts (\d+) oldest entr.*", _entries_evicted),
    (r"context shift at (\d+) tokens: n_keep = (\d+), n_discard = (\d+)", _context_shift),
    (r"selected slot (\d+) .*", _selected),
    (r"the slot is empty: .*", _slot_empty),
    (r"stored under (\d+) tokens .*", _stored),
    (r"stored at (\d+) tokens?(?:: end of a segment)?", _stored),
    (r"evicts (?:an|the oldest) .*", _removed_mlx("count", "bytes")),
    (r"evicts (\d+) entr(?:y|ies) \(.*", _removed_mlx("count")),
    (r"removes the prefix entries of .*", _removed_mlx("prefix")),
    (r"client disconnected: prompt and answer so far are stored", _event(mlx.Inserted)),
    (r"fetch_nearest_cache: (\d+) of (\d+) tokens reused .*", _reused(mlx.Fetched, "n_cached")),
    (r"(\d+) blocks are needed and (\d+) are free: request (\d+) of .*", _event(kv_cache_events.Preempted)),
    (r"(\d+) of (\d+) tokens found.*", _reused(kv_cache_events.LookedUp, "hit")),
    (r"leaf (\d+), .* is evicted", _any(_event(tree_events.Gone, "node"), _event(tree_events.Dropped, "node"))),
    (r"leaf (\d+), .*, is deleted", _event(tree_events.Gone, "node")),
    (r"leaf (\d+), .*, is evicted to host memory", _event(tree_events.Demoted, "node")),
    (r"leaf (\d+), .*, is copied to host memory first", _event(tree_events.BackedUp, "node")),
    (r"node (\d+), which ends after .* loses its .*", _event(tree_events.Dropped, "node")),
    (r"node (\d+), .* leaves host memory", _any(_event(tree_events.Dropped, "node"), _event(tree_events.Gone, "node"))),
    (r"(\d+) tokens are loaded from host memory", _event(tree_events.Loaded)),
    (r"(\d+) of (\d+) tokens enter the tree", _event(sglang.Inserted)),
    (r"one of (\d+) running requests is put back", _put_back),
    (r"(\d+) of (\d+) tokens are reused.*", _reused(sglang.Matched, "hit")),
]  # fmt: skip
"""Sentences of decisions. A sentence that matches no pattern states no event."""


def numbers(match: re.Match[str]) -> tuple[int, ...]:
    """Return the numbers of the unnamed groups of a match."""
    named = set(match.re.groupindex.values())
    return tuple(int(text) for i, text in enumerate(match.groups(), 1) if text is not None and i not in named)


def false_claim(text: str, table: list[tuple[str, Check]], at: Place) -> bool | None:
    """True if the run contradicts a sentence, False if it agrees; None for a sentence without a pattern."""
    for pattern, check in table:
        if match := re.fullmatch(pattern, text):
            return not check(numbers(match), match, at)
    return None
