"""Block tables of requests: lookup, allocation, release.

Source: vLLM vllm/v1/core/kv_cache_manager.py, single_type_kv_cache_manager.py (0.33.0).
"""

from __future__ import annotations

from itertools import chain
from typing import Any

from cachesim.engines.rule import Decision
from cachesim.engines.vllm.core.table_events import AskedForBlocks, Got, LookedUp, Refused
from cachesim.engines.vllm.layout import Group
from cachesim.engines.vllm.memory.publication import Publication
from cachesim.engines.vllm.row import ABSENT, Died, Row, Table
from cachesim.engines.vllm.rules.blocks import Need
from cachesim.engines.vllm.rules.lookup import Find, Found, Hit, Sorted


class Tables(Publication):
    """The block management of a server. ``owner``: request that last took a block."""

    def start_tables(self) -> None:
        """Create an empty pool."""
        self.groups, self.known, self.owner = self.layout.groups, dict[Any, int](), dict[int, int]()
        self.nothing = Hit(0, {group.number: [] for group in self.groups})
        self.zeroed: list[list[int]] = [[] for _ in self.groups]
        self.copies: list[list[tuple[int, int]]] = [[] for _ in self.groups]
        self.promised = set()
        self.zeroes = any(group.kind == "mamba" for group in self.groups)
        self.scratch = self.opts.num_speculative_tokens

    # Hashes and lookup.

    def extend_hashes(self, row: Row) -> None:
        """Hash the complete units of a request."""
        unit, hashes, known, hash_unit = self.layout.unit, row.hashes, self.known, self.rules.hash
        width, at = unit + self.layout.spec.hashed, len(hashes) * unit
        while at + width <= len(row.all) and self.opts.hashing:
            made = hash_unit(hashes[-1] if hashes else -1, row.all[at : at + width], row.lora, row.salt)
            hashes.append(known.setdefault(made, len(known)))
            at += unit

    def find(self, row: Row, kind: Sorted, most: int, drop: bool) -> Found:
        """Look a request up in equal groups. An index beyond the known hashes ends the process."""
        pool, groups, most = self.pool, kind.groups, self.rules.look_at(most, len(row.hashes) * self.layout.unit)
        ask = Find(row.hashes, self.layout.unit, kind.block, most, self.layout.align, drop, kind.size, len(groups),
                   lambda digest: pool.find(digest, groups))
        try:
            return kind.find(ask)
        except IndexError:
            raise Died("IndexError: list index out of range", "find_longest_cache_hit") from None

    def look_up(self, row: Row) -> Hit:
        """Return the cached prefix of a request."""
        layout, found = self.layout, self.nothing
        if self.opts.enable_prefix_caching and row.task.request.cache_prompt:
            most = self.rules.most_tokens(len(row.all))
            reconcile = self.rules.reconcile if len(self.groups) > 1 else self.rules.look_up_one
            found = reconcile(
                most, self.rules.reach(most, len(row.hashes) * layout.unit), layout.unit if layout.partial else 0,
                layout.kinds, lambda kind, most, drop: self.find(row, kind, most, drop),
            )  # fmt: skip
            self.decide(Decision(found.n or None, {"n": len(row.all), "junction": found.junction,
                                                   "lengths": dict(found.lengths)}, reconcile.rule), row)  # fmt: skip
        tables = [found.tables[group.number] for group in self.groups] if found.n else ()
        self.emit(LookedUp(row.id, found.n, found.junction, tables))
        return found

    # Allocation.

    def _needed(self, group: Group, row: Row, tokens: int, hit: Hit, computed: int, main: int,
                admission: bool) -> int:
        """Return the free blocks of a group that a request takes for storage of so many tokens; ``computed``: tokens
        before the chunk, ``main``: tokens without those behind it. More than there are = it waits for a state."""
        table, pool, block, found = row.tables[group.number], self.pool, group.block, hit.tables[group.number]
        partial, keys = bool(found) and (row.computed + hit.n) % block != 0, pool.keys(found[-1]) if found else ()
        if keys and not self.promised.isdisjoint(keys) and not self.decide(
                self.rules.wait_for_state(group.kind, partial, keys[0] in self.promised), row):
            return pool.n + 1
        first = table.published == ABSENT
        skip = self.rules.skipped(group.kind, group.size, computed) // block if first and not group.align else 0
        tokens = main if group.align else tokens + (block * self.scratch if group.kind == "mamba" else 0)
        idle = sum(not pool.refs[one] for one in found[max(0, skip - len(table.blocks)):] if one)
        ask = Need(tokens, block, len(table.blocks), len(found), idle, skip, first,
                   partial or (group.align and table.partial is not None), group.cap if admission else 0)
        if not group.align:
            return int(self.rules.needed(ask))
        inside = self._inside(group, row, computed, main)
        if not admission:
            table.inside = inside
        return int(self.rules.states_needed(ask, self.scratch, table.begun, inside is not None))

    def _inside(self, group: Group, row: Row, start: int, end: int) -> tuple[int, int] | None:
        """Return length and column of the state that is kept inside a chunk, None = no such state."""
        if not self.opts.mamba_prefill_checkpoint_alignment or not self.rules.reserves_inside(
                end, row.prefill_end, self.opts.prefix_cache_retention_interval):
            return None
        table, at, column = row.tables[group.number], self.checkpoint(end), -(-end // group.block) - 2
        if not at or column < 0 or not self.can_keep_inside(start, end, at, group.block):
            return None
        left = len(table.blocks) - column           # from this column on
        taken = left > 0 and table.blocks[column] and not (table.begun and left <= self.scratch)
        return None if taken else (at, column)

    def needed_at_last(self, row: Row) -> int:
        """Return the free blocks that a request in progress takes until all its tokens are computed."""
        tokens = min(len(row.all), self.longest)
        return sum(self._needed(group, row, tokens, self.nothing, row.computed, tokens, True) for group in self.groups)

    def allocate(self, row: Row, new: int, hit: Hit | None, lookahead: int, others: bool, load: int = 0,
                 reserved: int = 0) -> list[list[int]] | None:
        """Allocate blocks for the next tokens of a request; ``hit``: it is admitted, with this prefix, and ``load``
        tokens behind it that are loaded if ``reserved`` blocks stay free. Returns the new blocks of each group, None if
        too few are free."""
        self.emit(AskedForBlocks(row.id, row.computed, hit.n if hit else 0, new, lookahead))
        pool, found, whole, need, main, tokens = self.pool, hit or self.nothing, 0, 0, 0, 0
        start = row.computed + found.n + load
        total = min(start, self.longest)
        mark = self.rules.reserve(self.opts.watermark, pool.n, hit is not None, others)
        if hit is not None and self.opts.scheduler_reserve_full_isl:
            full = min(len(row.all), self.longest)
            whole = sum(self._needed(group, row, full, found, total, full, True) for group in self.groups)
        if whole + mark <= len(pool.free):
            self.remove_skipped(row, max(0, total - row.in_flight))
            main, tokens = total + new, min(total + new + lookahead, self.longest)
            need = sum(self._needed(group, row, tokens, found, start, main, False) for group in self.groups)
        need += reserved
        admitted = hit is None or self.decide(self.rules.admit(whole, need, mark, len(pool.free)), row)
        if not admitted or need + mark > len(pool.free):
            self.emit(Refused())
            self.short = need + mark
            return None
        if any(found.tables.values()):
            self._attach(row, found)
        made = [self._extend(group, row, tokens, main) for group in self.groups]
        if self.opts.enable_prefix_caching and not load:
            self.publish(row, min(main, len(row.all)))
        self.owner |= dict.fromkeys(chain(*made), row.task.answer.request)
        self.emit(Got(made))
        return made

    def _attach(self, row: Row, found: Hit) -> None:
        """Add the found blocks to a request."""
        for group, table in zip(self.groups, row.tables, strict=True):
            blocks = found.tables[group.number]
            skip = max(0, self.rules.skipped(group.kind, group.size, found.n)) // group.block
            self.pool.touch(blocks[skip:])
            table.blocks = [0] * skip + blocks[skip:]
            table.published = len(table.blocks)
            if blocks[skip:] and found.n % group.block:
                table.published = found.n // group.block
                table.partial = table.published, blocks[-1]

    def _extend(self, group: Group, row: Row, tokens: int, main: int) -> list[int]:
        """Add the blocks that a group of a request still needs; return those added, copies included."""
        table = row.tables[group.number]
        if group.align:
            return self._extend_states(group, table, main)
        copies = self._copy(group, table, self.pool.take(1)[0]) if table.partial is not None else []
        states = group.kind == "mamba"
        new = self.pool.take(max(0, -(-tokens // group.block) + states * self.scratch - len(table.blocks)))
        table.blocks += new
        self.zeroed[group.number] += copies if states else copies + new
        return copies + new

    def _copy(self, group: Group, table: Table, copy: int) -> list[int]:
        """Copy a block before the step, because it is written in it; both stay in use until then. A running request
        writes its own part of a block: the keys move to the copy. Another replaces a shared block by the copy, which is
        returned."""
        assert table.partial is not None
        (at, source), table.partial = table.partial, None
        self.copies[group.number].append((source, copy))
        if table.begun:
            self.pool.move_keys(source, copy)
            self.pool.refs[source] += 1
            self.promised.update(self.pool.keys(copy)[:1])
            return []
        table.blocks[at] = copy
        self.pool.refs[copy] += 1
        return [copy]

    def _extend_states(self, group: Group, table: Table, main: int) -> list[int]:
        """Add the block of the running state; scratch blocks that are left behind move to the end."""
        columns, blocks, inside = -(-main // group.block) - 1, table.blocks, table.inside is not None
        held, begun, required, copies = len(blocks), table.begun, columns + 1 + self.scratch, table.partial is not None
        added = list[int]()
        if required > held or copies or inside:
            if begun or held:
                table.last = held - 1 - (self.scratch if begun else 0)
            if held < columns:
                blocks += [0] * (columns - inside - held)
            for at in range(held - self.scratch, min(held, self.rules.left_behind(columns, inside))) if begun else ():
                blocks.append(blocks[at])
                blocks[at] = 0
            new = self.pool.take(max(required - len(blocks), 0) + copies)
            moved = blocks[held:]
            copy = self._copy(group, table, new.pop(0)) if copies else []
            blocks += new
            added = copy + moved + new
        table.begun = True
        return added

    # Release.

    def remove_skipped(self, row: Row, computed: int) -> None:
        """Give back the blocks that the next tokens do not read."""
        for group, table in zip(self.groups, row.tables, strict=True):
            first, last = 0, self.rules.skipped(group.kind, group.size, computed) // group.block
            if group.kind == "rswa":
                first, last = self.rules.reference_gap(row.prompt, computed, group.size, group.block)
            if group.align:
                first = max(0, table.retired)
            last, gone = min(last, len(table.blocks)), list[int]()
            for at in range(last - 1, first - 1, -1):
                if table.blocks[at]:
                    gone.append(table.blocks[at])
                    table.blocks[at] = 0
                elif not group.align:
                    break
            self.pool.give_back(gone)
            if group.align:
                table.retired = max(table.retired, last)
                at = table.last if table.last is not None else -1
                if 0 <= at < -(-computed // group.block) - 1 and table.blocks[at]:
                    self.pool.give_back([table.blocks[at]])
                    table.blocks[at] = 0

    def free_row(self, row: Row) -> None:
        """Give back all blocks of a request, of each group the last ones first."""
        for table in row.tables:
            self.pool.give_back(table.blocks[::-1])
        row.tables = [Table() for _ in self.groups]
