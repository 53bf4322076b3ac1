"""The rules of every build, from the oldest rule set to the newest, against their own dates.

The dates are read here from the text of each rule and from a table of defaults, not by the code under test.
"""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from cachesim.engines.build_names import main_branch
from cachesim.engines.llama_cpp import ENGINE
from cachesim.engines.llama_cpp.history import LANDED, LINE, TIMELINE
from cachesim.engines.llama_cpp.profiles.between import BETWEEN
from cachesim.engines.rule import about
from cachesim.engines.shared.timeline import Commit

FIRST, LAST = (TIMELINE.own[name].number for name in (LINE[0], LINE[-1]))
STRIDE = 61                   # a prime: the sample does not keep step with anything
IDLE = {
    # rule: first build in which the server asks it; a table holds it before, without effect
    "LC-PC-ASK.PC0": 6723, "LC-CKPT-PERIODIC.NONE": 8218, "LC-CKPT-COUNT.OWN": 8152, "LC-SPEC-ON.ANY": 7959,
    "LC-SPEC-CKPT": 8842, "LC-RS-BACK.ANY": 9180, "LC-KV-COPY.LATER": 5913,
    "LC-PC-FAILED.CLEAR": 6723, "LC-SPEC-PLACE.OWN": 9028,
    "LC-RS-PLANE.DEPTH": 9180, "LC-RS-SAVED.PENDING": 9180,
    # no checkpoints before; TH0's comparison is older (#14163)
    "LC-CKPT-NEED.TH-NEG": 5554, "LC-CKPT-NEED.TH0": 6160, "LC-CKPT-PICK.PK0": 6160, "LC-CKPT-RESTORE.RE0": 6160,
    "LC-CKPT-RESET.ALL": 6160, "LC-CKPT-ERASE.ER0": 6160, "LC-CKPT-CREATE.CR0": 6160,
    # the same behaviour before the fault that the change repaired
    "LC-SHIFT-WHEN.GENERATING": 6890, "LC-KV-TURN.OWN": 5913, "LC-KV-MASK.OWN": 6384, "LC-KV-POS.COUNTED": 5504,
    "LC-N-SWA.FULL0": 5429,   # a window is only a mask before #13194, as with --swa-full
}  # fmt: skip
DEFAULTS = {
    # path: (first build, value), oldest first; None = the default of the newest build
    "defaults.context_shift": [(0, True), (6206, None)],
    "defaults.slot_prompt_similarity": [(0, 0.5), (6455, None)],
    "defaults.ctx_checkpoints": [(0, 0), (6160, 3), (6723, 8), (8218, None)],
    "defaults.ctx_size": [(0, 4096), (7407, None)],
    "defaults.spec_draft_n_max": [(0, 16), (9235, None)],
    "auto_slots": [(0, 1), (6925, 4)],
    "ctx_pad": [(0, 32), (2771, 256), (2871, 32), (6868, 1), (6975, 256)],
    "window_pad": [(0, 32), (6868, 1), (6975, 256)],
    "least_batch": [(0, 64), (7256, 1)],
    "host_header": [(0, 0), (9028, 8)],
    "min_step": [(0, 8192), (9310, 256), (9765, 8192)],
    "ext_bytes": [(0, 0), (8215, 8), (10809, 12)],
    "slot_file_header": [(0, 12), (10388, 28)],
    "share_digits": [(0, 6), (6455, 3)],
}  # fmt: skip


def first_build(text):
    """Return the build in the life time of a rule (``#24110 (b9509)``, ``#24110``), 0 if it names none."""
    named = re.search(r"\(b(\d+)\)", text)
    if named:
        return int(named[1])
    pull = re.match(r"#\d+", text)
    return LANDED[pull[0]].number if pull and pull[0] in LANDED else 0


def misdated(build):
    """Return the fields whose value at a build belongs to another build, as text."""
    values = main_branch(ENGINE).at(Commit(build, "")).rules.leaves()
    for path, value in values.items():
        if hasattr(value, "rule"):
            since, until = first_build(about(value).since), first_build(about(value).until)
            if (since > build >= IDLE.get(value.rule, build + 1)) or (since > build and value.rule not in IDLE):
                yield f"b{build} {path}: {value.rule} began at b{since}"
            if until and until <= build:
                yield f"b{build} {path}: {value.rule} ended at b{until}"
    for path, steps in DEFAULTS.items():
        expected = [value for first, value in steps if first <= build][-1]
        if values.get(path) != expected:
            yield f"b{build} {path}: {values.get(path)}, not {expected}"


def turning_points():
    """Return the builds at which something changed, the builds before them, and a sample of the others."""
    known = {landed.number for landed in (*LANDED.values(), *TIMELINE.own.values())}
    builds = known | {number - 1 for number in known} | set(range(FIRST, LAST, STRIDE))
    return sorted(build for build in builds if FIRST <= build <= LAST)


def test_each_rule_is_in_force_by_its_own_dates():
    assert [line for build in turning_points() for line in misdated(build)] == []


@pytest.mark.long
def test_each_rule_is_in_force_by_its_own_dates_between_turning_points():
    """A table of defaults that turned elsewhere would do so for more builds than are left out."""
    assert [line for build in range(FIRST, LAST + 1, 7) for line in misdated(build)] == []


def test_every_dated_row_has_a_source_with_a_build_and_changes_something():
    leaves = [ENGINE.profiles[name].leaves() for name in LINE]
    numbers = [TIMELINE.own[name].number for name in LINE]
    for row in BETWEEN:
        build = LANDED[row.source].number
        at = max(k for k, number in enumerate(numbers) if number < build)
        rows = [other for other in BETWEEN if other.field == row.field
                and numbers[at] < LANDED[other.source].number <= numbers[at + 1]]  # fmt: skip
        order = [LANDED[other.source].number for other in rows]
        assert order == sorted(set(order)), row
        assert rows[-1].value == leaves[at + 1].get(row.field), row           # the last row reaches the newer table
        assert rows[0].value != leaves[at].get(row.field) or row.field == "pc_update", row
        if hasattr(row.value, "rule") and row is not rows[-1]:
            assert about(row.value).since.startswith(row.source), row


def test_every_change_without_a_build_is_said_between_its_rule_sets():
    branch = main_branch(ENGINE)
    for path, spans in branch.spans.items():
        for before, span in pairwise(spans):
            lines = [branch.at(Commit(build, "")).notes for build in (span.first.number - 1, span.first.number)]
            subject = getattr(before.value, "rule", None) or getattr(span.value, "rule", path)
            said = [any(line.startswith((f"{subject.partition('.')[0]}: ", f"{path}: ", f"log ({path}): "))
                        for line in notes) for notes in lines]  # fmt: skip
            assert said == [span.after is not None, False], (path, span)


def test_a_build_between_takes_no_neighbour_as_a_whole():
    """b7000 has rules of both neighbours, and a value that neither has."""
    values = main_branch(ENGINE).at(Commit(6900, "")).rules.leaves()
    old, new = (ENGINE.profiles[name].leaves() for name in ("llama_cpp@b6685", "llama_cpp@b7789"))
    assert (values["slot_ctx"], values["ckpt_break"]) == (old["slot_ctx"], new["ckpt_break"])
    assert values["ctx_pad"] == 1 and values["ctx_pad"] not in (old["ctx_pad"], new["ctx_pad"])
