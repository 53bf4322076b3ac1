"""Publication: under which keys the blocks of a request can be found.

Source: vLLM vllm/v1/core/kv_cache_coordinator.py cache_blocks, single_type_kv_cache_manager.py (0.33.0).
"""

from __future__ import annotations

from typing import Any, Sequence

from cachesim.engines.shared.request_queue import RequestQueue
from cachesim.engines.vllm.core.block_keys import UNKEYED
from cachesim.engines.vllm.core.block_pool import ERASED, REPLACED, BlockPool
from cachesim.engines.vllm.flags import Options
from cachesim.engines.vllm.layout import FULL, Group, Layout
from cachesim.engines.vllm.row import Died, Row, Table
from cachesim.engines.vllm.rules.blocks import Mask
from cachesim.events import Declined


class Publication(RequestQueue):
    """The keys of blocks. ``promised``: those whose contents this step computes."""

    opts: Options
    layout: Layout
    pool: BlockPool
    groups: tuple[Group, ...]
    promised: set[int]
    reports = True              # the server reports restore points

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
        return bool(self.rules.state_inside(start, end, at, self.layout.unit, block, grid))

    def publish(self, row: Row, tokens: int) -> None:
        """Publish the blocks of a request that end within its first tokens."""
        layout, several = self.layout, len(self.groups) > 1
        publishable = self.rules.publishable if several else self.rules.publishable_one
        align = layout.step if several and not layout.partial else 1
        ends = self.rules.boundaries(row.prompt, layout.step, layout.spec.drop)
        for group in self.groups:
            self._publish(group, row, publishable(tokens, align, group.block, group.drop, layout.late), ends)

    def _publish(self, group: Group, row: Row, tokens: int, ends: Sequence[int]) -> None:
        unit, keys, table = self.layout.unit, self.pool.key, row.tables[group.number]
        before, last = max(0, table.published), min(tokens, len(row.hashes) * self.layout.unit) // group.block
        if last > before:
            self._publish_blocks(group, row, before, last, ends)
            table.published = last
        if group.align:
            self._publish_state(group, table, row, tokens)
        elif group.kind in FULL and group.block > unit:
            end = self.rules.partial_rows(row.prompt, unit, len(row.hashes), group.drop)
            at = end // group.block
            if end and end <= tokens and end % group.block and at < len(table.blocks):
                self._publish_part(group, row, table.blocks[at], end)
        if before < last:
            self.promised.update(keys[block] for block in table.blocks[before:last] if keys[block] != UNKEYED)

    def _publish_blocks(self, group: Group, row: Row, first: int, last: int, ends: Sequence[int]) -> None:
        """Publish complete blocks, unless the group's mask leaves them out."""
        rules, blocks, chosen = self.rules, row.tables[group.number].blocks, list[int]()
        if row.junction:
            ends = [*ends, *rules.junction_ends(row.junction, group.block, group.drop)]
        keep, mask = self._mask(group, first, last, ends)
        for at in range(first, last):
            if blocks[at] and (mask is None or mask[at - first]):
                self.pool.drop_keys(blocks[at], REPLACED)
                chosen.append(at)
            elif blocks[at] or group.align:         # a chunk passed a block that is missing
                self.emit(Declined(row.id, (at + 1) * group.block, keep.rule if blocks[at] else rules.split.rule))
        self._name(group, row, [blocks[at] for at in chosen], [(at + 1) * group.block for at in chosen])

    def _name(self, group: Group, row: Row, blocks: list[int], ends: list[int]) -> None:
        """Let blocks be found as the ends of prefixes of a request."""
        hashes = [row.hashes[end // self.layout.unit - 1] for end in ends]
        self.pool.add_keys(group.number, blocks, hashes, ends)
        if self.reports:
            self.points.enter([digest * self.pool.groups + group.number for digest in hashes], blocks, row, ends)

    def _publish_part(self, group: Group, row: Row, block: int, end: int, replace: bool = False) -> None:
        """Publish a block for a prefix that ends inside it, unless it is the null block."""
        pool, unit = self.pool, self.layout.unit
        if not block:
            return
        if not 0 < end // unit <= len(row.hashes):
            raise Died("AssertionError: ", "_get_partial_block_hash")
        key = row.hashes[end // unit - 1] * pool.groups + group.number
        if replace or (pool.key[block] != UNKEYED and pool.tokens[block] < end and not pool.named.has(block, key)):
            pool.drop_keys(block, REPLACED)
        self._name(group, row, [block], [end])
        self.promised.add(key)

    def _publish_state(self, group: Group, table: Table, row: Row, tokens: int) -> None:
        """Publish the state inside the chunk, or the state at the end of the chunk if the prompt can resume there."""
        layout, unit, block, again = self.layout, self.layout.unit, group.block, self.rules.key_again
        if table.inside is not None:
            end, at = table.inside
            if not self._keeps_inside(group, row, end, tokens):
                self.pool.drop_keys(table.blocks[at], ERASED)
            elif not self._has_key(table.blocks[at], end):
                self._publish_part(group, row, table.blocks[at], end, replace=True)
            return
        junction = layout.shared_checkpoint and tokens == row.junction and row.computed < tokens <= row.prompt
        at = -(-tokens // block) - 1
        if tokens <= 0 or tokens % unit or at >= len(table.blocks) or not self.rules.state_tail(
                tokens, self.last_boundary(row.prompt, unit), self.last_boundary(row.prompt, unit, group.drop), unit,
                block, junction):
            return
        source = table.blocks[at]
        if source and (again() or not self._has_key(source, tokens)):
            self._publish_part(group, row, source, tokens)
            if tokens % block:
                table.partial, table.published = (at, source), at

    def _keeps_inside(self, group: Group, row: Row, end: int, tokens: int) -> bool:
        """Return whether the state inside a chunk that ends after so many tokens is kept."""
        at, mask = end // group.block - 1, [False]
        if end % group.block == 0:
            _, mask = self._mask(group, at, at + 1, ())
        return bool(self.rules.keeps_inside(
            end == self.checkpoint(row.prompt), end == row.junction, tokens >= row.prompt,
            self.opts.prefix_cache_retention_interval, mask is None or mask[0]))  # fmt: skip

    def _has_key(self, block: int, tokens: int) -> bool:
        return self.pool.key[block] != UNKEYED and self.pool.tokens[block] == tokens

    def _mask(self, group: Group, first: int, last: int, ends: Sequence[int]) -> tuple[Any, Any]:
        """Return the rule of a group's mask, and which complete blocks first .. last - 1 it keeps, None = all."""
        rules, interval = self.rules, self.opts.prefix_cache_retention_interval
        keep = {"swa": rules.mask_swa, "mamba": rules.mask_mamba}.get(group.kind, rules.mask_full)
        return keep, keep(Mask(first, last, group.block, self.layout.align, interval, ends, group.size, group.drop))
