"""Lines that belong to the same request although they do not name it."""

from __future__ import annotations

import pytest

from cachesim.tools.server_logs.facts.log_reader import read_session
from cachesim.tools.server_logs.lines.line_prefixes import message
from cachesim.tools.server_logs.lines.line_ties import LineTies
from cachesim.tools.server_logs.lines.read_lines import ReadLine
from cachesim.tools.server_logs.lines.recognise import grammars, read_message

GRAMMAR = grammars()["llama_cpp"]
LAUNCHES = ["slot 0 is processing [task id: 5]", "slot 1 is processing [task id: 6]"]
BODY = ["slot {0} : in cache: 40 tokens | to process: 9 tokens", "slot {0} : kv cache rm - [40, end)"]
SHIFT = "slot 0: context shift - n_keep = 4, n_left = 90, n_discard = 45"
RELEASED = "slot 0 released (60 tokens in cache)"
IDLE = "all slots are idle and system prompt is empty, clear the KV cache"
TIMES = ["print_timings: prompt eval time = 17.17 ms / 9 tokens (1 ms per token)",
         "print_timings: eval time = 7.57 ms / 12 runs (1 ms per token)"]  # fmt: skip
MEANWHILE = "slot unavailable"
BEGIN = "srv load_model: prompt cache is enabled, size limit: 8192 MiB"


def tie_all(lines):
    """Return the requests of these lines."""
    ties = LineTies()
    for line in lines:
        ties.add(line)
    return ties.finished()


def tied(*lines, engine="llama_cpp"):
    """Return slot and task of each request, with the numbers of its lines."""
    session = read_session(engine, grammars()[engine], lines)
    return [(one.slot, one.task, [line.number for line in one.lines]) for one in tie_all(session.read_lines)]


def test_lines_of_a_slot_belong_to_the_task_launched_in_it():
    body = [text.format(0) for text in BODY]
    assert tied(LAUNCHES[0], *body, SHIFT, SHIFT, MEANWHILE, RELEASED) == [(0, 5, [1, 2, 3, 4, 5, 7])]
    assert tied(*LAUNCHES, *(text.format(1) for text in BODY), *body) == [(0, 5, [1, 5, 6]), (1, 6, [2, 3, 4])]


def test_lines_of_a_slot_without_a_launch_have_no_task():
    body = [text.format(0) for text in BODY]
    assert tied(*body, RELEASED, LAUNCHES[0], *body) == [(0, None, [1, 2, 3]), (0, 5, [4, 5, 6])]


@pytest.mark.parametrize("between", [RELEASED, IDLE, BEGIN])
def test_a_request_ends_with_its_release_and_when_all_slots_are_idle(between):
    assert (0, None, [3, 4]) in tied(LAUNCHES[0], between, *(text.format(0) for text in BODY))


def test_lines_that_cannot_follow_begin_another_request():
    body = [text.format(0) for text in BODY]
    assert tied(LAUNCHES[0], *body, *body) == [(0, 5, [1, 2, 3]), (0, None, [4, 5])]
    assert tied(LAUNCHES[0], body[0], body[0]) == [(0, 5, [1, 2]), (0, None, [3])]
    assert tied(LAUNCHES[0], body[1], body[0]) == [(0, 5, [1, 2]), (0, None, [3])]


def test_timings_belong_to_the_only_request_since_all_slots_were_idle():
    assert tied(IDLE, LAUNCHES[0], *TIMES, RELEASED) == [(0, 5, [2, 3, 4, 5])]
    assert tied(LAUNCHES[0], *TIMES) == [(0, 5, [1])]                            # another slot may be busy
    assert tied(IDLE, LAUNCHES[0], BEGIN, *TIMES) == [(0, 5, [2])]               # the server was started again
    assert tied(IDLE, *LAUNCHES, *TIMES) == [(0, 5, [2]), (1, 6, [3])]
    assert tied(IDLE, LAUNCHES[0], RELEASED, IDLE, LAUNCHES[1], *TIMES)[1] == (1, 6, [5, 6, 7])


IK_LAUNCH = "INFO [ launch_slot_with_task] slot is processing task | id_slot=0 id_task=5"
PREFIX = "======== Cache: cache_size = 60, n_past = 40, n_past_prompt = 40"
BATCH = "INFO [ batch_pending_prompt] kv cache rm [p0, end) | id_slot=0 id_task=5 p0=40"
N_PAST = "slot apply_checkp: id  0 | task 5 | n_past = 40, slot.prompt.tokens.size() = 60, seq_id = 0, pos_min = 59"


@pytest.mark.parametrize("following", [BATCH, N_PAST])
def test_the_prefix_of_ik_belongs_to_the_launched_request_that_agrees_with_it(following):
    assert tied(IK_LAUNCH, PREFIX, following, engine="ik_llama") == [(0, 5, [1, 2, 3])]


ONE = "INFO [ update_slots] we have to evaluate at least 1 token to generate logits | id_slot=0 id_task=5"


def test_the_prefix_of_ik_belongs_to_the_request_whose_last_token_is_evaluated_again():
    assert tied(IK_LAUNCH, PREFIX, ONE, engine="ik_llama") == [(0, 5, [1, 2, 3])]


def test_the_prefix_of_ik_belongs_to_the_only_running_request_if_nothing_contradicts_it():
    """Tokens of the prompt and of the slot may differ in number: their texts are compared."""
    other = PREFIX.replace("prompt = 40", "prompt = 41")
    for following in (ONE, BATCH):
        assert tied(IK_LAUNCH, other, following, engine="ik_llama") == [(0, 5, [1, 2, 3])]
    assert tied(PREFIX, BATCH, engine="ik_llama") == [(0, 5, [1, 2])]
    second = IK_LAUNCH.replace("id_slot=0 id_task=5", "id_slot=1 id_task=4")
    assert (None, None, [3]) in tied(second, IK_LAUNCH, other, BATCH, engine="ik_llama")
    assert (None, None, [3]) in tied(IK_LAUNCH, ONE, other, BATCH, engine="ik_llama")


@pytest.mark.parametrize("prefix, following, is_its_own", [
    (PREFIX, BATCH, True), (PREFIX, BATCH.replace("p0=40", "p0=39"), False), (PREFIX, ONE, True),
    (PREFIX, N_PAST, True), (PREFIX, N_PAST.replace("n_past = 40", "n_past = 41"), False),
    (PREFIX, N_PAST.replace("size() = 60", "size() = 61"), False),
    (PREFIX.replace("prompt = 40", "prompt = 41"), BATCH, False),
    (PREFIX.replace("prompt = 40", "prompt = 41"), ONE, False),
])  # fmt: skip
def test_beside_another_request_the_numbers_of_a_prefix_must_be_those_of_the_next_line(prefix, following, is_its_own):
    running = IK_LAUNCH.replace("id_slot=0 id_task=5", "id_slot=1 id_task=4")
    own = [(1, 4, [1]), (0, 5, [2, 3, 4])]
    apart = [(1, 4, [1]), (0, 5, [2, 4]), (None, None, [3])]
    assert tied(running, IK_LAUNCH, prefix, following, engine="ik_llama") == (own if is_its_own else apart)


def test_a_prefix_belongs_to_no_request_whose_prompt_has_begun_or_whose_launch_is_missing():
    running = IK_LAUNCH.replace("id_slot=0 id_task=5", "id_slot=1 id_task=4")
    begun = tied(running, IK_LAUNCH, N_PAST, PREFIX, BATCH, engine="ik_llama")
    assert begun == [(1, 4, [1]), (0, 5, [2, 3, 5]), (None, None, [4])]
    assert tied(running, PREFIX, BATCH, engine="ik_llama") == [(1, 4, [1]), (None, None, [2]), (0, 5, [3])]


def test_a_prefix_belongs_to_the_only_running_request_only_just_after_its_launch():
    other = PREFIX.replace("prompt = 40", "prompt = 41")
    released = "INFO [ release_slots] slot released | id_slot=1 id_task=4 n_ctx=512 n_past=60 n_system_tokens=0 " \
               "n_cache_tokens=60 truncated=false"  # fmt: skip
    ended = IK_LAUNCH.replace("id_slot=0 id_task=5", "id_slot=1 id_task=4")
    assert (0, 5, [3, 4, 5]) in tied(ended, released, IK_LAUNCH, other, BATCH, engine="ik_llama")
    assert (0, 5, [2, 5]) in tied(ended, IK_LAUNCH, released, other, BATCH, engine="ik_llama")
    assert (0, 5, [1, 3]) in tied(IK_LAUNCH, other, BATCH.replace("p0=40", "p0=42"), ended, engine="ik_llama")


def test_the_prefix_of_ik_belongs_to_the_only_request_although_the_next_line_has_no_number_of_it():
    released = "INFO [ release_slots] slot released | id_slot=0 id_task=5 n_ctx=512 n_past=60 n_system_tokens=0 " \
               "n_cache_tokens=60 truncated=false"  # fmt: skip
    assert tied(IK_LAUNCH, PREFIX, released, engine="ik_llama") == [(0, 5, [1, 2, 3])]
    assert tied(BATCH.replace("id_slot=0 ", ""), engine="ik_llama") == []          # a line without its slot


APART = "INFO [                main] something | tid=1 timestamp=2"


def test_a_prefix_of_a_log_with_a_single_request_is_adopted_at_its_end():
    """An unknown line between launch and prefix: only the whole log shows that nothing else can have printed it."""
    other = PREFIX.replace("prompt = 40", "prompt = 41")
    assert tied(IK_LAUNCH, APART, other, BATCH, engine="ik_llama") == [(0, 5, [1, 3, 4])]
    late = BATCH.replace("p0=40", "p0=42")
    assert (None, None, [3]) in tied(IK_LAUNCH, APART, other, late, engine="ik_llama")
    second = IK_LAUNCH.replace("id_slot=0 id_task=5", "id_slot=1 id_task=6")
    assert (None, None, [3]) in tied(IK_LAUNCH, APART, other, BATCH, second, engine="ik_llama")
    assert (None, None, [2]) in tied(APART, other, IK_LAUNCH, BATCH, engine="ik_llama")


def doubtful(*lines):
    """Return the tasks of doubtful requests."""
    session = read_session("llama_cpp", grammars()["llama_cpp"], lines)
    return [one.task for one in tie_all(session.read_lines) if one.is_doubtful]


def slot(text, task=5, slot_id=0):
    return f"slot update_slots: id  {slot_id} | task {task} | {text}"


LAUNCHED, DONE = slot("processing task, is_child = 0"), slot("stop processing: n_tokens = 60, truncated = 0")
BEGUN = slot("n_tokens = 0, memory_seq_rm [0, end)")


def test_a_request_whose_slot_is_selected_again_while_it_runs_is_doubtful():
    chosen = slot("selected slot by id (0)", -1)
    assert doubtful(LAUNCHED, chosen, DONE) == doubtful(BEGUN, chosen, DONE) == [5]
    assert doubtful(LAUNCHED, chosen) == doubtful(LAUNCHED, DONE, chosen) == []
    assert doubtful(LAUNCHED, slot("selected slot by id (1)", -1, 1), DONE) == []


def test_a_request_that_may_have_run_when_its_slot_was_selected_by_id_is_doubtful():
    chosen, other = slot("selected slot by id (0)", -1), slot("selected slot by LRU, t_last = 0", -1)
    before = slot("stop processing: n_tokens = 50, truncated = 0", 4)
    assert doubtful(chosen, DONE) == doubtful(before, chosen, chosen, DONE) == [5]
    assert doubtful(chosen, LAUNCHED, DONE) == doubtful(before, chosen, DONE) == doubtful(other, DONE) == []
    assert doubtful(slot("selected slot by id (1)", -1, 1), DONE) == []
    after = slot("stop processing: n_tokens = 70, truncated = 0", 6)
    assert doubtful(chosen, DONE, after) == [5] and doubtful(chosen, LAUNCHED, DONE, chosen, after) == []


def test_a_launch_may_follow_another_start_of_its_request_but_not_its_evaluation():
    new = slot("new prompt, n_ctx_slot = 512, n_keep = 0, task.n_tokens = 9")
    assert doubtful(LAUNCHED, BEGUN, new) == [5] and doubtful(LAUNCHED, new, BEGUN) == []


def similar(*lines):
    """Return the numbers of the lines about similarities, by task, that belong to a request."""
    session = read_session("llama_cpp", grammars()["llama_cpp"], lines)
    return {one.task: [line.number for line in one.similar] for one in tie_all(session.read_lines)}


def test_a_request_has_the_similarity_of_its_own_slot_before_its_selection_or_after_one_by_id():
    compared = [slot(" - checking sim = 0.500 (5/10) > 0.100", -1, at) for at in (1, 2, 1)]
    chosen = slot("selected slot by LCP similarity, f_sim_best = 0.500 (> 0.100 thold), f_keep = 0.500", -1, 2)
    launches = [slot("processing task, is_child = 0", 5, at) for at in (0, 1, 2)]
    assert similar(*compared[:2], chosen, launches[2]) == {5: [2]}
    assert similar(*compared[:2], chosen, launches[1]) == {5: []}               # of another slot than the selected one
    assert similar(*compared, launches[1]) == {5: [1, 3]}                       # the selection is not in the log
    by_id = slot("selected slot by id (1)", -1, 1)
    assert similar(by_id, compared[0], launches[1]) == {5: [2]}
    assert similar(chosen, compared[1], launches[2]) == {5: [2]}                # the comparison for a later selection
    assert similar(compared[1], chosen, launches[2], launches[2].replace("task 5", "task 6")) == {
        5: [1], 6: []}  # fmt: skip


def test_a_busy_slot_that_is_skipped_is_about_no_request():
    """The line names the request that the slot works on while a slot is chosen for another one."""
    running = slot("processing task, is_child = 0", 3, 2)
    busy = slot(" - skipping, is_processing = 1", 3, 2)
    empty = slot(" - skipping, slot is empty", -1, 1)
    chosen = slot("selected slot by LRU, t_last = -1", -1, 1)
    launch = slot("processing task, is_child = 0", 5, 1)
    assert similar(running, empty, busy, chosen, launch) == {3: [], 5: [2]}
    assert similar(running, busy, empty, chosen, launch) == {3: [], 5: [3]}
    assert tied(running, empty, busy, chosen, launch) == [(2, 3, [1]), (1, 5, [5])]


def choices(*lines):
    """Return the number of the line that selected the slot of each request."""
    session = read_session("llama_cpp", grammars()["llama_cpp"], lines)
    return [one.choice and one.choice.number for one in tie_all(session.read_lines)]


@pytest.mark.parametrize("foreign", [
    "srv load:  - looking for better prompt, base f_keep = -1.000, sim = 0.000", slot("processing task", 9),
    slot("new prompt, n_ctx_slot = 512, n_keep = 0, task.n_tokens = 9", 9).replace("update_slots", "operator()"),
])  # fmt: skip
def test_a_choice_among_lines_of_another_build_belongs_to_no_request(foreign):
    chosen = slot("selected slot by LCP similarity, f_sim_best = 0.800 (> 0.100 thold), f_keep = 0.968", -1)
    search = "srv load:  - looking for better prompt, base f_keep = -1.000, f_sim = 0.000"
    new = slot("new prompt, n_ctx_slot = 512, n_keep = 0, task.n_tokens = 9")
    assert choices(search, chosen, LAUNCHED, new) == [2]
    assert choices(search, chosen, LAUNCHED, new, DONE, LAUNCHED.replace("task 5", "task 6")) == [2, None]
    assert set(choices(search, chosen, LAUNCHED, new, foreign)) == {None}


def saved(*lines):
    """Return the tokens of the conversations that were saved from the slot of each request before its launch."""
    session = read_session("llama_cpp", grammars()["llama_cpp"], lines)
    return [[line.number_of("n_tokens") for line in one.of_cache("pc_save")] for one in tie_all(session.read_lines)]


@pytest.mark.parametrize("between", [[], [LAUNCHED]])
def test_a_conversation_that_is_saved_from_an_idle_slot_is_not_that_of_the_chosen_slot(between):
    chosen = slot("selected slot by LRU, t_last = 0", -1)
    idle = slot("saving idle slot to prompt cache", -1, 1)
    save = "srv   prompt_save:  - saving prompt with length {}, total state size = 0.006 MiB (draft: 0.000 MiB)"
    new = slot("new prompt, n_ctx_slot = 512, n_keep = 0, task.n_tokens = 9")
    lines = [chosen, save.format(20), *between, idle, save.format(24), new]
    assert saved(*lines) == [[20]]
    again = [line.replace("task 5", "task 6") for line in (chosen, save.format(33), *between, new)]
    assert saved(*lines, DONE, *again) == [[20], [33]]
    assert saved(save.format(20), *between, new) == [[20]], "the log begins after the choice"


def test_a_request_with_lines_of_two_builds_is_doubtful():
    batch = slot("n_tokens = 0, memory_seq_rm [0, end)")
    assert doubtful(LAUNCHED, batch, batch.replace("update_slots", "operator()")) == [5]
    assert doubtful(LAUNCHED, batch, batch) == []


def test_after_a_failure_requests_without_their_start_and_children_are_doubtful():
    failure, idle = "state_seq_set_data: error loading state: failed to restore kv cache", "all slots are idle"
    child = LAUNCHED.replace("is_child = 0", "is_child = 1")
    assert doubtful(failure, DONE) == [5] and doubtful(child, failure, DONE) == [5]
    assert doubtful(failure, idle, DONE) == doubtful(failure, LAUNCHED, DONE) == doubtful(LAUNCHED, failure, DONE) == []


@pytest.mark.parametrize("lines", [
    (IK_LAUNCH, PREFIX, BATCH.replace("p0=40", "p0=41")), (IK_LAUNCH, PREFIX, N_PAST.replace("= 60", "= 61")),
    (IK_LAUNCH, PREFIX, BATCH.replace("id_task=5", "id_task=6")), (PREFIX, BATCH.replace("p0=40", "p0=41")),
    (IK_LAUNCH, BATCH, PREFIX, BATCH),
    ("slot print_timing: id  0 | task 5 | total time = 9 ms / 9 tokens", PREFIX, BATCH),
    (IK_LAUNCH, PREFIX, IK_LAUNCH.replace("id_slot=0 id_task=5", "id_slot=1 id_task=6"), BATCH),
])  # fmt: skip
def test_another_prefix_stays_alone(lines):
    prefix = next(number for number, line in enumerate(lines, 1) if "Cache" in line)
    assert (None, None, [prefix]) in tied(*lines, engine="ik_llama")


def test_two_lines_wait_for_those_that_follow_them():
    ties = LineTies()
    for line in read_session("llama_cpp", grammars()["llama_cpp"], [*LAUNCHES, RELEASED, IDLE]).read_lines:
        ties.add(line)
    assert [len(request.lines) for request in ties.requests] == [1, 1]
    ties.flush()
    assert [len(request.lines) for request in ties.requests] == [2, 1]


def test_requests_that_are_forgotten_get_no_further_lines():
    session = read_session("llama_cpp", grammars()["llama_cpp"], [LAUNCHED, BEGUN, slot("processing task", 6, 1), DONE])
    ties = LineTies()
    for line in session.read_lines[:3]:
        ties.add(line)
    ties.flush()
    first, second = ties.requests
    ties.forget([first])
    assert ties.requests == [second]
    ties.add(session.read_lines[3])
    assert [one.task for one in ties.finished()] == [6, 5] and first.lines == session.read_lines[:2]


def test_lines_of_a_new_prompt_stay_together_without_slot_and_task():
    lines = ["======== Cache: cache_size = 60, n_past = 40, n_past_prompt = 40"] * 2
    assert tied(*lines, engine="ik_llama") == [(None, None, [1]), (None, None, [2])]
    n_past = "n_past = 4, slot.prompt.tokens.size() = 60, seq_id = 0, pos_min = 3"
    prompt = [lines[0], n_past, "forcing full prompt re-processing due to lack of cache data"]
    assert tied(*prompt, engine="ik_llama") == [(None, None, [1, 2, 3])]
    assert tied(*prompt, *prompt, engine="ik_llama") == [(None, None, [1, 2, 3]), (None, None, [4, 5, 6])]
    assert tied(*reversed(prompt), engine="ik_llama") == [(None, None, [1]), (None, None, [2]), (None, None, [3])]
    check = "checking checkpoint with [{0}, {0}] against 3..."
    assert tied(n_past, check.format(5), check.format(4)) == [(None, None, [1, 2, 3])]
    other = "checkpoint rewind to 5 was refused; reprocessing from scratch"
    assert tied(lines[0], other, n_past, engine="ik_llama") == [(None, None, [1]), (None, None, [3])]


def read_alone(*lines):
    """Return these lines as read, without a division into server runs."""
    found = []
    for number, line in enumerate(lines, 1):
        logged = message(line)
        found.append(ReadLine(number, read_message(GRAMMAR, logged), logged.text))
    return found


def numbered(requests):
    return [(one.slot, one.task, [line.number for line in one.lines]) for one in requests]


def test_a_task_that_is_launched_again_after_its_release_is_another_request():
    lines = read_alone(LAUNCHED, DONE, LAUNCHED, DONE)
    assert numbered(tie_all(lines)) == [(0, 5, [1, 2]), (0, 5, [3, 4])]
    assert not any(one.is_doubtful for one in tie_all(lines))


def test_a_task_that_is_launched_again_before_its_release_is_doubtful():
    assert [one.is_doubtful for one in tie_all(read_alone(LAUNCHED, LAUNCHED))] == [True]


def test_each_line_that_is_a_whole_request_is_one():
    line = "[cache_wrapper][INFO]: Prompt cache: using 5/9 tokens from cache"
    assert tied(line, line, engine="mlx_lm") == [(None, None, [1]), (None, None, [2])]


def uncached(*lines):
    """Return the tasks of the requests that found no entry in the prompt cache."""
    return [one.task for one in tie_all(read_alone(*lines)) if one.is_uncached]


NO_CACHE = "srv load_model: prompt cache is disabled - use `--cache-ram N` to enable it"


@pytest.mark.parametrize(("lines", "tasks"), [
    ([LAUNCHED], []), ([BEGIN, LAUNCHED], [5]), ([NO_CACHE, LAUNCHED], [5]),
    ([slot("processing task", 0), LAUNCHED], [0]),
    ([BEGIN, LAUNCHED, slot("processing task", 6, 1)], [5]), ([LAUNCHED, BEGIN, slot("processing task", 6)], []),
    ([NO_CACHE, LAUNCHED, slot("processing task", 6, 1)], [5, 6]),
])  # fmt: skip
def test_the_first_request_of_a_server_and_all_without_a_prompt_cache_find_no_entry(lines, tasks):
    assert uncached(*lines) == tasks


def test_a_cancelled_task_has_the_line_that_says_so_until_its_release():
    cancel = "srv stop: cancel task, id_task = 5"
    assert tied(LAUNCHED, slot("processing task", 6, 1), cancel) == [(0, 5, [1, 3]), (1, 6, [2])]
    assert tied(LAUNCHED, DONE, cancel) == [(0, 5, [1, 2])] and tied(cancel) == []


def test_lines_that_name_slot_and_task_may_stand_among_those_that_do_not():
    body = [text.format(0) for text in BODY]
    begun = slot("new prompt, n_ctx_slot = 2048, n_keep = 0, task.n_tokens = 49")
    assert tied(LAUNCHES[0], begun, *body) == [(0, 5, [1, 2, 3, 4])]


def test_timings_may_follow_the_release_of_servers_that_print_n_past_with_it():
    released = slot("stop processing: n_past = 60, truncated = 0")
    times = [slot(text.removeprefix("print_timings: ")) for text in TIMES]
    assert doubtful(LAUNCHED, released, *times) == [] and doubtful(LAUNCHED, DONE, *times) == [5]
    assert doubtful(LAUNCHED, released, slot("created context checkpoint 1 of 8 (pos_min = 1, pos_max = 9, "
                                             "size = 1 MiB)"), *times) == [5]  # fmt: skip


def test_timings_below_a_heading_that_do_not_add_up_belong_to_no_request():
    heading, prompt, answer = "slot print_timing: id  0 | task 7 |", *(text[15:] for text in TIMES)
    assert tied(heading, prompt, answer, "total time = 9.00 ms / 21 tokens") == [(0, 7, [2, 3, 4])]
    assert tied(heading, prompt, answer, "total time = 9.00 ms / 22 tokens") == []


def test_a_request_that_names_neither_slot_nor_task_begins_with_its_search():
    assert tied("Prompt Cache: 0 sequences, 0.00 GB", engine="mlx_lm") == [(None, None, [1])]


def test_timings_after_the_release_may_follow_the_next_selection_of_the_slot():
    released = slot("stop processing: n_past = 60, truncated = 0")
    times = [slot(text.removeprefix("print_timings: ")) for text in TIMES]
    assert doubtful(LAUNCHED, released, slot("selected slot by id (0)", -1), *times) == []


def test_a_heading_of_a_released_request_needs_timings_that_add_up():
    heading, prompt = "slot print_timing: id  0 | task 7 |", TIMES[0][15:]
    begun = [slot("processing task", 7), slot("stop processing: n_tokens = 60, truncated = 0", 7)]
    assert tied(*begun, heading, prompt, MEANWHILE, MEANWHILE) == [(0, 7, [1, 2])]
    assert tied(begun[0], heading, prompt, MEANWHILE, MEANWHILE) == [(0, 7, [1])]


@pytest.mark.parametrize(("n_past", "n_past_prompt", "p0", "is_its_own"), [
    (45, 40, 42, True), (40, 45, 42, True), (40, 40, 42, False), (0, 45, 42, True), (45, 0, 46, False),
    (0, 0, 1, False)])  # fmt: skip
def test_a_prompt_does_not_begin_after_its_common_prefix(n_past, n_past_prompt, p0, is_its_own):
    prefix = PREFIX.replace("n_past = 40, n_past_prompt = 40", f"n_past = {n_past}, n_past_prompt = {n_past_prompt}")
    found = tied(IK_LAUNCH, prefix, BATCH.replace("p0=40", f"p0={p0}"), engine="ik_llama")
    assert ((0, 5, [1, 2, 3]) in found) is is_its_own


SLOT = "slot get_availabl: id  {} | task {} | {}"
LCP = "selected slot by LCP similarity, sim_best = 0.842 (> 0.100 thold), f_keep = 1.000"
CHECKED = " - checking sim = 0.842 (1010/1200) > 0.100"
NEXT = "slot launch_slot_: id  0 | task 12 | processing task"
BEFORE = ["slot launch_slot_: id  0 | task 5 | processing task",
          "slot      release: id  0 | task 5 | stop processing: n_tokens = 1010, truncated = 0"]  # fmt: skip


@pytest.mark.parametrize(("text", "is_over", "chooses"), [
    (LCP, True, True), ("selected slot by LRU, t_last = 7", True, True), ("selected slot by id (0)", True, True),
    ("selected slot by id (0)", False, False), (CHECKED, True, False), (" - skipping, slot is empty", True, False),
    (" - skipping, is_processing = 1", False, False),
])  # fmt: skip
def test_a_line_of_a_choice_is_not_about_the_task_that_it_names(text, is_over, chooses):
    """Builds up to 2025 print the task that the slot had before, and all print that of a busy slot."""
    begun = BEFORE if is_over else BEFORE[:1]
    session = read_session("llama_cpp", GRAMMAR, [*begun, SLOT.format(0, 5, text), NEXT])
    first, second = tie_all(session.read_lines)
    assert [line.number for line in first.lines] == [*range(1, len(begun) + 1)] and not first.is_doubtful
    assert (second.task, second.choice is not None) == (12, chooses)


ABOUT = {
    "llama_cpp": {"cancel": "id_task", "too_long": "id_task"}, "ik_llama": {},
}  # fmt: skip
OTHER_IDS = frozenset({"slot_arg", "id", "child", "seq_id", "id_task"})


@pytest.mark.parametrize("engine", ABOUT)
def test_the_ids_in_messages_are_those_of_the_subject_or_of_something_else(engine):
    """A message names its task only as ``id_task``; a slot, an adapter, a child or a sequence is not its subject."""
    named = {line.ev: name for line in grammars()[engine].lines for name in OTHER_IDS if f"{{{name}}}" in line.template}
    others = {"slot_by_id", "slot_purge", "alora_absent", "alora_start", "lora_set", "copy_shared", "copy_to_child",
              "n_past"}  # fmt: skip
    assert {kind: name for kind, name in named.items() if kind not in others} == ABOUT[engine]
