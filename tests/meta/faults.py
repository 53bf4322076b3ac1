"""One-line faults over memory and rules. Each must be found by the tests; ``unseen`` marks what no recorded trace shows."""

from __future__ import annotations

from typing import NamedTuple

MEMORY, RULES = "engines/llama_cpp/memory", "engines/llama_cpp/rules"


class Fault(NamedTuple):
    """In ``file`` of the package, the text ``old`` (which occurs once) becomes ``new``."""

    name: str
    file: str
    old: str
    new: str
    unseen: bool = False


FAULTS = [
    Fault("of equally similar slots the highest id", f"{RULES}/choice.py", "if sim > best and", "if sim >= best and", True),
    Fault("head is never reset", f"{MEMORY}/cells.py", "0 if self.head > self.used + 2 * n else self.head", "self.head", True),
    Fault("window buffer without n_ubatch", f"{MEMORY}/memory.py", "kind.n_swa * sequences + sizes.n_ubatch", "kind.n_swa * sequences", True),
    Fault("a failed load leaves the slot uncleared", "engines/llama_cpp/server.py",
          "            if not self.cache.load(slot, prompt):\n                self.clear(slot)",
          "            self.cache.load(slot, prompt)", True),
    Fault("no halving on shortage", f"{RULES}/prompt.py", "n_batch if purged else n_batch // 2", "n_batch if purged else 1", True),
    Fault("no purge on shortage", "engines/llama_cpp/decode.py", "    if not srv.settings.unified:", "    if True:", True),
    Fault("the halved size is kept after a success", "engines/llama_cpp/decode.py",
          "        if ret == OK:\n            n = srv.settings.n_batch\n", "        if ret == OK:\n", True),
    Fault("token limit in double precision", f"{RULES}/prompt_cache.py",
          "per_token = max(F32(1), F32(size) / F32(max(1, tokens)))", "per_token = max(1, size / max(1, tokens))"),
    Fault("the last stored entry is spared", f"{RULES}/prompt_cache.py",
          "_evict(sizes, lengths, limits, spare=0)", "_evict(sizes, lengths, limits, spare=1)", True),
    Fault("an entry of exactly a quarter is left", f"{RULES}/prompt_cache.py", "not k < F32(MIN_KEEP)", "k > F32(MIN_KEEP)"),
    Fault("of unused slots the lowest id", f"{RULES}/choice.py", "slot.t_last <= found.t_last", "slot.t_last < found.t_last"),
    Fault("an empty named slot asks the prompt cache", f"{RULES}/choice.py", 'F32("nan")', "F32(0)"),
    Fault("seq_rm spares the first position", f"{MEMORY}/cells.py", "self.pos >= max(p0, 0)", "self.pos > max(p0, 0)"),
    Fault("a dropped state keeps its tail", f"{MEMORY}/recurrent.py",
          "                if p0 <= cell.pos < p1:\n                    self.meta.tail[seq] = -1\n", ""),
    Fault("two sequences share a state array", f"{MEMORY}/recurrent.py", "self.rows[cell] = dict(row)", "self.rows[cell] = row"),
    Fault("a swap forgets the tails", f"{MEMORY}/recurrent.py",
          "[b if tail == a else a if tail == b else tail for tail in meta.tail]", "list(meta.tail)"),
    Fault("a hybrid cuts attention though refused", f"{MEMORY}/memory.py", "        if ok:\n", "        if True:\n"),
    Fault("the ring is not purged", f"{MEMORY}/attention.py", "        self._purge(lost, quiet)\n", ""),
    Fault("trying leaves head behind", f"{MEMORY}/cells.py",
          "self.used, self.head, self._span = saved.used, saved.head, saved.span", "self.used, self._span = saved.used, saved.span"),
    Fault("state_read does not clear first", f"{MEMORY}/attention.py",
          "        self.seq_rm(seq, 0, POS_INF)\n        table", "        table"),
    Fault("the window is one key wider", f"{MEMORY}/attention.py", "return p1 - p0 >= n_swa", "return p1 - p0 > n_swa"),
    Fault("a saved window is one cell longer", f"{RULES}/memory.py", "pos_max - pos < n_swa", "pos_max - pos <= n_swa"),
    Fault("missing header bytes", f"{MEMORY}/state.py", "HOST_HEADER = 8", "HOST_HEADER = 0"),
    Fault("ERASE with >=", f"{RULES}/checkpoint_use.py",
          "enumerate(ckpts) if c.pos_max > resume.pos_next)", "enumerate(ckpts) if c.pos_max >= resume.pos_next)"),
    Fault("PICK ignores pos_max", f"{RULES}/checkpoint_use.py",
          "fits = [c.pos_max <= ask.pos_next and (c.pos_min < thold or c.pos_min == 0)", "fits = [(c.pos_min < thold or c.pos_min == 0)"),
    Fault("NEED with >", f"{RULES}/checkpoint_use.py", "ask.pos_min >= thold", "ask.pos_min > thold"),
    Fault("a window goes on behind its checkpoint", f"{RULES}/checkpoint_use.py",
          "max(ckpt.pos_min + 1, ckpt.pos_max)", "ckpt.pos_max + 1"),
    Fault("spacing of the own task", f"{RULES}/checkpoint_make.py", "c.id_task != id_task and last >= 0", "last >= 0"),
    Fault("spacing one token shorter", f"{RULES}/checkpoint_make.py", "c.n_tokens <= last + min_step", "c.n_tokens < last + min_step"),
    Fault("user starts one token closer", f"{RULES}/checkpoint_make.py",
          "u > ckpts[-1].n_tokens + chunk.min_step", "u >= ckpts[-1].n_tokens + chunk.min_step"),
    Fault("the first chunk end four tokens early", f"{RULES}/checkpoint_make.py", "min(chunk.n_batch, TAIL + chunk.n_ubatch)", "min(chunk.n_batch, chunk.n_ubatch)"),
]  # fmt: skip
