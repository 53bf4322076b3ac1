"""The state machine: its operations, its line, and each invariant with the fault that it finds."""

from __future__ import annotations

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from cachesim.strategies import (
    BadArgument,
    BlocksInOnePlace,
    CachedEqualsCold,
    CacheDriver,
    CacheFault,
    CacheMachine,
    KeyCoversContent,
    NeverNegativeReuse,
    ReferenceCounts,
    StoredPrompt,
    requests,
)

FIXED = settings(derandomize=True, deadline=None, database=None, max_examples=120, stateful_step_count=8,
                 report_multiple_bugs=False, phases=[Phase.generate, Phase.shrink])  # fmt: skip
SIZE = 2


class Pages(CacheDriver):
    """A correct cache of pages of two tokens, all of whose operations exist. Each fault is a name."""

    def __init__(self, fault=""):
        self.fault = fault
        self.free, self.counts = list(range(40)), {}
        self.kept = {}                               # key -> its tokens as they were stored

    def taken(self):
        page = self.free.pop(0)
        self.counts[page] = 1
        return page

    def insert(self, tokens):
        if len(self.free) < len(tokens):
            return None
        cached = self.look_up(tokens)
        handle = {"tokens": list(tokens), "pages": [self.taken() for _ in range(-(-len(tokens) // SIZE))]}
        self.kept[tokens] = list(tokens)
        return StoredPrompt(handle, -1 if self.fault == "negative" and cached else cached)

    def look_up(self, tokens):
        shared = [0, *(n for n in range(1, len(tokens) + 1) for key in self.kept if key[:n] == tokens[:n])]
        return max(shared) + (self.fault == "long" and bool(self.kept))

    def evict(self, handle):
        for page in handle["pages"]:
            self.counts[page] -= 1
            if not self.counts[page] or self.fault == "freed":
                self.free.append(page)
        if self.fault == "twice":
            self.free.append(self.free[-1])

    def fork(self, handle):
        if self.fault != "uncounted":
            for page in handle["pages"]:
                self.counts[page] += 1
        return handle if self.fault == "alias" else {name: list(value) for name, value in handle.items()}

    def trim(self, handle, length):
        if self.fault == "refuse":
            return False
        gone = handle["pages"][-(-length // SIZE):]
        handle["pages"] = handle["pages"][: -(-length // SIZE)]
        if self.fault != "leak":
            self.evict({"pages": gone})
        handle["tokens"] = handle["tokens"][: length - (self.fault == "deeper" and length > 1)]
        return True

    def restore(self, tokens):
        if tokens not in self.kept:
            return None
        stored = self.insert(tokens)
        if stored is not None and self.fault == "stale":
            stored.handle["tokens"][-1] += 1
        return stored and stored.handle

    def read(self, handle):
        return tuple(handle["tokens"])

    def blocks(self, handle):
        return handle["pages"]

    def free_blocks(self):
        return self.free

    def reference_counts(self):
        return self.counts

    def entries(self):
        for key, tokens in self.kept.items():
            yield key, tuple(tokens[:-1] if self.fault == "short" and len(tokens) > 2 else tokens)


class PageMachine(CachedEqualsCold, NeverNegativeReuse, ReferenceCounts, BlocksInOnePlace, KeyCoversContent):
    prompts = requests(words=1, max_words=1, max_length=4)
    fault_of_driver = ""

    def new_cache(self):
        return Pages(self.fault_of_driver)


def machine(fault, *bases):
    return type("PageMachine", bases or (PageMachine,), {"fault_of_driver": fault, "new_cache": PageMachine.new_cache,
                                                         "prompts": PageMachine.prompts})  # fmt: skip


def failure(fault, *bases):
    with pytest.raises(CacheFault) as found:
        run_state_machine_as_test(machine(fault, *bases), settings=FIXED)
    return str(found.value).splitlines()


def test_a_correct_cache_passes():
    run_state_machine_as_test(PageMachine, settings=settings(FIXED, max_examples=15))


FAULTS = [
    ("negative", "A1/A1: -1 tokens of A1 reused, expected 0 to 1"),
    ("long", "A1/A1: 2 tokens of A1 reused, expected 0 to 1"),
    ("deeper", "A2/{trim 0 2}: sequence 0, A2, differs from a cold run"),
    ("stale", "A1/{evict 0}/{restore A1}: sequence 1, A1, differs from a cold run"),
    ("short", "A3: the entry with the key A3 has other contents than a cold run of it"),
    ("uncounted", "A1/{fork 0}: block 0 has 1 references, 2 sequences have it"),
    ("leak", "A3/{trim 0 1}: block 1 has 1 references, 0 sequences have it"),
    ("freed", "A1/{fork 0}/{evict 0}: block 0 is free and in sequence 1"),
    ("twice", "A1/{evict 0}: block 0 is twice in the list of free blocks"),
]


@pytest.mark.parametrize(("fault", "text"), FAULTS)
def test_a_fault_is_found_in_its_line(fault, text):
    line = text.partition(": ")[0]
    with pytest.raises(CacheFault) as found:
        machine(fault).repeat(line)
    assert str(found.value).splitlines() == [text, f"  again: PageMachine.repeat({line!r})"]
    PageMachine.repeat(line)


def test_a_block_that_a_sequence_has_twice_is_a_fault():
    class Double(Pages):
        def blocks(self, handle):
            return handle["pages"] * 2

    class DoubleMachine(BlocksInOnePlace):
        def new_cache(self):
            return Double()

    with pytest.raises(CacheFault) as found:
        DoubleMachine.repeat("A1/B3")
    assert str(found.value).splitlines()[0] == "A1: block 0 is twice in sequence 0"


def test_blocks_without_references_are_compared_in_the_order_of_their_names():
    class Wrong(Pages):
        def reference_counts(self):
            return {0: 1, 1: 0, 2: 5, 10: 7}

    class WrongMachine(ReferenceCounts):
        def new_cache(self):
            return Wrong()

    with pytest.raises(CacheFault) as found:
        WrongMachine.repeat("A1")
    assert str(found.value).splitlines()[0] == "A1: block 10 has 7 references, 0 sequences have it"


@pytest.mark.part(3)
@pytest.mark.parametrize(("fault", "text"), FAULTS)
def test_a_fault_is_found_and_shrinks_to_its_line(fault, text):
    """Each within 120 examples of at most 8 operations."""
    first, again = failure(fault)
    assert first == text
    line = text.partition(": ")[0]
    assert again == f"  again: PageMachine.repeat({line!r})"
    with pytest.raises(CacheFault) as repeated:
        machine(fault).repeat(line)
    assert str(repeated.value).splitlines()[0] == text
    PageMachine.repeat(line)


@pytest.mark.part(5)
@pytest.mark.parametrize(("fault", "base"), [
    ("long", NeverNegativeReuse), ("deeper", CachedEqualsCold), ("short", KeyCoversContent),
    ("uncounted", ReferenceCounts), ("twice", BlocksInOnePlace),
])
def test_each_invariant_finds_its_fault_alone_and_no_other(fault, base):
    assert failure(fault, base)
    others = {NeverNegativeReuse, CachedEqualsCold, KeyCoversContent, BlocksInOnePlace, ReferenceCounts} - {base}
    for one in others if fault in ("long", "short") else ():
        run_state_machine_as_test(machine(fault, one), settings=settings(FIXED, max_examples=10))


def test_a_refused_trim_leaves_the_sequence_as_it_is():
    machine("refuse").repeat("A3/{trim 0 1}/{fork 0}")


class OnlyInsert(CacheDriver):
    def insert(self, tokens):
        return StoredPrompt(tokens) if len(tokens) < 4 else None


class SmallMachine(CacheMachine):
    def new_cache(self):
        return OnlyInsert()


def test_a_driver_needs_only_insert():
    run_state_machine_as_test(SmallMachine, settings=settings(FIXED, max_examples=10))


def test_a_refused_prompt_is_not_held():
    class Counted(SmallMachine):
        def check_all_are_short(self):
            assert all(len(one.tokens) < 4 for one in self.held)
            assert len(self.held) <= len(self.steps)

    Counted.repeat("A5/A3/B3")


def test_an_invariant_without_its_operation_is_refused():
    class Lacking(SmallMachine, CachedEqualsCold):
        pass

    with pytest.raises(BadArgument, match=r"^Lacking: OnlyInsert lacks read\(\)"):
        Lacking.repeat("A1")


def test_an_error_of_the_driver_names_the_run():
    class Raising(OnlyInsert):
        def insert(self, tokens):
            if len(tokens) > 1:
                raise KeyError("gone")
            return StoredPrompt(tokens)

    class RaisingMachine(CacheMachine):
        def new_cache(self):
            return Raising()

    with pytest.raises(KeyError, match="gone") as failed:
        run_state_machine_as_test(RaisingMachine, settings=FIXED)
    assert failed.value.__notes__[0] == "A2\n  again: RaisingMachine.repeat('A2')"


def test_an_own_check_runs_after_every_operation():
    class Checked(PageMachine):
        def check_few(self):
            if len(self.held) > 2:
                raise self.fault("more than two sequences")

    with pytest.raises(CacheFault, match=r"^A1/A1/A1: more than two sequences\n") as found:
        Checked.repeat("A1/A1/A1")
    assert "check_few" in repr(vars(found.value))


@pytest.mark.parametrize(("line", "text"), [
    ("{evict 0}", "{evict 0}: there is no sequence 0 (sequences: [])"),
    ("A1/{evict 0}/{fork 0}", "{fork 0}: there is no sequence 0 (sequences: [])"),
    ("A1/{cut 0}", "expected a prompt or an operation in braces, found '{cut 0}' ("),
    ("A1/{trim 0}", "expected a prompt or an operation in braces, found '{trim 0}' ("),
    ("A1/{evict 0", "expected a prompt or an operation in braces, found '{' ("),
    ("A1/{restore A1}", "{restore A1}: no sequence with these tokens was evicted"),
    ("{look_up 5}", "expected a request, found '5'"),
])
def test_a_line_that_cannot_run_is_refused(line, text):
    with pytest.raises(BadArgument) as refused:
        PageMachine.repeat(line)
    assert str(refused.value).startswith(text)


def test_a_machine_without_a_cache_says_so():
    with pytest.raises(NotImplementedError, match="CacheMachine lacks new_cache"):
        CacheMachine.repeat("A1")


def test_the_message_has_the_shortest_run_whatever_hypothesis_left():
    """Numbers of later sequences are lowered where a step that made one is removed."""
    with pytest.raises(CacheFault) as found:
        machine("deeper").repeat("A1/{fork 0}/{look_up A1}/A2/{evict 0}/{trim 2 2}")
    assert len(found.value.steps) == 6
    assert str(found.value).splitlines()[0] == "A2/{trim 0 2}: sequence 0, A2, differs from a cold run"


def test_a_shorter_run_that_breaks_another_check_is_not_the_shortest():
    class Checked(PageMachine):
        def check_first(self):
            if self.held and len(self.held[0].tokens) == 3:
                raise self.fault("the first sequence is long")

        def check_few(self):
            if len(self.held) > 2:
                raise self.fault("more than two sequences")

    with pytest.raises(CacheFault) as found:
        Checked.repeat("A1/A3/A1")
    assert str(found.value).splitlines()[0] == "A1/A3/A1: more than two sequences"
    assert (found.value.check, found.value.steps) == ("check_few", ("A1", "A3", "A1"))


@pytest.mark.parametrize(("base", "lacks"), [
    (CachedEqualsCold, "read"), (ReferenceCounts, "blocks"), (BlocksInOnePlace, "blocks"),
    (KeyCoversContent, "entries"),
])  # fmt: skip
def test_an_invariant_names_the_first_operation_that_it_lacks(base, lacks):
    lacking = type("Lacking", (SmallMachine, base), {})
    with pytest.raises(BadArgument, match=rf"^Lacking: OnlyInsert lacks {lacks}\(\)"):
        lacking.repeat("A1")


@pytest.mark.parametrize(("base", "has", "lacks"), [
    (ReferenceCounts, "blocks", "reference_counts"), (BlocksInOnePlace, "blocks", "free_blocks"),
    (KeyCoversContent, "entries", "read"),
])  # fmt: skip
def test_an_invariant_names_the_second_operation_that_it_lacks(base, has, lacks):
    driver = type("Half", (OnlyInsert,), {has: lambda self, *handle: []})
    lacking = type("Lacking", (base,), {"new_cache": lambda self: driver()})
    with pytest.raises(BadArgument, match=rf"^Lacking: Half lacks {lacks}\(\)"):
        lacking.repeat("A1")


def test_the_state_follows_the_operations():
    states = []

    class Watched(PageMachine):
        def check_state(self):
            held = [(one.number, len(one.tokens)) for one in self.held]
            states.append((held, [len(tokens) for tokens in self.evicted], self.reuse and self.reuse.cached))

    Watched.repeat("A3/{fork 0}/A2/{trim 1 1}/{look_up A2}/{evict 0}/{restore A3}")
    assert states == [
        ([(0, 3)], [], 0), ([(0, 3), (1, 3)], [], None), ([(0, 3), (1, 3), (2, 2)], [], 2),
        ([(0, 3), (1, 1), (2, 2)], [], None), ([(0, 3), (1, 1), (2, 2)], [], 2), ([(1, 1), (2, 2)], [3], None),
        ([(1, 1), (2, 2), (3, 3)], [3], None),
    ]  # fmt: skip


def test_a_prompt_for_which_an_empty_cache_has_no_room_is_a_fault():
    class Small(Pages):
        def insert(self, tokens):
            return None

    class SmallMachine(PageMachine):
        def new_cache(self):
            return Small()

    found = SmallMachine()
    with pytest.raises(CacheFault, match="an empty cache has no room for "):
        found.cold((1, 2, 3))


def test_the_contents_of_a_cold_cache_are_read_once():
    made = []

    class Counted(PageMachine):
        def new_cache(self):
            made.append(1)
            return Pages()

    found = Counted()
    before = len(made)
    assert found.cold((1, 2)) == found.cold((1, 2)) == (1, 2) and len(made) == before + 1
    assert found.cold((1, 3)) == (1, 3) and len(made) == before + 2
