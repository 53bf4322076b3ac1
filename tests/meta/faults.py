"""One-line faults over memory and rules. Each must be found by the tests; ``named``: the issue asks for it."""

from __future__ import annotations

from typing import NamedTuple


class Fault(NamedTuple):
    """The text ``old``, which occurs once in the engine, becomes ``new``."""

    name: str
    old: str
    new: str
    named: bool = False


FAULTS = [
    Fault("of equally similar slots the highest id", "if sim > best and", "if sim >= best and", True),
    Fault("head is never reset",
          "0 if self.head > self.used + 2 * n else self.head\n        if n > self.size:",
          "self.head\n        if n > self.size:", True),
    Fault("window buffer without n_ubatch", "kind.n_swa * sequences + sizes.n_ubatch", "kind.n_swa * sequences", True),
    Fault("a failed load leaves the slot uncleared",
          "        if not srv.cache.load(slot, prompt):\n            srv.clear(slot)\n",
          "        srv.cache.load(slot, prompt)\n", True),
    Fault("no halving on shortage", "n_batch if purged else n_batch // 2", "n_batch if purged else 1", True),
    Fault("no purge on shortage",
          "        if not slot.busy and slot.tokens:\n            srv.emit(ev.SlotPurge",
          "        if False:\n            srv.emit(ev.SlotPurge", True),
    Fault("the halved size is kept after a success",
          "        if ret == OK:\n            n = srv.settings.n_batch\n", "        if ret == OK:\n", True),
    Fault("token limit in double precision",
          "int(F32(limits.size) / per_token)", "int(limits.size / max(1, size / max(1, tokens)))"),
    Fault("the last stored entry is spared",
          "lengths, limits, spare=0), because", "lengths, limits, spare=1), because", True),
    Fault("an entry of exactly a quarter is left", "not k < F32(MIN_KEEP)", "k > F32(MIN_KEEP)"),
    Fault("of unused slots the lowest id", "slot.t_last <= found.t_last", "slot.t_last < found.t_last"),
    Fault("an empty named slot asks the prompt cache", 'F32("nan")', "F32(0)"),
    Fault("seq_rm spares the first position", "self.pos >= max(p0, 0)", "self.pos > max(p0, 0)"),
    Fault("a dropped state keeps its tail",
          "                if p0 <= cell.pos < p1:\n                    self.meta.tail[seq] = -1\n", ""),
    Fault("two sequences share a state array", "self.rows[cell] = dict(row)", "self.rows[cell] = row"),
    Fault("a swap forgets the tails",
          "[b if tail == a else a if tail == b else tail for tail in meta.tail]", "list(meta.tail)"),
    Fault("a hybrid cuts attention though refused", "        if ok:\n", "        if True:\n"),
    Fault("the ring is not purged", "        self._purge(lost, quiet)\n", ""),
    Fault("trying leaves head behind",
          "self.used, self.head, self._span = saved.used, saved.head, saved.span",
          "self.used, self._span = saved.used, saved.span"),
    Fault("state_read does not clear first",
          "        self.seq_rm(seq, 0, POS_INF)\n        table", "        table"),
    Fault("the window is one key wider", "return p1 - p0 >= n_swa", "return p1 - p0 > n_swa"),
    Fault("a saved window is one cell longer", "pos_max - pos < n_swa", "pos_max - pos <= n_swa"),
    Fault("missing header bytes", "HOST_HEADER = 8", "HOST_HEADER = 0"),
    Fault("ERASE with >=",
          "enumerate(ckpts) if c.pos_max > resume.pos_next)", "enumerate(ckpts) if c.pos_max >= resume.pos_next)"),
    Fault("PICK ignores pos_max",
          "fits = [c.pos_max <= ask.pos_next and (c.pos_min < thold or c.pos_min == 0)",
          "fits = [(c.pos_min < thold or c.pos_min == 0)"),
    Fault("NEED with >",
          "0 < ask.n_past <= ask.held and ask.pos_min >= thold", "0 < ask.n_past <= ask.held and ask.pos_min > thold"),
    Fault("a window goes on behind its checkpoint",
          "    pos_next = min(ask.pos_next, max(ckpt.pos_min + 1, ckpt.pos_max))\n",
          "    pos_next = min(ask.pos_next, ckpt.pos_max + 1)\n"),
    Fault("spacing of the own task", "c.id_task != id_task and last >= 0", "last >= 0"),
    Fault("spacing one token shorter", "c.n_tokens <= last + min_step", "c.n_tokens < last + min_step"),
    Fault("user starts one token closer",
          "u > ckpts[-1].n_tokens + chunk.min_step", "u >= ckpts[-1].n_tokens + chunk.min_step"),
    Fault("the first chunk end four tokens early",
          "min(chunk.n_batch, TAIL + chunk.n_ubatch)", "min(chunk.n_batch, chunk.n_ubatch)"),
]  # fmt: skip
