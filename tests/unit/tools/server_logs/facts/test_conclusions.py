"""Conclusions from the lines of a log: numbers of requests, facts about the server, and causes."""

from __future__ import annotations

import pytest

from cachesim.engines.shared.log_grammar import Line, ParsedLine
from cachesim.tools.server_logs.facts.conclusions import conclude, possible_profiles, printed_build
from cachesim.tools.server_logs.facts.log_reader import read_session
from cachesim.tools.server_logs.facts.proven_range import printed_range
from cachesim.tools.server_logs.facts.session import LogSession
from cachesim.tools.server_logs.facts.statements import FOLLOWS, Statement
from cachesim.tools.server_logs.lines.read_lines import LineSieve, ReadLine
from cachesim.tools.server_logs.lines.recognise import grammars
from cachesim.tools.server_logs.report.headline import headline
from cachesim.tools.server_logs.report.shown_requests import shown_requests
from cachesim.tools.server_logs.report.statement_report import causes, follows_rows


def slot(text, task=7, slot_id=0):
    return f"slot update_slots: id  {slot_id} | task {task} | {text}"


LAUNCH, NEW = slot("processing task"), slot("new prompt, n_ctx_slot = 4096, n_keep = 0, task.n_tokens = 150")
CHOICE = slot("selected slot by LCP similarity, f_sim_best = 0.800 (> 0.100 thold), f_keep = 0.968", -1)
CHECKS = [slot(f"checking checkpoint with [{at}, {at}] against 80...") for at in (99, 90)]
FULL = slot("forcing full prompt re-processing due to lack of cache data")
TIMES = [slot("prompt eval time = 9.00 ms / 34 tokens (1 ms per token)"), slot("eval time = 9.00 ms / 4 tokens (x)")]
RELEASE = slot("stop processing: n_tokens = 153, truncated = 0")
NOISE = "the server says something else"
IK = "INFO [ {} | id_slot=0 id_task=7 {}"


def follows(*lines, engine="llama_cpp"):
    found = conclude(read_session(engine, grammars()[engine], lines)).statements
    return [said for said in found if said.kind == FOLLOWS]


def numbers(*lines, engine="llama_cpp"):
    return {name: value for said in follows(*lines, engine=engine) if said.what == "request"
            for name, value in said.numbers.items()}  # fmt: skip


def test_sums_give_the_prompt_and_the_reused_tokens():
    assert numbers(LAUNCH, *TIMES, RELEASE) == {
        "n_tokens": 150, "cache_n": 116, "prompt_n": 34, "predicted_n": 4, "end": 153}  # fmt: skip
    assert "n_tokens" not in numbers(LAUNCH, *TIMES, RELEASE.replace("truncated = 0", "truncated = 1"))


def test_the_last_generated_token_of_ik_may_be_in_the_slot():
    release = "INFO [ release_slots] slot released | id_slot=0 id_task=7 n_cache_tokens=153 truncated=0"
    begun = [IK.format("launch_slot_with_task] slot is processing task", ""),
             "======== Cache: cache_size = 120, n_past =  115, n_past_prompt = {}",
             IK.format("batch_pending_prompt] kv cache rm [p0, end)", "p0=115")]  # fmt: skip
    found = numbers(begun[0], begun[1].format(115), begun[2], *TIMES, release, engine="ik_llama")
    assert (found["n_tokens"], found["cache_n"]) == ([149, 150], 115)
    for lines in ([begun[0], begun[1].format(116), begun[2]], [begun[2]], []):   # its tokens may differ from the slot's
        assert numbers(*lines, *TIMES, release, engine="ik_llama").get("n_tokens") == (
            [116, None] if len(lines) == 3 else None)  # fmt: skip


@pytest.mark.parametrize(("slots", "said"), [(3, [{"parallel": 3}]), (4, []), (1, [{"parallel": 1}])])
def test_a_number_of_slots_that_servers_choose_themselves_shows_no_flag(slots, said):
    line = f"srv    load_model: initializing slots, n_slots = {slots}"
    assert [one.numbers for one in follows(line) if one.what == "option"] == said


def test_timings_after_the_release_may_be_those_of_another_server():
    assert "n_tokens" not in numbers(LAUNCH, RELEASE, *TIMES)
    before = RELEASE.replace("n_tokens", "n_past")                               # servers of 2024 and 2025
    assert numbers(LAUNCH, before, *TIMES)["n_tokens"] == 150
    created = slot("created context checkpoint 1 of 8 (pos_min = 9, pos_max = 9, n_tokens = 10, size = 1 MiB)")
    assert "n_tokens" not in numbers(LAUNCH, before, created, *TIMES)
    assert numbers(LAUNCH, *TIMES, RELEASE, created)["n_tokens"] == 150


def test_a_release_with_fewer_tokens_than_evaluated_gives_no_length():
    few = RELEASE.replace("153", "36")
    assert "n_tokens" not in numbers(LAUNCH, *TIMES, few)
    assert "n_tokens" not in numbers(LAUNCH, FULL, *TIMES, few)                  # nor does the sum with reused tokens
    assert numbers(LAUNCH, *TIMES, few.replace("36", "37"))["n_tokens"] == 34
    assert numbers(slot("n_tokens = 151, memory_seq_rm [151, end)"), TIMES[1], RELEASE)["n_tokens"] == [152, None]


def test_shares_give_ranges_within_their_rounding():
    found = numbers(CHOICE, LAUNCH, NEW, *TIMES)
    assert found["lcp"] == 120 and found["held"] == 124 and found["lost"] == 4
    long = numbers(CHOICE, LAUNCH, NEW.replace("150", "15000"))
    assert long["lcp"] == [11993, 12007] and "lost" not in long


def test_each_conclusion_names_the_lines_that_it_follows_from():
    lost = next(said for said in follows(NOISE, CHOICE, LAUNCH, NEW, *TIMES) if "lost" in said.numbers)
    assert lost.lines == (2, 4, 5) and (lost.slot, lost.task) == (0, 7)
    assert "120" in lost.says and "116" in lost.says


@pytest.mark.parametrize("share, n_tokens", [("0.926437", 870), ("0.93", [863, 871])])
def test_progress_gives_the_length_of_the_prompt(share, n_tokens):
    text = f"prompt processing progress, n_tokens = 806, batch.n_tokens = 9, progress = {share}"
    assert numbers(slot(text))["n_tokens"] == n_tokens


def test_lines_of_two_requests_with_the_same_ids_are_not_combined():
    assert numbers(NEW, *TIMES, NEW.replace("150", "90")) == {}


def test_a_selection_belongs_to_the_next_launch_only():
    assert "lcp" not in numbers(CHOICE, slot("processing task", 5), LAUNCH, NEW)
    assert "lcp" not in numbers(CHOICE, slot("processing task", 7, 1), LAUNCH, NEW)


@pytest.mark.parametrize(("after", "agrees"), [
    (" - looking for better prompt, base f_keep = 0.968, f_sim = 0.800", True),
    (" - looking for better prompt, base f_keep = 0.968, f_sim = 0.799", False),
    (" - looking for better prompt, base f_keep = 0.250, f_sim = 0.800", False),
    (" - saving prompt with length 124, total state size = 0.005 MiB (draft: 0.000 MiB)", True),
    (" - saving prompt with length 48, total state size = 0.005 MiB (draft: 0.000 MiB)", False),
])  # fmt: skip
def test_a_selection_of_another_server_is_not_combined_with_a_launch(after, agrees):
    found = numbers(CHOICE, f"srv load: {after}", LAUNCH, NEW)
    assert ("lcp" in found, "held" in found) == (agrees, agrees)


def test_timings_below_a_heading_are_clear_only_if_no_other_heading_waits_for_its_own():
    heading = "slot print_timing: id  0 | task {} | "
    times = ["prompt eval time = 9.00 ms / 34 tokens (1 ms per token)", "eval time = 9.00 ms / 4 tokens (x)",
             "total time = 9.00 ms / 38 tokens"]  # fmt: skip
    alone, first = [LAUNCH, heading.format(7), *times], [slot("processing task", 5), heading.format(5)]
    assert numbers(*alone) == {"prompt_n": 34, "predicted_n": 4}
    assert numbers(*first, RELEASE.replace("task 7", "task 5"), *alone)["prompt_n"] == 34
    assert numbers(*first, *alone) == numbers(*first, LAUNCH, *times, heading.format(7)) == {}
    unclear = [*first, slot("processing task", 6), heading.format(6), *times]
    assert numbers(*unclear, *alone) == {}
    assert numbers(*unclear, RELEASE.replace("task 7", "task 5"), *alone)["prompt_n"] == 34


def test_a_slot_that_was_selected_by_its_id_is_compared_after_that():
    chosen, compared = slot("selected slot by id (0)", -1), slot(" - checking sim = 0.800 (120/150) > 0.100", -1)
    assert numbers(chosen, compared, LAUNCH, NEW)["lcp"] == 120
    assert "lcp" not in numbers(chosen, compared.replace("id  0", "id  1"), LAUNCH, NEW)


def test_a_first_batch_counts_only_if_no_refusal_can_be_hidden():
    batch = slot("n_tokens = 116, memory_seq_rm [116, end)")
    assert numbers(LAUNCH, NEW, batch, NOISE, RELEASE)["cache_n"] == 116
    assert numbers(LAUNCH, NEW, batch, NOISE)["cache_n"] == [0, 116]          # nothing follows the batch
    assert numbers(NEW, batch, batch)["cache_n"] == [0, 116]                # found by a search for "n_tokens"
    refused = slot("failed to truncate tokens with position >= 116 - clearing the memory")
    assert numbers(LAUNCH, NEW, batch, refused, NOISE, RELEASE)["cache_n"] == 0
    assert numbers(batch, NOISE, RELEASE)["cache_n"] == [0, 116]            # not the first batch, perhaps
    old = slot("kv cache rm [116, end)")                                    # old servers do not print a refusal
    assert numbers(LAUNCH, NEW, old, NOISE, RELEASE)["cache_n"] == [0, 116]
    assert numbers(LAUNCH, NEW, old.replace("116", "0"), NOISE, RELEASE)["cache_n"] == 0
    progress = slot("prompt processing progress, n_past = 150, n_tokens = 34, progress = 0.226667")
    assert numbers(LAUNCH, NEW, old, progress, RELEASE)["cache_n"] == 116
    whole = progress.replace("34", "150").replace("0.226667", "1.000000")
    assert numbers(LAUNCH, NEW, old, whole, RELEASE)["cache_n"] == 0


def test_a_first_batch_from_position_0_reuses_nothing_whatever_follows():
    assert numbers(LAUNCH, NEW, slot("n_tokens = 0, memory_seq_rm [0, end)"))["cache_n"] == 0


RESTORED = "restored context checkpoint (pos_min = {0}, pos_max = {1}, n_tokens = 70, n_past = {2}, size = 1 MiB)"


@pytest.mark.parametrize("more, restored, cache_n", [
    ([NEW], (69, 69, 70), 70),
    ([CHECKS[0]], (69, 69, 70), 70),
    ([NEW], (30, 69, 69), 69),                                      # a window: its memory removes any tokens
    ([NEW], (69, 69, 69), None),                                    # the state contains the position
    ([NEW.replace("150", "70")], (69, 69, 70), None),               # the last token of the prompt is evaluated
    ([], (69, 69, 70), None),
    ([NEW, slot("need to evaluate at least 1 token to generate logits, n_past = 70, n_prompt_tokens = 150")],
     (69, 69, 70), None),
])  # fmt: skip
def test_a_checkpoint_within_the_prompt_is_reused_whatever_follows(more, restored, cache_n):
    assert numbers(*more, slot(RESTORED.format(*restored))).get("cache_n") == cache_n


def test_a_line_about_the_last_token_may_follow_the_lines_of_a_search():
    lines = LAUNCH, NEW.replace("150", "70"), slot(RESTORED.format(69, 69, 70)), NOISE
    longer = LAUNCH, NEW.replace("150", "71"), *lines[2:]
    erased = slot("erased invalidated context checkpoint (pos_min = 99, pos_max = 99, n_tokens = 100, size = 1 MiB)")
    assert "cache_n" not in numbers(*lines, erased)
    assert numbers(*longer, erased, slot("n_tokens = 70, memory_seq_rm [70, end)"), RELEASE)["cache_n"] == 70


def test_an_ik_checkpoint_may_still_be_refused():
    lines = [slot("n_past = 90, slot.prompt.tokens.size() = 99, seq_id = 0, pos_min = 98"),
             slot("restored context checkpoint took 9 ms (pos_min = 69, pos_max = 69, n_tokens = 70, n_past = 70, "
                  "size = 1 MiB)")]  # fmt: skip
    assert "cache_n" not in numbers(*lines, engine="ik_llama")


def test_an_erased_checkpoint_may_print_the_common_prefix():
    erased = slot("erased invalidated context checkpoint (pos_min = 99, pos_max = 99, pos_end = 100, n_tokens = 100, "
                  "n_swa = 0, prefix_end = 95, pos_next = 70, size = 1 MiB)")  # fmt: skip
    found = numbers(slot(RESTORED.format(69, 69, 70)), erased)
    assert (found["lcp"], found["cache_n"], found["lost"]) == (95, 70, [24, 25])
    assert named(slot(RESTORED.format(69, 69, 70)), erased)["checkpoint-too-late"] == ([24, 25], (1, 2))
    moved = slot("reusing chunk with size 9, shifting KV cache [9, 18) -> [5, 14)")
    assert "lcp" not in numbers(moved, erased)


@pytest.mark.parametrize("rest, found", [(9, (49, 40, 9)), (0, (40, 39, 1))])
def test_a_server_of_2023_prints_reused_and_other_tokens(rest, found):
    counted = numbers(f"slot 0 : in cache: 40 tokens | to process: {rest} tokens")
    assert (counted["n_tokens"], counted["cache_n"], counted["prompt_n"]) == found


def memory(*lines, engine="llama_cpp"):
    return [(said.numbers, said.lines) for said in follows(*lines, engine=engine) if said.what == "memory"]


HELD = "n_past = 40, slot.prompt.tokens.size() = 100, seq_id = 0, pos_min = {0}, n_swa = {1}"
CREATED = "created context checkpoint 1 of 8 (pos_min = {0}, pos_max = 99, n_tokens = 100, size = 1 MiB)"


@pytest.mark.parametrize("text, cut", [
    (HELD.format(99, 1), "none"), (HELD.format(60, 32), "window"), (HELD.format(60, 0), None), (CHECKS[0], "none"),
    (CREATED.format(99), "none"), (CREATED.format(60), "window"), (CREATED.format(0), None), (LAUNCH, None),
])  # fmt: skip
def test_positions_show_what_the_memory_allows(text, cut):
    assert memory(text if "task" in text else slot(text)) == ([({"cut": cut}, (1,))] if cut else [])


def test_a_memory_is_shown_by_a_line_of_each_kind_and_by_none_if_they_differ():
    assert memory(*CHECKS, NOISE, slot(HELD.format(99, 0))) == [({"cut": "none"}, (1, 4))]
    assert memory(*CHECKS, slot(CREATED.format(60))) == []


def test_ik_prints_the_position_in_the_first_cell_without_states():
    created = "created context checkpoint 1 of 8 (pos_min = {}, pos_max = 99, size = 1 MiB, took 9 ms)"
    assert memory(slot(created.format(60)), engine="ik_llama") == []
    assert memory(slot(created.format(99)), engine="ik_llama") == [({"cut": "none"}, (1,))]
    held = "n_past = 40, slot.prompt.tokens.size() = 100, seq_id = 0, pos_min = 99"
    assert memory(slot(held), engine="ik_llama") == []


def test_the_entry_that_was_loaded_is_the_prefix():
    lines = (CHOICE, "srv load:    - prompt with length     200, lcp =     140, f_keep = 0.700, f_sim = 0.933",
             "srv load:  - found better prompt with f_keep = 0.700, f_sim = 0.933", LAUNCH, NEW)  # fmt: skip
    assert (numbers(*lines)["lcp"], numbers(*lines)["held"]) == (140, 200)
    assert (numbers(CHOICE, *lines[2:])["lcp"], numbers(CHOICE, *lines[2:])["held"]) == (140, 200)   # by its shares
    failed = "state_seq_set_data: error loading state: failed to restore kv cache"
    assert not {"lcp", "held"} & set(numbers(*lines[:3], failed, *lines[3:]))
    assert "lcp" not in numbers(*(line for line in lines if "f_keep" in line or ("task" in line and "8" in line)))


def test_printed_numbers_that_contradict_each_other_give_none():
    lines = NEW, slot("prompt done, n_tokens = 151, batch.n_tokens = 9")
    assert numbers(*lines) == {}
    assert [(said.what, said.numbers, said.lines) for said in follows(*lines)] == [
        ("contradiction", {"n_tokens": [150, 151]}, (1, 2))]  # fmt: skip


@pytest.mark.parametrize("word, low, high", [("0.800", 0.7995, 0.8005), ("1.0", 0.95, 1.05), ("3", None, None)])
def test_the_range_of_a_printed_number(word, low, high):
    assert printed_range(word) == (None if low is None else pytest.approx((low, high), abs=1e-6))


def test_a_search_hides_the_lines_without_its_word():
    sieve = LineSieve()
    assert sieve.hides(["any"])
    for line in ("checkpoint a", "", "the checkpoint b"):
        sieve.add(line)
    assert sieve.hides(["release"]) and not sieve.hides(["created checkpoint 3"])
    sieve.add("release c")
    assert not sieve.hides(["xyz"])


def test_the_spelling_dates_the_build():
    sim = slot("selected slot by LCP similarity, sim_best = 0.8 (> 0.1 thold), f_keep = 0.9", -1)
    assert [said.numbers for said in follows(sim) if said.what == "build"] == [{"build": [None, 10228]}]
    shared = slot(" - copying shared prompt (9 tokens) to child 2")
    assert [said.numbers for said in follows(shared) if said.what == "build"] == [{"build": [11313, None]}]
    assert [said.numbers for said in follows("build: 8000 (abc) with gcc", sim)
            if said.what == "build"] == [{"build": [8000, 8000]}]  # fmt: skip


def built(*spellings):
    """Return the builds that print lines with these spellings, and the lines that prove it."""
    lines = [ReadLine(at, ParsedLine(Line("launch", "x", **ends), None, None, {}), "x")
             for at, ends in enumerate(spellings, 1)]  # fmt: skip
    found = conclude(LogSession("llama_cpp", read_lines=lines)).statements
    return [(said.numbers["build"], said.lines) for said in found if said.what == "build"]


@pytest.mark.parametrize(("spellings", "build", "lines"), [
    ([{}], None, ()), ([{"since": 8000}], [7790, None], (1,)), ([{"until": 8100}], [None, 8099], (1,)),
    ([{"since": 8000}, {"since": 7500}, {"until": 8200}, {"until": 8100}], [7790, 8099], (1, 4)),
    ([{"since": 8000}, {"since": 8000}, {"until": 8100}, {"until": 8100}], [7790, 8099], (1, 3)),
    ([{"since": 7789}, {"until": 8100}], [7401, 8099], (1, 2)),
    ([{"since": 7790}, {"until": 7791}], [7790, 7790], (1, 2)),
    ([{"since": 1573}], None, ()), ([{"since": 8000}, {"until": 8000}], None, ()),
])  # fmt: skip
def test_a_build_lies_after_the_last_one_without_a_spelling_and_before_the_first(spellings, build, lines):
    """Known builds are 1573 (the oldest), 7400, 7789 and others."""
    assert built(*spellings) == ([] if build is None else [(build, lines)])


def test_spellings_of_two_builds_date_none():
    search = "srv load:  - looking for better prompt, base f_keep = -1.000, {} = 0.000"
    dated = [[said.numbers for said in follows(*lines) if said.what == "build"] for lines in (
        [search.format("sim")], [search.format("f_sim")], [search.format("sim"), search.format("f_sim")])]  # fmt: skip
    assert dated == [[{"build": [None, 10228]}], [{"build": [9766, None]}], []]


def test_rule_sets_of_other_builds_are_not_possible():
    found = [Statement(FOLLOWS, "build", (1,), None, None, {"build": [8153, 9000]})]
    names = ("x@b8100", "x@b8152", "x@b8260", "x@b9231", "x@main")
    assert possible_profiles(names, found) == ("x@b8152", "x@b8260", "x@main")
    assert possible_profiles(names, []) == names
    assert possible_profiles(("x@old", "x@b8100", "x@b8152"), found) == ("x@old", "x@b8152")
    assert possible_profiles(("x@bx9300", "x@b8153"), found) == ("x@bx9300", "x@b8153")
    several = [Statement(FOLLOWS, "build", (1,), None, None, {"build": ends}) for ends in (
        [8100, 9000], [8200, None], [None, 8800])]  # fmt: skip
    names = ("x@b8000", "x@b8200", "x@b8800", "x@b8801")
    assert possible_profiles(names, several) == names[1:3]


def named(*lines):
    return {said.numbers["cause"]: (said.numbers["lost"], said.lines) for said in follows(*lines)
            if said.what == "cause"}  # fmt: skip


def test_a_full_evaluation_has_a_cause_with_the_checks():
    assert named(*CHECKS, FULL) == {"no-checkpoint": ([79, None], (1, 2, 3))}
    says = next(said.says for said in follows(*CHECKS, FULL) if said.what == "cause")
    assert "90" in says and "80" in says
    assert named(*CHECKS) == {}


def test_a_restored_checkpoint_is_a_cause_only_if_tokens_are_lost():
    restore = slot("restored context checkpoint (pos_min = 69, pos_max = 69, n_tokens = 70, n_past = 70, size = 1 MiB)")
    assert named(*CHECKS, restore) == {"checkpoint-too-late": ([9, None], (1, 2, 3))}
    moved = slot("reusing chunk with size 9, shifting KV cache [90, 99) -> [71, 80)")
    erased = slot("erased invalidated context checkpoint (pos_min = 99, pos_max = 99, n_tokens = 100, n_swa = 0, "
                  "pos_next = 70, size = 1 MiB)")  # fmt: skip
    assert "lcp" in numbers(LAUNCH, *CHECKS, restore, erased, NOISE)
    assert "lcp" not in numbers(LAUNCH, moved, *CHECKS, restore, erased, NOISE)
    assert "lcp" not in numbers(*CHECKS, restore, erased, NOISE)               # the excerpt may begin after such a line
    assert "lcp" not in numbers(LAUNCH.replace("processing", "checkpoint"), *CHECKS, restore, erased)   # a search
    assert named(restore) == {} and named(CHECKS[0].replace("80", "70"), restore) == {}


def test_changed_and_identical_prompts_have_causes():
    assert named(CHOICE, LAUNCH, NEW, *TIMES) == {"edited-prompt": (4, (1, 3, 4))}
    same = slot("need to evaluate at least 1 token for each active slot (n_past = 150, task.n_tokens() = 150)")
    assert named(same) == {}                                 # every server evaluates the last token of a prompt
    refused = slot("failed to truncate tokens with position >= 116 - clearing the memory")
    assert named(refused) == {"trim-refused": ([116, None], (1,))}


def test_a_slot_that_is_cleared_for_other_adapters_is_a_cause():
    batch = slot("cached n_tokens = 0, memory_seq_rm [0, end)")
    cleared = slot("clearing cache for lora change. 2 loras -> 1 loras", -1)
    assert named(CHOICE, cleared, LAUNCH, NEW, batch)["adapters-changed"] == (120, (1, 2, 4))
    assert "adapters-changed" not in named(CHOICE, cleared.replace("2 loras", "0 loras"), LAUNCH, NEW, batch)
    assert "adapters-changed" not in named(CHOICE, LAUNCH, NEW, batch)
    assert "adapters-changed" not in named(cleared, LAUNCH, NEW, batch)          # how much it held is not known
    kept = slot("keeping cache for alora. 2 target loras", -1)
    assert "adapters-changed" not in named(CHOICE, kept, LAUNCH, NEW, batch)
    other = slot("selected slot by LRU, t_last = 1", -1, slot_id=1)
    assert "adapters-changed" not in named(CHOICE, cleared, other, LAUNCH, NEW, batch)


def data(*lines):
    return [said.as_data() for said in conclude(read_session("llama_cpp", grammars()["llama_cpp"], lines)).statements]


def test_the_headline_rests_on_the_log_alone():
    assert headline(data(*CHECKS, FULL)).plain == "1 request evaluated at least 79 tokens of a common prefix again."
    found = data(CHOICE, LAUNCH, NEW, *TIMES)
    assert headline(found).plain.startswith("1 request evaluated 4 tokens of a common prefix again (23 % of 150")
    assert "does not show whether" in headline(data(NEW)).plain and "no lengths" in headline(data(LAUNCH)).plain
    assert [one.name for one in shown_requests(found)] == ["slot 0, task 7"]
    again = shown_requests(data(CHOICE, LAUNCH, NEW, *TIMES, CHOICE, LAUNCH, NEW, *TIMES))
    assert [one.name for one in again] == ["slot 0, task 7", "run 2, slot 0, task 7"]       # the server was restarted
    assert "lines 1, 3-4" in next(iter(causes(found, False))).plain


@pytest.mark.parametrize(("evaluated", "says"), [
    (3, "The log shows no token"), (2, "The log shows no token"), (1, "No tokens"),
])  # fmt: skip
def test_the_headline_does_not_name_the_few_tokens_that_rounded_shares_allow(evaluated, says):
    """A common prefix of 9,995 to 10,000 of 10,000 tokens: the last token of a prompt is always evaluated."""
    choice = CHOICE.replace("0.800", "1.000").replace("0.968", "0.900")
    times = [slot(f"prompt eval time = 9.00 ms / {evaluated} tokens (1 ms per token)"), TIMES[1]]
    found = headline(data(choice, LAUNCH, NEW.replace("= 150", "= 10000"), *times)).plain
    assert found.startswith(says)


def test_the_causes_of_a_request_share_a_line():
    said = {"kind": "follows", "what": "cause", "run": 0, "slot": 0, "task": 7, "lines": [1]}
    first = {**said, "says": "a", "numbers": {"cause": "edited-prompt", "lost": 4}}
    second = {**said, "says": "b", "lines": [2, 3], "numbers": {"cause": "no-checkpoint", "lost": [3, None]}}
    alone = {**first, "task": 8, "says": "c"}
    assert [line.plain for line in causes([first, second, alone, {**alone, "task": 9}], False)] == [
        "Cause: slot 0, task 7: a; b, lines 1-3.", "Cause: slot 0, task 8: c, line 1; likewise 1 request."]  # fmt: skip
    alarm = {**said, "slot": None, "task": None, "says": "w", "numbers": {"cause": "server-warning"}}
    [line] = causes([alarm, {**alarm, "lines": [2]}], False)
    assert line.plain.endswith("line 1; likewise 1 more line.")


INFILL = "srv  log_server_r: done request: POST /infill 127.0.0.1 200"
CHAT = "srv  log_server_r: request: POST /v1/chat/completions 10.0.0.1 200"


def tasks(*lines):
    return [(said.lines, said.numbers, said.says) for said in follows(*lines) if said.what == "tasks"]


def test_the_paths_of_requests_show_what_their_tasks_do_not_get():
    [(lines, numbers, says)] = tasks(LAUNCH, INFILL, NOISE, INFILL)
    assert (lines, numbers) == ((2, 4), {"task_kind": "infill", "requests": 2}) and "LC-TASK.COMPLETION" in says
    assert tasks(*[INFILL] * 9)[0][0] == (1, 2, 3, 4, 5, 6)


@pytest.mark.parametrize(("kind", "paths"), [
    ("embedding", ["/embedding", "/embeddings", "/v1/embeddings"]),
    ("rerank", ["/rerank", "/reranking", "/v1/rerank", "/v1/reranking"]),
])  # fmt: skip
def test_every_path_of_a_kind_is_known(kind, paths):
    lines = [INFILL.replace("/infill", path) for path in paths]
    [(_, numbers, says)] = tasks(*lines)
    assert numbers == {"task_kind": kind, "requests": len(paths)} and kind in says


@pytest.mark.parametrize("lines", [
    [CHAT], [INFILL, CHAT], [INFILL.replace("200", "501")], [INFILL.replace("/infill", "/infills")],
    [INFILL.replace("POST", "GET")], [f"{INFILL} ms"],
])  # fmt: skip
def test_other_paths_and_refused_requests_show_nothing(lines):
    assert tasks(LAUNCH, *lines) == []


ASSERTION = "/src/llama-kv-cache.cpp:1123: GGML_ASSERT(it != cells.end()) failed"


def ends(*lines, engine="llama_cpp"):
    return [said for said in follows(*lines, engine=engine) if said.what == "ended"]


def test_the_first_line_that_ends_the_server_is_a_conclusion():
    [said] = ends(LAUNCH, NEW, ASSERTION, ASSERTION)
    assert said.lines == (3,) and ASSERTION in said.says
    assert ends(LAUNCH, NEW, FULL) == []


@pytest.mark.parametrize(("engine", "line", "kind"), [
    ("llama_cpp", "/src/server.cpp:3870: pos_min == -1, but n_past > 0 - should not happen", "no_pos_min"),
    ("vllm", "EngineCore encountered a fatal error.", "engine_died"),
    ("sglang", "Scheduler hit an exception: Traceback (most recent call last):", "scheduler_died"),
    ("mlx_lm", "mlx_lm.server generation thread died: ValueError", "thread_ended"),
])  # fmt: skip
def test_each_server_has_lines_that_end_it(engine, line, kind):
    [said] = ends(line, engine=engine)
    assert said.numbers == {"line_kind": kind}
    text = "".join(str(row) for row in follows_rows([said.as_data()], everything=False))
    assert line not in text
    assert line in "".join(str(row) for row in follows_rows([said.as_data()], everything=True))


def test_the_build_is_the_first_that_is_printed():
    said = [Statement(FOLLOWS, "option", (1,), None, None, {"np": 4}),
            Statement(FOLLOWS, "build", (2,), None, None, {"build": [8000, None]}),
            Statement(FOLLOWS, "build", (3,), None, None, {"build": [8100, 8100]}),
            Statement(FOLLOWS, "build", (4,), None, None, {"build": [8200, 8200]})]  # fmt: skip
    assert printed_build(said) == 8100 and printed_build(said[:2]) == 0


def test_an_option_is_known_if_all_lines_print_the_same_value():
    """A size with decimals that is a whole number is the number of the flag."""
    enabled = "srv    load_model: prompt cache is enabled, size limit: {} MiB"
    for sizes, known in ((["512"], [512]), (["512.000"], [512]), (["512", "512.000"], [512]), (["512", "600"], [])):
        found = follows(*map(enabled.format, sizes))
        assert [said.numbers["cache_ram"] for said in found if "cache_ram" in said.numbers] == known


def test_server_runs_are_in_the_order_of_their_lines():
    """The run with the most requests began last."""
    lines = [LAUNCH, NEW, "build: 9999 (abc) with gcc", LAUNCH, NEW, slot("processing task", 8)]
    found = conclude(read_session("llama_cpp", grammars()["llama_cpp"], lines))
    assert found.main == 1 and {said.run for said in found.statements} == {0, 1}
    assert all(said.run == (said.lines[0] > 2) for said in found.statements)
