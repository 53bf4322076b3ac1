"""Drawn requests on the released classes of SGLang 0.5.20 to 0.5.23 and on our server: every turn is compared.

    python -m tests.peers.sglang_schedule FOLDER --ops 10000 --seed 0 [--release 0.5.20]

FOLDER: an unpacked wheel of sglang, beside the package msgspec. Servers are drawn with steps that overlap or do not,
with windows, with recurrent states (all strategies), with drafts, and with host memory for full attention. One
operation is a request or a turn.
"""

import json
import logging
import random
import time
from collections import Counter
from dataclasses import replace

import numpy as np

import cachesim
from cachesim.engines.rule_outcomes import report_outcomes, variants_of
from cachesim.engines.sglang import ENGINE, PROFILES
from cachesim.engines.sglang.events import SchedulerStep
from cachesim.events import Aborted
from cachesim.judging.compare_answer import Judge
from tests.peers import sglang_source as source
from tests.peers.sglang_server import RealServer
from tests.peers.sglang_start import ReleasedRequests
from tests.peers.sglang_turns import MOST, STORED, Case, Told, digest, draw_server, stored, turn_of

CONTEXT = 1 << 20               # of the model, which does not cap the drawn requests
RELEASES = ("0.5.23", "0.5.22", "0.5.21", "0.5.20")


def rules():
    """Return the rules of the release that is compared."""
    return PROFILES[f"sglang@{source.RELEASE}"]


def compare(theirs, ours):
    """Compare pools, trees, and what requests have in their rows."""
    core, tree = theirs.cache.tree_core, ours.scheduler.tree_cache.tree_core
    pools = ours.scheduler.pools
    parts = ours.context.tree_components
    names = [theirs.real.parts.ComponentType[name] for name in ("FULL", "SWA", "MAMBA")]
    if 1 in parts:
        assert theirs.slots.full == pools.swa_allocator.full_attn_allocator.free_pages
        assert theirs.slots.swa == pools.swa_allocator.swa_attn_allocator.free_pages
    else:
        assert theirs.slots.full == pools.token_to_kv_pool_allocator.free_pages
    assert 2 not in parts or theirs.states.slots == pools.req_to_token_pool.mamba_allocator.free_slots
    for part, hosts in theirs.hosts.items():
        pool = ours.scheduler.tree_cache.cache_controller.mem_pool_host[part]
        assert hosts.pages == (pool.free_slots if part == 2 else pool.free_pages)
    for part, component in tree.components.items():
        assert (core.component_evictable_size_[names[part]], core.component_protected_size_[names[part]]) == (
            component.evictable_size, component.protected_size)  # fmt: skip
    todo = [(core.root_node, tree.root_node)]
    while todo:
        one, other = todo.pop()
        pairs = list(zip(one.children.values(), other.children.values(), strict=True))
        for theirs_node, node in pairs:
            compare_node(names, theirs_node, node, parts)
        todo += pairs
    for row in theirs.scheduler.running_batch.reqs:
        if row.finished():                          # they leave when the next turn begins
            continue
        mine = ours.slots[row.number].kv
        assert (row.kv.kv_committed_len, row.kv.kv_allocated_len, row.kv.cache_protected_len) == (
            mine.kv_committed_len, mine.kv_allocated_len, mine.cache_protected_len)  # fmt: skip
        slots = theirs.rows.req_to_token[row.kv.req_pool_idx, : mine.kv_allocated_len]
        assert np.array_equal(slots, pools.req_to_token_pool.read(row.number, 0, mine.kv_allocated_len))
        previous = getattr(row.kv, "mamba_prev_track_seqlen", mine.mamba_prev_track_seqlen)    # from 0.5.22 on
        assert 2 not in parts or (row.kv.mamba_last_track_seqlen, previous) == (
            mine.mamba_last_track_seqlen, mine.mamba_prev_track_seqlen)  # fmt: skip


def shares_slots(theirs):
    """True if a running request of the released server reads a slot that is free, or has one that another request
    reads. Up to 0.5.22 this happens with pages that do not divide the window: SG-WINDOW-FRONTIER.TOKENS."""
    page, read, own = theirs.page, list(theirs.slots.full), []
    for row in theirs.scheduler.running_batch.reqs:
        if not row.finished():
            held = theirs.rows.req_to_token[row.kv.req_pool_idx, : row.kv.kv_allocated_len : page] // page
            read += set(held.tolist())
            own += held.tolist()[row.kv.cache_protected_len // page :]
    counts = Counter(read)
    return len(set(own)) < len(own) or any(counts[slot] > 1 for slot in own)


def frees_tree(theirs):
    """True if the released tree has a slot of full attention that is free, or that a running request writes. With
    --strip-thinking-cache this happens after a retraction: SG-FINISH-OWN."""
    full, page = theirs.real.parts.ComponentType["FULL"], theirs.page
    todo, held = [theirs.cache.tree_core.root_node], set()
    while todo:
        node = todo.pop()
        todo += node.children.values()
        value = node.component_data[full].value
        held.update(() if value is None else (int(slot) // page for slot in value))
    own = set()
    for row in theirs.scheduler.running_batch.reqs:
        if not row.finished():
            slots = theirs.rows.req_to_token[row.kv.req_pool_idx, row.kv.cache_protected_len : row.kv.kv_allocated_len]
            own.update(int(slot) // page for slot in slots)
    return bool(held & {*theirs.slots.full} or held & own)


def foreign_states(theirs):
    """Return the lengths of the nodes of the released tree whose slot holds the state after another length, and those
    lengths."""
    core, states = theirs.cache.tree_core, theirs.real.parts.ComponentType["MAMBA"]
    todo, found = [(core.root_node, 0)], []
    while todo:
        node, before = todo.pop()
        end = before + len(node.key.token_ids)
        todo += [(child, end) for child in node.children.values()]
        value = node.component_data[states].value
        if value is not None and theirs.worker.states.get(int(value[0])) != end:
            found.append((end, theirs.worker.states.get(int(value[0]))))
    return found


def compare_node(names, theirs, ours, parts):
    assert (list(theirs.key.token_ids), theirs.hit_count) == (
        [*ours.key] if not theirs.key.is_bigram else [pair[0] for pair in ours.key] + [ours.key[-1][1]],
        ours.hit_count)
    for part in parts:
        data, value = theirs.component_data[names[part]], ours.value[part]
        slots = None if data.value is None else np.asarray(data.value).tolist()
        assert slots == (None if value is None else [value] if part == 2 else value.tolist())
        host, copies = data.host_value, ours.host_value[part]
        assert (data.lock_ref, data.host_lock_ref) == (ours.lock_ref[part], ours.host_lock_ref[part])
        slots = None if host is None else [int(slot) for slot in host]
        assert slots == (None if copies is None else [copies] if part == 2 else copies.tolist())


ENDS = {
    "Can not alloc mamba cache": ("Not enough space for mamba", "Can not alloc mamba"),
    "AssertionError: new_prefix_len": ("new_prefix_len",),
    "AssertionError: cache_protected_len": ("cache_protected_len",),
    "Out of memory. Try to lower your batch size.": ("ut of memory. Try to lower your batch size.",),
}
"""Text with which our server ends: those of the released classes."""
SHORTAGE = "sglang-shortest-prefill-first-out-of-slots"
DECLINED = "sglang-declined-load-has-no-state"


def death(theirs, ours):
    """Check that the released server ends, too, and for the same reason."""
    (end,) = (event for event in ours.log.events if isinstance(event, Aborted))
    try:
        theirs.update()
    except (AssertionError, RuntimeError) as error:
        (texts,) = (texts for start, texts in ENDS.items() if end.text.startswith(start))
        assert any(text in str(error) for text in texts)
    else:
        raise AssertionError("only our server ended")


def play(real, name):
    """Play a scenario of states and full attention on both servers; return them."""
    case = cachesim.load(name)
    ours = ENGINE.start(case.profiles[0], case.model, case.server, "provenance")
    opts = {name: getattr(ours.context.server_args, name) for name in draw_server(random.Random(0), (0, 2), rules())}
    theirs = RealServer(real, (0, 2), 0, opts, len(case.steps))
    for number, step in enumerate(case.steps):
        for _ in range(step.after if step.together else MOST):
            if ours.waiting or ours.running or ours.scheduler.chunked_req:
                both(theirs, ours, Counter())
        one = step.request
        answer = one.forced or tuple(range(1, 1 + one.n_predict))
        ours.submit(replace(one, forced=answer))
        ours.take_tasks()
        theirs.submit(number, one.prompt, answer, one.extra.get("cache_salt"), 0, 0, len(answer))
    for _ in range(MOST):
        if not ours.dead and theirs.is_busy:
            both(theirs, ours, Counter())
    return theirs, ours


def scenarios(real):
    """Show on the released classes what two scenarios show: a server that ends for lack of slots, and a request whose
    load from host memory is declined, and which starts behind 21 tokens with the state before the first one."""
    assert play(real, SHORTAGE)[1].dead
    theirs, ours = play(real, DECLINED)
    assert theirs.worker.foreign == [(5, 21, 0)] and not ours.dead


def overwritten(real):
    """Show on the released classes that a tracked state is overwritten before it enters the tree: by the second decode
    step that tracks one, and by a step with drafts while another one is in flight."""
    server = {**draw_server(random.Random(0), (0,), rules()), "page_size": 1, "max_total_tokens": 240,
              "draft_window": 0,
              "chunked_prefill_size": 64, "mamba_radix_cache_strategy": "extra_buffer", "max_mamba_cache_size": 30,
              "disable_overlap_schedule": False, "enable_hierarchical_cache": False, "schedule_policy": "fcfs",
              "radix_eviction_policy": "lru", "mamba_max_states_per_path": -1,
              "strip_thinking_cache": False}  # fmt: skip
    for prompt, answer, drafts, interval, found in ((15, 9, "", 8, [(16, 24)]), (20, 7, "NGRAM", 4, [(24, 28)])):
        more = {"speculative_algorithm": drafts, "speculative_num_steps": 3, "mamba_track_interval": interval,
                "state_grid": interval}  # fmt: skip
        theirs = RealServer(real, (0, 2), 0, {**server, **more}, 1)
        theirs.submit(0, tuple(range(prompt)), tuple(range(100, 100 + answer)), None, 0, 3, 99)
        while theirs.is_busy:
            theirs.update()
        assert foreign_states(theirs) == found


def stopped(real):
    """Show that 0.5.22 alone leaves a later state where an answer ends inside a draft: after 28 tokens, under 27."""
    server = {**draw_server(random.Random(0), (0,), rules()), "page_size": 1, "max_total_tokens": 240,
              "draft_window": 0,
              "mamba_radix_cache_strategy": "no_buffer", "disable_overlap_schedule": True,
              "speculative_algorithm": "NGRAM", "speculative_num_steps": 3, "max_mamba_cache_size": 30,
              "chunked_prefill_size": 64, "state_grid": 1, "mamba_max_states_per_path": -1,
              "enable_hierarchical_cache": False, "schedule_policy": "fcfs", "radix_eviction_policy": "lru",
              "strip_thinking_cache": False}  # fmt: skip
    theirs = RealServer(real, (0, 2), 0, server, 1)
    theirs.submit(0, tuple(range(20)), tuple(range(100, 107)), None, 0, 3, 99)
    while theirs.is_busy:
        theirs.update()
    assert foreign_states(theirs) == ([(27, 28)] if source.RELEASE == "0.5.22" else [])


def both(theirs, ours, seconds):
    """Run a turn on both servers and compare them; return its records, none if both ended."""
    first, began = len(ours.log.events), time.process_time()
    ours.update()
    middle = time.process_time()
    made = theirs.update() if not ours.dead else death(theirs, ours)
    seconds.update(ours=middle - began, released=time.process_time() - middle)
    if ours.dead:
        return []
    turns = [turn_of(event) for event in ours.log.events[first:] if isinstance(event, SchedulerStep)]
    assert turns == made, (turns, made)
    compare(theirs, ours)
    return turns


FOREIGN = "turns after a state of another length was in the tree"


def judge_answers(judge, ended, tried, seconds, is_foreign):
    """Compare answers with cold runs. ``is_foreign``: a state of another length was in the tree (S-DEF-6, S-DEF-7), or
    slots of the tree were free, so that answers may be wrong."""
    began = time.process_time()
    for request, task in ended:
        verdict = judge.judge(request, task.answer, None)
        assert verdict.equal_cold or is_foreign, verdict
        tried["answers equal to cold runs" if verdict.equal_cold else "wrong answers behind such a state"] += 1
    seconds["cold runs"] += time.process_time() - began


def campaign(real, seed, tried, seconds, told, is_compressed=False):
    """Send drawn requests to both servers. ``told``: collects the turns."""
    case = Case(seed, rules(), is_compressed)
    parts, opts = case.parts, case.opts
    ours = case.start(f"sglang@{source.RELEASE}", "provenance")
    states = opts["max_mamba_cache_size"] if 2 in parts else None
    opts["max_running_requests"] = real.requests.number(
        ours.context.server_args, opts["max_total_tokens"], states, CONTEXT, most=opts["max_running_requests"])
    theirs = RealServer(real, parts, ours.context.swa_retain_window, opts, 40)
    is_foreign = is_tree_freed = False
    judge, sent = Judge(ours.model), []
    for number, (request, answer) in enumerate(case.requests()):
        ours.submit(request)
        ours.take_tasks()
        sent.append((request, ours.slots[number].task))
        extra = request.extra
        theirs.submit(number, request.prompt, answer, extra["extra_key"] or None, extra["priority"],
                      request.draft_else, request.n_predict)
        told.counts.append(0)
        for _ in range(case.most_turns(number)):
            turns = both(theirs, ours, seconds)
            told.counts[-1] += 1
            told.add(turns, ours)
            if ours.dead:
                tried["ends of the scheduler"] += 1
                return
            tried.update(turns=1, retractions=sum("retracted" in turn for turn in turns))
            if shares_slots(theirs):
                tried["requests whose slots were freed"] += 1
                return
            if 2 in parts:
                is_foreign = is_foreign or bool(foreign_states(theirs) or theirs.worker.foreign)
            if opts["strip_thinking_cache"] and not is_tree_freed and frees_tree(theirs):
                tried["servers that freed slots of the tree"] += 1
                is_tree_freed = is_foreign = True
            if any(theirs.worker.unread.values()):
                tried["turns after a prompt was cut for good"] += 1
                is_foreign = True
                tried[FOREIGN] += is_foreign
            for turn in turns:
                judge_answers(judge, [sent[n] for n in turn.get("finished", ())], tried, seconds, is_foreign)
            if not theirs.is_busy:
                break
        tried["requests"] += 1
    if not is_tree_freed:
        ours.inspection.check()


def outcomes_of(number, counts):
    """Return the outcomes of rules in a case on our server, and its digest."""
    met = set()
    reporting = report_outcomes(rules(), variants_of(PROFILES.values()), lambda outcome, others: met.add(outcome))
    return met, digest(reporting, number, counts, rules())


def write(real, release, ops):
    """Store the digests of cases that have an outcome of a rule which earlier ones do not have, after so many turns."""
    kept, known, tried, number = [], set(), Counter(), 0
    while tried["turns"] < ops:
        told = Told()
        try:
            campaign(real, number, tried, Counter(), told)
        except AssertionError as error:
            raise AssertionError(f"campaign {number}") from error
        met, ours = outcomes_of(number, told.counts)
        assert ours == told.digest, number
        if met - known:
            kept.append([number, told.counts, told.digest])
            known |= met
        number += 1
    cases = {**stored(), release: kept}
    lines = [f'"{name}": [\n' + ",\n".join(json.dumps(case, separators=(",", ":")) for case in some) + "\n]"
             for name, some in sorted(cases.items())]  # fmt: skip
    STORED.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")
    print(f"{release}: {len(kept)} of {number} cases stored, {len(known)} outcomes")


def main():
    parser = source.parser(__doc__)
    parser.add_argument("--release", default="0.5.23", choices=RELEASES)
    parser.add_argument("--write", action="store_true", help="store the digests of cases instead")
    parser.add_argument("--compressed", action="store_true", help="pages and windows of DeepSeek V4 only")
    args = parser.parse_args()
    logging.disable()
    source.RELEASE = args.release
    real, tried, seconds, seed = source.load(args.folder, schedule=True, host=True), Counter(), Counter(), args.seed
    real.requests = ReleasedRequests(args.folder)
    if args.write:
        write(real, args.release, args.ops)
        return
    if args.release == "0.5.23":
        scenarios(real)
        overwritten(real)
    stopped(real)
    while tried["turns"] + tried["requests"] < args.ops:
        try:
            campaign(real, seed, tried, seconds, Told(), args.compressed)
        except AssertionError as error:
            raise AssertionError(f"campaign {seed}") from error
        seed += 1
    print(", ".join(f"{n} {name}" for name, n in tried.items()) + ", 0 mismatches")
    print(f"CPU time: released classes {seconds['released']:.1f} s, ours with provenance {seconds['ours']:.1f} s, "
          f"{seconds['ours'] / seconds['released']:.2f} x; cold runs {seconds['cold runs']:.1f} s")  # fmt: skip


if __name__ == "__main__":
    main()
