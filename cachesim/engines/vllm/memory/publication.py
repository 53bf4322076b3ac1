"""Publication: under which keys the blocks of a request can be found.

Source: vLLM vllm/v1/core/kv_cache_coordinator.py cache_blocks, single_type_kv_cache_manager.py (0.33.0).
"""

from __future__ import annotations

from typing import Any, Callable, Sequence

from cachesim.engines.shared.server_loop import Driver
from cachesim.engines.vllm import events as ev
from cachesim.engines.vllm.flags import Options
from cachesim.engines.vllm.layout import Group, Layout
from cachesim.engines.vllm.memory.pool import ERASED, REPLACED, Pool
from cachesim.engines.vllm.row import Row
from cachesim.engines.vllm.rules.blocks import Inside, Mask
from cachesim.events import Event


class Publication(Driver):
    """The keys of blocks. ``promised``: those whose contents this step computes."""

    rules: Any
    opts: Options
    layout: Layout
    pool: Pool
    groups: tuple[Group, ...]
    emit: Callable[[Event], None]
    promised: set[int]

    def checkpoint(self, tokens: int) -> int:
        """Return the length below ``tokens`` whose state inside a chunk can be found."""
        layout = self.layout
        return int(self.rules.checkpoint(tokens, layout.unit, layout.align, layout.spec.drop, layout.spec.hashed))

    def last_boundary(self, tokens: int, unit: int, drop: bool | None = None) -> int:
        """Return the last multiple of ``unit`` at which a prompt can resume."""
        spec = self.layout.spec
        return int(self.rules.last_boundary(tokens, unit, spec.drop if drop is None else drop, spec.hashed))

    def can_keep_inside(self, start: int, end: int, at: int, block: int) -> bool:
        """Return whether the kernels can export the state after ``at`` tokens in a chunk."""
        grid = self.opts.mamba_prefill_checkpoint_alignment
        return bool(self.rules.state_inside(Inside(start, end, at, self.layout.unit, block, grid)))

    def publish(self, row: Row, tokens: int) -> None:
        """Publish the blocks of a request that end within its first tokens."""
        layout, rules = self.layout, self.rules
        if len(self.groups) > 1:
            publishable, align = rules.publishable, 1 if layout.partial else layout.step
        else:
            publishable, align = rules.publishable_one, 1
        ends = rules.boundaries(row.prompt, layout.step, layout.spec.drop)
        for group in self.groups:
            n = publishable(tokens, align, group.block, group.drop, layout.late)
            self._publish(group, row, n, ends)

    def _publish(self, group: Group, row: Row, tokens: int, ends: Sequence[int]) -> None:
        table, layout, pool = row.tables[group.number], self.layout, self.pool
        before = max(0, table.published)
        last = min(tokens, len(row.hashes) * layout.unit) // group.block
        if last > before:
            self._publish_blocks(group, row, before, last, ends)
            table.published = last
        if group.align:
            self._publish_state(group, row, tokens)
        elif group.kind in ("full", "rswa") and group.block > layout.unit:
            end = self.rules.partial_rows(row.prompt, layout.unit, len(row.hashes), group.drop)
            at = end // group.block
            if end and end <= tokens and end % group.block and at < len(table.blocks):
                self._publish_part(group, row, at, end)
        if before < last:
            self.promised.update(pool.keys[block][0] for block in table.blocks[before:last] if pool.keys[block])

    def _publish_blocks(self, group: Group, row: Row, first: int, last: int, ends: Sequence[int]) -> None:
        """Publish complete blocks, unless the group's mask leaves them out."""
        if row.junction:
            ends = [*ends, *self.rules.junction_ends(row.junction, group.block, group.drop)]
        interval = self.opts.prefix_cache_retention_interval
        keep = self._mask_of(group)
        mask = keep(Mask(first, last, group.block, self.layout.align, interval, ends, group.size, group.drop))
        blocks, scale = row.tables[group.number].blocks, group.block // self.layout.unit
        for at in range(first, last):
            end = (at + 1) * group.block
            if not blocks[at]:
                if group.align:             # the chunk passed it
                    self.left_out(group, row, end, self.rules.split.rule)
                continue
            if mask is not None and not mask[at - first]:
                self.left_out(group, row, end, keep.rule)
                continue
            self.pool.drop_keys(blocks[at], REPLACED)
            self.name(group, row, blocks[at], row.hashes[(at + 1) * scale - 1], end)

    def _publish_part(self, group: Group, row: Row, at: int, end: int, replace: bool = False) -> None:
        """Publish a block for a prefix that ends inside it, unless it is the null block."""
        block, pool = row.tables[group.number].blocks[at], self.pool
        if not block:
            return
        if not 0 < end // self.layout.unit <= len(row.hashes):
            raise ev.Died("AssertionError: ", "_get_partial_block_hash")
        digest = row.hashes[end // self.layout.unit - 1]
        key = digest * pool.groups + group.number
        if replace or (key not in pool.keys[block] and pool.keys[block] and pool.tokens[block] < end):
            pool.drop_keys(block, REPLACED)
        self.name(group, row, block, digest, end)
        self.promised.add(key)

    def _publish_state(self, group: Group, row: Row, tokens: int) -> None:
        """Publish the state inside the chunk, or the state at the end of the chunk if the prompt can resume there."""
        table, layout, pool, block = row.tables[group.number], self.layout, self.pool, group.block
        if table.inside is not None:
            end, at = table.inside
            if not self._keeps_inside(group, row, end, tokens):
                pool.drop_keys(table.blocks[at], ERASED)
            elif not self._has_key(table.blocks[at], end):
                self._publish_part(group, row, at, end, replace=True)
            return
        junction = layout.shared_checkpoint and tokens == row.junction and row.computed < tokens <= row.prompt
        at = -(-tokens // block) - 1
        if tokens <= 0 or tokens % layout.unit or at >= len(table.blocks) or not self.rules.state_tail(
                tokens, self.last_boundary(row.prompt, layout.unit),
                self.last_boundary(row.prompt, layout.unit, group.drop), layout.unit, block, junction):
            return
        source = table.blocks[at]
        if not source or (self._has_key(source, tokens) and not self.rules.key_again()):
            return
        self._publish_part(group, row, at, tokens)
        if tokens % block:
            table.partial, table.published = (at, source), at

    def _keeps_inside(self, group: Group, row: Row, end: int, tokens: int) -> bool:
        """Return whether the state inside a chunk that ends after so many tokens is kept."""
        align, block, interval = self.layout.align, group.block, self.opts.prefix_cache_retention_interval
        at = end // block - 1
        mask = Mask(at, at + 1, block, align, interval, (), 0, group.drop)
        kept = self._mask_of(group)(mask) if end % block == 0 else [False]
        return bool(self.rules.keeps_inside(end == self.checkpoint(row.prompt), end == row.junction,
                                            tokens >= row.prompt, interval, kept is None or bool(kept[0])))  # fmt: skip

    def _has_key(self, block: int, tokens: int) -> bool:
        return bool(self.pool.keys[block]) and self.pool.tokens[block] == tokens

    def _mask_of(self, group: Group) -> Any:
        return {"swa": self.rules.mask_swa, "mamba": self.rules.mask_mamba}.get(group.kind, self.rules.mask_full)

    def name(self, group: Group, row: Row, block: int, digest: int, end: int) -> None:
        """Let a block be found as the end of the first ``end`` tokens of a request."""
        self.pool.add_key(block, digest, group.number, end)

    def left_out(self, group: Group, row: Row, end: int, rule: str) -> None:
        """Note that a complete block is not published."""
