"""Verdicts on the numbers of log lines, at their limits."""

from __future__ import annotations

import pytest

from cachesim.engines.llama_cpp.log_verdicts import VERDICTS
from cachesim.engines.registry import ENGINES


@pytest.mark.parametrize(("kind", "numbers", "verdict"), [
    ("ckpt_check", {"pos_min": 43667, "pos_max": 43667, "thold": 43667}, "cannot be restored"),
    ("ckpt_check", {"pos_min": 43666, "pos_max": 43666, "thold": 43667}, ": can be restored"),
    ("ckpt_check", {"pos_min": 43666, "pos_max": 43668, "thold": 43667}, "later builds also need pos_max = 43,668"),
    ("ckpt_check", {"pos_min": 0, "pos_max": 10, "thold": 0}, "position 0 is accepted since b8693"),
    ("ckpt_check", {"pos_min": 0, "pos_max": 10}, None),
    ("slot_by_lcp", {"f_sim": 0.937, "thold": 0.1, "f_keep": 0.606}, "f_sim = 0.937 is above the threshold 0.1; "),
    ("slot_by_lcp", {"f_sim": 0.937, "thold": 0.1, "f_keep": 0.606}, "about 39 % of the slot's tokens are not kept"),
    ("slot_by_lcp", {"f_sim": 0.1, "thold": 0.1}, "f_sim = 0.1 is not above the threshold 0.1"),
    ("slot_by_lcp", {"f_sim": 0.2, "thold": 0.1, "f_keep": 1.0}, "begins with the slot's tokens, within rounding"),
    ("slot_by_lcp", {}, None),
    ("pc_load", {"f_keep": 0.412, "f_sim": 0.733}, "about 59 % of the entry's tokens are not reused"),
    ("pc_load", {"f_keep": 1.0}, None), ("pc_load", {"f_sim": 0.5}, None),
    ("progress", {"done": 400, "share": 0.7}, "400 tokens of this prompt are evaluated so far; with the reused ones, "),
    ("progress", {"n_tokens": 400, "share": 0.7}, None),
    ("pc_state", {"mib": 4096.0, "limit_mib": 8192.0}, "4,096 of 8,192 MiB in use, 50 %: 4,096 MiB are free"),
    ("pc_state", {"mib": 9000.0, "limit_mib": 8192.0}, "808 MiB over the limit"),
    ("pc_state", {"mib": 9000.0, "limit_mib": 0}, None),
    ("pc_too_big", {"mib": 900.0, "limit_mib": 100}, "900 MiB do not fit into 100 MiB"),
    ("ckpt_create", {"n": 31, "max": 32}, "1 more fit"), ("ckpt_create", {"n": 32, "max": 32}, "replaces an old one"),
    ("ckpt_create", {"n": 33, "max": 32}, None),
    ("new_prompt", {"n_tokens": 4095, "n_ctx_slot": 4096}, "fits into the slot's 4,096 tokens, 1 are left"),
    ("new_prompt", {"n_tokens": 4096, "n_ctx_slot": 4096}, "does not fit into 4,096 tokens"),
    ("reused", {"cache_n": 0, "n_tokens": 0}, "0 of 0 prompt tokens reused; 0 are evaluated"),
    ("reused", {"cache_n": 30, "prompt_n": 10}, "30 of 40 prompt tokens reused, 75 %; 10 are evaluated"),
    ("reused", {"cache_n": 30}, None), ("reused", {"n_tokens": 30}, None),
    ("reused", {"cache_n": 0, "n_tokens": 3968}, "0 of 3,968 prompt tokens reused, 0 %; 3,968 are evaluated"),
    ("reused", {"cache_n": 17408, "prompt_n": 24}, "17,408 of 17,432 prompt tokens reused, 100 %; 24 are evaluated"),
    ("n_past", {"n_past": 3433, "held": 5663, "pos_min": 5662, "n_swa": 0}, "a checkpoint must be restored"),
    ("n_past", {"n_past": 331, "held": 1986, "pos_min": 201, "n_swa": 128}, "no checkpoint is needed"),
    ("n_past", {"n_past": 331, "held": 1986, "pos_min": 202, "n_swa": 128}, None),      # depends on the build
    ("n_past", {"n_past": 331, "held": 1986, "pos_min": -1}, None),
    ("n_past", {"n_past": 331, "held": 1986, "pos_min": 0, "n_swa": 128}, "pos_min = 0 is before n_past - n_swa = 203"),
    ("n_past", {"n_past": 0, "held": 9, "pos_min": 5}, None), ("n_past", {"n_past": 5, "held": 9, "pos_min": 5}, None),
    ("n_past", {"n_past": 5, "held": 5, "pos_min": 6}, None),
    ("n_past", {"n_past": 1, "held": 9, "pos_min": 2}, "pos_min = 2 is after n_past = 1"),
    ("ckpt_restore", {"n_past": 5, "n_tokens": 5, "prefix_end": 5}, "5 is the end of the checkpoint; all later"),
    ("ckpt_invalidate", {"pos_max": 5, "pos_next": 5}, None),
    ("ckpt_restore", {"n_past": 9853, "n_tokens": 9853}, "n_past = 9,853 is the end of the checkpoint; all later"),
    ("ckpt_restore", {"n_past": 9676, "n_tokens": 9676, "prefix_end": 11586},
     "1,910 tokens of the common prefix (11,586) are evaluated again"),
    ("ckpt_restore", {"n_past": 800, "n_tokens": 806}, "n_past = 800, the checkpoint has 806 tokens"),
    ("ckpt_invalidate", {"pos_max": 27033, "pos_next": 23286}, "pos_max = 27,033 is after pos_next = 23,286"),
    ("trim_failed", {"p0": 1560}, "up to 1,560 tokens"),
    ("too_long", {"n_tokens": 9, "n_ctx": 8}, "9 tokens do not fit"),
    ("spec_step", {"accepted": 1, "drafted": 4}, "25 %"), ("spec_step", {"accepted": 1, "drafted": 0}, None),
])  # fmt: skip
def test_a_verdict_follows_from_the_numbers(kind, numbers, verdict):
    says = VERDICTS[kind](numbers)
    assert (verdict is None and says == "") or (verdict is not None and verdict in says)


WORDS = ({"f_sim", "thold", "f_keep", "mib", "limit_mib", "n", "max", "n_tokens", "n_ctx_slot", "n_ctx", "cache_n"},
         {"p0", "prompt_n", "n_past", "pos_min", "pos_max", "held", "n_swa", "prefix_end", "pos_next", "accepted"})


@pytest.mark.parametrize("kind", VERDICTS)
def test_words_in_place_of_numbers_give_no_verdict(kind):
    names = {name for verdict in WORDS for name in verdict}
    assert VERDICTS[kind](dict.fromkeys(names, "nan")) == "" == VERDICTS[kind]({})


def test_every_kind_with_a_verdict_is_printed_by_an_engine():
    grammars = [engine.log() for engine in ENGINES.values()]
    for grammar in grammars:
        assert grammar.warnings <= set(grammar.meanings)
        assert set(grammar.verdicts) <= {line.ev for one in grammars for line in one.lines}
