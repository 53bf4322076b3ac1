"""Tests of merging: the parts of a campaign, in any order and with duplicates, give the whole campaign."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path

import pytest

from cachesim.base import exits
from cachesim.base.errors import BadInput
from cachesim.cli.main import main
from cachesim.tools.search.campaign import Campaign, Failure
from cachesim.tools.search.campaign_file import CampaignPlan, StoredCampaign, packed
from cachesim.tools.search.merge import CampaignSource, add, campaigns_in, merged
from cachesim.tools.search.property_failure import PropertyFailure
from cachesim.tools.search.run_properties import CampaignCost
from tests.unit.tools.search.test_fuzz_command import BAD, call

ARGV = (*BAD[:-1], "36", "--no-shrink")


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """Folders of three parts, the second interrupted and resumed, and the campaign in a single folder."""
    folders = [tmp_path_factory.mktemp(f"part{i}") for i in range(3)]
    for i, folder in enumerate(folders, 1):
        assert main([*ARGV, "--shard", f"{i}/3", "--out", str(folder), "-q", "--json"]) in (0, 1)
    whole = tmp_path_factory.mktemp("whole")
    main([*ARGV, "--out", str(whole), "-q", "--json"])
    return folders, whole


@pytest.mark.long
def test_the_parts_are_the_whole_in_any_order(capsys, parts):
    folders, whole = parts
    code, out, _ = call(capsys, *ARGV, "--out", whole, "--resume", "--json")
    want = json.loads(out)
    causes = [want.pop(key) for key in ("cures", "uncured", "ungrouped")]      # merge has none
    assert causes[0][0]["field"] == "one"
    for order in permutations(folders):
        got, out, _ = call(capsys, "merge", *order, "--json")
        [one] = json.loads(out)["campaigns"]
        assert (got, one.pop("done"), one.pop("left_out"), len(one.pop("files"))) == (code, [[0, 36]], [], 3)
        assert {"schema": 1, **one} == want


@pytest.mark.long
def test_what_is_written_is_the_campaign_and_goes_on(capsys, parts, tmp_path):
    folders, whole = parts
    code, out, _ = call(capsys, "merge", *folders, "--out", tmp_path)
    assert (code, out.splitlines()[0]) == (exits.BROKEN, "3 files, 36 conversations")
    assert {file.name: file.read_bytes() for file in tmp_path.glob("fuzz-*")} == {
        file.name: file.read_bytes() for file in whole.glob("fuzz-*")
    }
    argv = (*ARGV, "--resume", "--json")
    assert call(capsys, *argv, "--out", tmp_path) == call(capsys, *argv, "--out", whole)


@pytest.mark.long
def test_a_part_that_is_in_another_adds_nothing(capsys, parts, tmp_path):
    folders, whole = parts
    call(capsys, "merge", *folders, "--out", tmp_path)
    code, out, _ = call(capsys, "merge", *folders, whole, tmp_path, folders[0], "--json")
    [one] = json.loads(out)["campaigns"]
    assert (code, one["examples"], len(one["files"]), len(one["left_out"])) == (exits.BROKEN, 36, 1, 4)
    _, out, _ = call(capsys, "merge", *folders, whole)
    assert out.splitlines()[0] == "1 file, 36 conversations; 3 files skipped (no further conversations)"
    again = call(capsys, "merge", *folders, "--out", tmp_path, "--json")
    assert json.loads(again[1])["campaigns"][0]["examples"] == 36


@pytest.mark.long
def test_what_is_missing_is_named(capsys, parts):
    folders, _ = parts
    _, out, _ = call(capsys, "merge", folders[0], folders[2])
    assert "not run: 12 .. 23" in out


def test_parts_that_overlap_are_refused(tmp_path):
    plan = CampaignPlan("llama_cpp@b10587", ("survives",), (), "provenance", 0)
    for name, done in (("a", [(0, 60)]), ("b", [(30, 90)])):
        campaign = Campaign(plan.profile, played=60, done=done)
        (tmp_path / f"campaign-{name}.json").write_bytes(packed(plan, campaign, {}))
    with pytest.raises(BadInput, match=r"overlaps partly with .*campaign-a\.json"):
        merged(campaigns_in([tmp_path]))


def test_folders_without_a_campaign_and_files_that_are_none(capsys, tmp_path):
    assert call(capsys, "merge", tmp_path)[::2] == (
        2, f"cachesim: {tmp_path}: the folder contains neither a campaign nor a workload (create one with fuzz --out "
        "FOLDER or workload --out FOLDER)\n")  # fmt: skip
    assert "not a folder" in call(capsys, "merge", tmp_path / "none")[2]
    file = tmp_path / "campaign-x.json"
    for text in ("", "[]", "{}", '{"cachesim": 1}', "[" * 10_000, '{"cachesim": "0"}'):
        file.write_text(text)
        code, out, err = call(capsys, "merge", tmp_path)
        assert (code, out) == (2, "") and err.startswith(f"cachesim: {file}: not a campaign") and err.count("\n") == 1


@pytest.mark.parametrize("spoilt", [
    {"done": [[5, 1]]}, {"done": [[0, 1 << 40]]}, {"plan": []}, {"owned": ["../x"]}, {"plan": [1, [], [], "", 0, ""]},
    {"played": "x"}, {"failures": [{}]},
])  # fmt: skip
def test_a_campaign_that_was_spoilt_is_refused(spoilt, tmp_path):
    plan = CampaignPlan("llama_cpp@b10587", ("survives",), (), "provenance", 0)
    data = json.loads(packed(plan, Campaign(plan.profile), {}))
    (tmp_path / "campaign-x.json").write_text(json.dumps({**data, **spoilt}))
    with pytest.raises(BadInput, match="not a campaign"):
        campaigns_in([tmp_path])


@pytest.mark.parametrize("text", ["0/3", "4/3", "1", "1/", "/3", "a/3", "1/-3", "1/100001"])
def test_what_is_no_part_is_refused(capsys, text):
    code, out, err = call(capsys, *ARGV, "--shard", text)
    assert (code, out, err.count("\n")) == (2, "", 1) and "--shard" in err


PLAN = CampaignPlan("x@1", ("survives",), ("A",), "provenance", 3)
FOUND = PropertyFailure("survives", 1, "crash", {"error": "it"}, "R.1")
OTHER = FOUND._replace(deciding="R.2")


def source(name, *spans, failures=(), mended=(), rules="", plan=PLAN):
    """Return a campaign of so many conversations with these failures."""
    size = sum(stop - start for start, stop in spans)
    kept = Campaign(plan.profile, {one.finding.group: one for one in failures}, size - 1, 1, [*spans],
                    {one.finding.group: one for one in mended}, CampaignCost(size, 2))  # fmt: skip
    return CampaignSource(Path(name), StoredCampaign(plan, rules, kept, {}, ()))


def test_counts_of_parts_are_added_and_the_first_conversation_is_kept():
    one = source("b", (0, 5), failures=[Failure(4, FOUND, 2)], mended=[Failure(1, OTHER)])
    two = source("a", (5, 9), failures=[Failure(6, FOUND, 3), Failure(7, OTHER)], mended=[Failure(6, OTHER, 4)])
    for order in ([one, two], [two, one]):
        [whole] = merged(order)
        found = whole.campaign
        assert (whole.plan, found.done, found.played, found.refused) == (PLAN, [(0, 9)], 7, 2)
        assert found.cost == CampaignCost(9, 4) and whole.left_out == [] and [*map(str, whole.files)] == ["b", "a"]
        assert {group: (one.first, one.times) for group, one in found.failures.items()} == {
            FOUND.group: (4, 5), OTHER.group: (7, 1)}  # fmt: skip
        assert {one.first: one.times for one in found.mended.values()} == {1: 5}


def test_the_files_of_a_search_are_merged_apart_from_those_of_others():
    other = PLAN._replace(seed=2)
    found = merged([source("a", (0, 5)), source("b", (0, 3), plan=other)])
    assert [(one.plan, one.campaign.done) for one in found] == [(other, [(0, 3)]), (PLAN, [(0, 5)])]


def test_a_file_within_others_gives_only_its_shrunk_cases():
    shrunk = [Failure(4, FOUND, 9, kept={"line": "A"}), Failure(2, OTHER, kept={"line": "B"})]
    large = source("b", (0, 9), failures=[Failure(4, FOUND), Failure(3, OTHER)])
    [whole] = merged([source("a", (2, 5), failures=shrunk), large, source("c")])
    assert [*map(str, whole.files)] == ["b"] and [*map(str, whole.left_out)] == ["a", "c"]
    known = whole.campaign.failures
    assert (known[FOUND.group].kept, known[FOUND.group].times) == ({"line": "A"}, 1)
    assert known[OTHER.group].kept is None                   # of another conversation


def test_a_case_that_is_shrunk_already_is_kept():
    mine, theirs = Failure(4, FOUND, kept={"line": "mine"}), Failure(4, FOUND, kept={"line": "theirs"})
    [whole] = merged([source("a", (0, 9), failures=[mine]), source("b", (0, 5), failures=[theirs])])
    assert whole.campaign.failures[FOUND.group].kept == {"line": "mine"}


def test_files_that_overlap_partly_and_files_of_other_rules_are_refused():
    with pytest.raises(BadInput, match="b: overlaps partly with a"):
        merged([source("a", (0, 5)), source("b", (4, 8))])
    assert merged([source("a", (0, 5)), source("b", (5, 8))])[0].campaign.done == [(0, 8)]
    with pytest.raises(BadInput, match="b: its rule files differ from those of a"):
        merged([source("a", (0, 5)), source("b", (5, 8), rules="another digest")])


def test_of_findings_in_one_conversation_the_known_one_is_kept():
    failures = [Failure(4, FOUND, kept={"line": line}) for line in "AB"]
    whole, part = (source("a", (0, 5), failures=[one]).kept.campaign for one in failures)
    add(whole, part)
    assert (whole.failures[FOUND.group].kept, whole.failures[FOUND.group].times) == ({"line": "A"}, 2)


def test_parts_of_a_search_add_up():
    one, two = (PropertyFailure("survives", 1, "R", {"error": "x"}, rule) for rule in ("A", "B"))
    whole = Campaign("p", {one.group: Failure(3, one, 2)}, played=5, refused=2, done=[(0, 5)],
                     cost=CampaignCost(1, 2, 3, 4, 5, 6))  # fmt: skip
    part = Campaign("p", {one.group: Failure(1, one, 4), two.group: Failure(8, two)}, played=4, refused=1,
                    done=[(5, 9)], mended={two.group: Failure(6, two)}, cost=CampaignCost(10, 20, 30, 40, 50, 60))
    add(whole, part)
    assert (whole.played, whole.refused, whole.done) == (9, 3, [(0, 9)])
    assert whole.cost == CampaignCost(11, 22, 33, 44, 55, 66)
    assert whole.failures == {one.group: Failure(1, one, 6), two.group: Failure(8, two)}
    assert whole.mended == {two.group: Failure(6, two)}
