"""State file of a campaign: what is stored is read again, and invalid data is refused."""

from __future__ import annotations

import json

import pytest

from cachesim.base.code_version import code_version
from cachesim.base.errors import BadInput
from cachesim.tools.search.campaign import SPREAD, Campaign, CampaignPlan, Failure
from cachesim.tools.search.campaign_file import KEPT, StoredCampaign, packed, read_campaign
from cachesim.tools.search.property_failure import PropertyFailure
from cachesim.tools.search.run_properties import CampaignCost

PLAN = CampaignPlan("llama_cpp@b11549", ("survives", "answered"), ("GA", "A"), "exact", 3, "llama_cpp@b10587")
FOUND = PropertyFailure("survives", 1, "crash", {"error": "it"}, "R.1", "entry", ("a line", "another"))
OTHER = FOUND._replace(deciding="R.2", causes=())
SMALL = {"line": "A5", "model": "A", "server": {"x": 1}, "requests": 1, "longest": 5, "id": "fuzz-7-0123abcd",
         "toml": "text"}  # fmt: skip


def campaign():
    failures = {FOUND.group: Failure(7, FOUND, 4, kept=SMALL), OTHER.group: Failure(9, OTHER)}
    mended = {OTHER.group: Failure(3, OTHER, 5)}
    return Campaign(PLAN.profile, failures, 30, 2, [(0, 20), (25, 35)], mended, CampaignCost(1, 2, 3, 4, 5, 6))


FILES = {FOUND.group: SMALL["id"]}
OWNED = ["fuzz-7-0123abcd", "fuzz-5-00000000"]


def stored(**changes):
    return {**json.loads(packed(PLAN, campaign(), FILES, OWNED)), **changes}


def read(tmp_path, data):
    file = tmp_path / "campaign-x.json"
    file.write_text(data if isinstance(data, str) else json.dumps(data))
    return read_campaign(file)


def test_what_is_stored_is_read_again(tmp_path):
    assert read(tmp_path, stored()) == StoredCampaign(PLAN, " ", campaign(), FILES, sorted(OWNED))


def test_a_stored_campaign_is_json_with_its_version():
    data = stored()
    assert [data[name] for name in ("cachesim", "form", "plan", "rules", "played", "refused", "done", "cost")] == [
        code_version(), 3, [PLAN[0], *map(list, PLAN[1:3]), *PLAN[3:]], " ", 30, 2, [[0, 20], [25, 35]],
        [1, 2, 3, 4, 5, 6]]  # fmt: skip
    first, second = data["failures"]
    assert (first["first"], first["times"], first["file"], first["kept"]) == (7, 4, SMALL["id"], SMALL)
    assert (second["times"], second["file"], second["kept"], second["finding"]) == (
        1, None, None, {**OTHER._asdict(), "causes": []})  # fmt: skip
    assert data["mended"] == [{"first": 3, "times": 5, "finding": second["finding"]}]


def test_conversations_that_ran_are_joined(tmp_path):
    assert read(tmp_path, stored(done=[[20, 25], [0, 20], [30, 30]])).campaign.done == [(0, 25)]


def test_other_fields_of_a_shrunk_case_are_dropped(tmp_path):
    failures = stored()["failures"]
    failures[0]["kept"] = {**SMALL, "more": 1}
    kept = read(tmp_path, stored(failures=failures)).campaign.failures[FOUND.group].kept
    assert kept == SMALL and [*kept] == [*KEPT]


def change(**fields):
    failures = stored()["failures"]
    failures[0] = {**failures[0], **fields}
    return stored(failures=failures)


@pytest.mark.parametrize(("data", "said"), [
    (stored(cachesim="other"), "written by other code of cachesim"),
    (stored(form=2), "outdated format, start a new campaign"),
    ({name: value for name, value in stored().items() if name != "form"}, "outdated format"),
    (stored(done=[[-1, 3]]), "conversations -1 to 3"), (stored(done=[[4, 3]]), "conversations 4 to 3"),
    (stored(done=[[0, SPREAD + 1]]), f"conversations 0 to {SPREAD + 1}"),
    (stored(done=[["a", 3]]), "str instead of int"),
    (stored(plan=[7, [], [], "exact", 3, ""]), "int instead of str"),
    (stored(plan=["x", [7], [], "exact", 3, ""]), "int instead of str"),
    (stored(plan=["x", [], [None], "exact", 3, ""]), "NoneType instead of str"),
    (stored(plan=["x", [], [], 1, 3, ""]), "int instead of str"),
    (stored(plan=["x", [], [], "y", "3", ""]), "str instead"),
    (stored(plan=["x", [], [], "exact", 3, 4]), "int instead of str"), (stored(plan=[]), "positional argument"),
    (stored(owned=["../x"]), "unexpected file name"), (stored(owned=[7]), "unexpected file name"),
    (change(file="fuzz-7-0123abcd.toml"), "unexpected file name"), (change(file=7), "unexpected file name"),
    (change(kept={**SMALL, "id": "fuzz-7-0123ABCD"}), "unexpected file name"),
    (change(kept={**SMALL, "requests": "1"}), "str instead of int"), (change(kept={"line": "A"}), "'model'"),
    (change(first="x"), "invalid literal"), (stored(mended=[{}]), "'finding'"), (stored(cost=["x"]), "invalid literal"),
    (stored(cost=[1] * 7), "positional arguments"), (stored(played=None), "int() argument"), ({}, "'cachesim'"),
    ("{", "not a campaign: "), ("[1]", "not a campaign: "),
])  # fmt: skip
def test_invalid_data_is_refused_in_a_line(tmp_path, data, said):
    with pytest.raises(BadInput) as refused:
        read(tmp_path, data)
    text = str(refused.value)
    assert "campaign-x.json" in text and ": not a campaign: " in text and said in text and len(text) < 300


@pytest.mark.parametrize("span", [[0, 0], [0, SPREAD], [5, 5]])
def test_a_span_may_be_empty_or_whole(tmp_path, span):
    first, stop = span
    assert read(tmp_path, stored(done=[span])).campaign.done == ([(first, stop)] if first < stop else [])
