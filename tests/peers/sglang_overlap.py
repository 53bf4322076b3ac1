"""Drawn requests on the released classes of SGLang 0.5.23 in the order of its overlap schedule, which is on by default.

    python -m tests.peers.sglang_overlap FOLDER --ops 10000 --seed 0

FOLDER: an unpacked wheel of sglang, beside the package msgspec. Our engine does not model this schedule; the released
classes are checked alone: every slot is free, in the tree or in one request's own part of its row, and all slots are
free after the last eviction. Models of attention and of windows, without drafts. One operation is a request or a turn.
"""

import random
from collections import Counter
from types import SimpleNamespace

from tests.peers import sglang_source as source
from tests.peers.sglang_schedule import MOST, draw_server
from tests.peers.sglang_server import RealServer

RESULT = SimpleNamespace(num_correct_drafts_per_req_cpu=None, num_non_draft_tokens_per_req=1,
                         grammar_retained_tokens=None)  # fmt: skip


class OverlapServer(RealServer):
    """The server of the released classes; a turn launches a step, and then processes the results of the step before, as
    ``event_loop_overlap`` of ``managers/scheduler.py`` does. ``launched``: operation, requests, the one that is cut."""

    def __init__(self, *args):
        super().__init__(*args)
        self.launched, self.tried = None, Counter()

    def update(self):
        """Run a turn; return whether it did anything."""
        before, self.launched = self.launched, None
        if self.chunked is not None and self.chunked.extend_end > self.chunked.prefix_len:
            self.real.common.checkpoint_kv_cache(self.chunked, self.cache)
        if before is not None and before[0] == "prefill":
            self.batch.reqs = self.batch.reqs + [row for row in before[1] if row is not before[2]]
            self.full = self.full and before[2] is None
        self.filter()
        self.launch_prefill()
        if self.launched is None:
            self.launch_decode(before)
        if before is not None:
            self.process(*before)
        return before is not None or self.launched is not None

    def filter(self, *others):
        kept = [row for row in self.batch.reqs if not row.finished() and row not in others]
        self.full = self.full and len(kept) == len(self.batch.reqs)
        self.batch.reqs = kept

    def launch_prefill(self):
        self.full = self.full and bool(self.batch.reqs) and 1 not in self.parts
        most = self.opts["max_running_requests"]
        if self.chunked is None and (self.full or not self.waiting or len(self.batch.reqs) >= most):
            return
        chosen = self.choose([])
        self.waiting = [row for row in self.waiting if row not in chosen]
        if chosen:
            self.take_rows(chosen)
            for row in chosen:
                row.is_retracted = False
            self.launched = "prefill", chosen, self.chunked

    def launch_decode(self, before):
        """Launch a decode step without the requests whose last token by length is on its way."""
        coming = [row for row in self.batch.reqs if before is not None and row in before[1]
                  and row.next_output_finishes_by_length()]  # fmt: skip
        self.filter(*coming)
        if not self.batch.reqs:
            return
        if not self.batch.check_decode_mem():
            if coming:
                self.full = False
                return
            retracted, _, aborted = self.batch.retract_decode()
            self.waiting += retracted
            self.full = False
            self.tried.update(retractions=len(retracted), aborted=len(aborted))
        rows = list(self.batch.reqs)
        if rows:
            self.batch.maybe_evict_swa()
            self.allocate_step(rows)
            for row in rows:
                row.kv.kv_committed_len += 1
            self.launched = "decode", rows, None

    def process(self, op, rows, chunked):
        """Process the results of a step."""
        for k, row in enumerate(rows):
            if row is chunked or row.finished() or row.is_retracted:
                self.tried["results dropped"] += row is not chunked
                continue
            self.speak(row, 1)
            if op == "decode":
                self.processor._handle_finish_state_updated_req(row, self.step(rows), RESULT, k, None)
            elif row.finished():
                self.real.common.release_kv_cache(row, self.cache, checkpoint=True)
            else:
                self.real.common.checkpoint_kv_cache(row, self.cache)

    def check(self, rows):
        """Check that every page is free, in the tree, or in one request's own part of its row."""
        core, page = self.cache.tree_core, self.page
        full = self.real.parts.ComponentType["FULL"]
        pages, todo = list(self.slots.full), list(core.root_node.children.values())
        while todo:
            node = todo.pop()
            pages += [int(slot) // page for slot in node.component_data[full].value[::page]]
            todo += node.children.values()
        for row in rows:
            if row.kv.holds_kv:
                own = self.rows.req_to_token[row.number, row.kv.cache_protected_len : row.kv.kv_allocated_len : page]
                pages += [int(slot) // page for slot in own]
        every = range(1, self.opts["max_total_tokens"] // page + 1)
        assert sorted(pages) == list(every), "a slot is lost or used twice"
        assert len(set(self.slots.swa)) == len(self.slots.swa), "a window slot is free twice"

    def end(self):
        """Evict everything, and check that all slots are free."""
        size = self.opts["max_total_tokens"]
        self.cache.evict_for_alloc(self.real.params.EvictParams(num_tokens=size, swa_num_tokens=size))
        assert len(self.slots.full) == size // self.page, "slots of full attention are lost"
        assert 1 not in self.parts or len(self.slots.swa) == self.opts["swa_tokens"] // self.page, "a window is lost"


def campaign(real, seed, tried):
    """Send drawn requests."""
    draw = random.Random(seed)
    parts = draw.choice([(0,), (0, 1)])
    opts, window = draw_server(draw, parts), draw.choice([3, 6, 10])
    opts |= {"speculative_algorithm": "", "draft_window": 0}
    server = OverlapServer(real, parts, window if 1 in parts else 0, opts, 40)
    texts, rows = [tuple(draw.randrange(50) for _ in range(60)) for _ in range(3)], []
    for number in range(40):
        prompt = (*draw.choice(texts)[: draw.randrange(1, 50)], draw.randrange(50))
        answer = tuple(range(100, 101 + draw.randrange(20)))
        server.submit(number, prompt, answer, draw.choice(["", "", "", "k"]) or None, draw.randrange(2), 0)
        rows.append(server.waiting[-1])
        if draw.random() < 0.5:                     # it ends with a token, not by length
            rows[-1].sampling_params.max_new_tokens += 8
        for _ in range(draw.choice([0, 1, 1, 3, 12]) if number < 39 else 10 * MOST):
            more = server.update()
            server.check(rows)
            tried["turns"] += 1
            if not more:
                break
        tried["requests"] += 1
    assert not any(row.kv.holds_kv for row in rows), "the server stands still"
    server.end()
    tried.update(server.tried)


def main():
    args = source.parser(__doc__).parse_args()
    real, tried, seed = source.load(args.folder, schedule=True), Counter(), args.seed
    while tried["turns"] + tried["requests"] < args.ops:
        try:
            campaign(real, seed, tried)
        except AssertionError as error:
            raise AssertionError(f"campaign {seed}") from error
        seed += 1
    print(", ".join(f"{n} {name}" for name, n in tried.items()) + ": no slot is lost or used twice")


if __name__ == "__main__":
    main()
