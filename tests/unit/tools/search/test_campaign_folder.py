"""Folder of a campaign: findings as data and as scenario files, written, replaced, resumed and refused."""

from __future__ import annotations

import hashlib
import json

import pytest

from cachesim.base.errors import BadInput
from cachesim.base.shard import Shard
from cachesim.judging.fault_kinds import FaultKind
from cachesim.tools.search.campaign import Campaign, CampaignPlan, Failure
from cachesim.tools.search.campaign_file import KEPT, read_campaign
from cachesim.tools.search.campaign_folder import (
    CampaignFolder,
    WrittenFile,
    campaign_data,
    case_id,
    case_toml,
    failure_data,
    group_of,
    with_failures,
)
from cachesim.tools.search.property_failure import SIMULATOR, PropertyFailure
from cachesim.tools.search.run_properties import CampaignCost
from tests.unit.tools.search.test_drawn_conversation import made

PROFILE = "llama_cpp@b11549"
PLAN = CampaignPlan(PROFILE, ("survives",), ("A",), "provenance", 3)
FOUND = PropertyFailure("survives", 1, "crash", {"error": "it fell"}, "LC-NPAST-LCP", "", ("a line",))
OTHER = FOUND._replace(kind="other")
DIED = FOUND._replace(name=SIMULATOR, kind=FaultKind.DIED, numbers={"first": 0, "last": 4, "seed": 3, "how": "killed"})
CASE = made("llama_cpp", {"A": 5, "B": 0}, "A", "A", server={"ctx_size": 64})


def failure(finding=FOUND, first=7, **more):
    return Failure(first, finding, **{"small": CASE, **more})


def campaign(*failures):
    return Campaign(PROFILE, {one.finding.group: one for one in failures})


def names(folder):
    return sorted(file.name for file in folder.glob("*.toml"))


def test_a_finding_is_data_with_its_sentences_and_its_case():
    data = failure_data(failure(times=4), PLAN)
    toml, name = data.pop("toml"), data.pop("id")
    assert data == {
        "property": "survives", "kind": "crash", "numbers": {"error": "it fell"}, "deciding": "LC-NPAST-LCP",
        "role": "prefix", "stored": "", "rule": "it fell", "text": "it fell", "step": 1, "causes": ["a line"],
        "times": 4, "conversation": 7, "shrunk": True, "line": "A5/A", "model": "A", "server": {"ctx_size": 64},
        "requests": 2, "longest": 5,
        "command": f"cachesim run A5/A -p {PROFILE} --model A --set ctx_size=64"}  # fmt: skip
    assert group_of(data) == FOUND.group and name == case_id(CASE, PROFILE, FOUND)
    assert toml == case_toml(CASE, PROFILE, FOUND)


def test_a_failure_without_a_case_has_neither_line_nor_command():
    data = failure_data(failure(DIED, small=None), PLAN)
    assert not data["shrunk"] and not {"line", "command", "toml"} & data.keys()


def test_a_failure_that_is_not_shrunk_has_its_conversation_as_drawn():
    data = failure_data(failure(small=None, first=3_000_001), PLAN)
    assert not data["shrunk"] and data["id"].startswith("fuzz-3000001-") and data["model"] == "A"


def test_a_kept_case_is_reported_again():
    kept = {name: failure_data(failure(), PLAN)[name] for name in KEPT}
    assert failure_data(failure(small=None, kept={**kept, "line": "B9"}), PLAN)["line"] == "B9"
    assert failure_data(failure(small=None, kept=kept), PLAN) == failure_data(failure(), PLAN)


def test_a_case_is_a_scenario_file_named_by_its_text():
    name = case_id(CASE, PROFILE, FOUND)
    text = case_toml(CASE, PROFILE, FOUND)
    digest = hashlib.sha256(case_toml(CASE, PROFILE, FOUND, name="").encode()).hexdigest()
    assert name == f"fuzz-0-{digest[:8]}" and f'id = "{name}"\n' in text
    assert f'title = "survives fails under {PROFILE}"\n' in text and "\nA = 5\n" in text and "\nB = " not in text
    assert f'why = "survives: it fell (it fell). Found by cachesim fuzz -p {PROFILE}."\n' in text
    assert 'source = ["cachesim"]\n' in text and "ctx_size = 64\n" in text and not text.startswith("#")
    assert case_toml(CASE, PROFILE, FOUND._replace(name=SIMULATOR, causes=("x\ny", "z"))).startswith("# x")
    assert case_id(CASE, PROFILE, OTHER._replace(numbers={"error": "x"})) != name


def test_failures_are_sorted_by_their_first_conversation_then_by_group():
    found = campaign(failure(first=9), failure(OTHER, first=9), failure(FOUND._replace(kind="z"), first=2))
    found.played, found.refused = 30, 4
    data = campaign_data(found, PLAN)
    found = [(one["conversation"], one["kind"]) for one in data.pop("failures")]
    assert found == [(2, "z"), (9, "crash"), (9, "other")]
    assert data == {"profile": PROFILE, "properties": ["survives"], "seed": 3, "examples": 30, "refused": 4}


def test_a_comparison_has_its_cost_and_what_only_the_other_rule_set_shows():
    found = campaign()
    found.mended, found.cost = {DIED.group: failure(DIED, 5, times=2)}, CampaignCost(1, 2)
    data = campaign_data(found, PLAN._replace(against="llama_cpp@b10587"))
    assert (data["against"], data["cost"]) == ("llama_cpp@b10587", CampaignCost(1, 2)._asdict())
    [one] = data["mended"]
    assert (one["property"], one["times"], one["conversation"], "line" in one) == (SIMULATOR, 2, 5, False)
    found.mended = {FOUND.group: failure(first=3_000_001)}
    [one] = campaign_data(found, PLAN._replace(against="llama_cpp@b10587"))["mended"]
    assert one["model"] == "A" and "toml" not in one


def test_each_failure_is_explained():
    data = campaign_data(campaign(failure()), PLAN)
    (one,) = with_failures(data)["failures"]
    assert one.keys() > data["failures"][0].keys()


def begun(tmp_path, shard=Shard(1, 1)):  # noqa: B008
    folder = CampaignFolder(tmp_path / "out", PLAN, shard)
    folder.begin(resume=False)
    return folder


def test_a_new_campaign_has_an_empty_state_file(tmp_path):
    folder = begun(tmp_path)
    assert [file.name for file in folder.path.iterdir()] == [f"{PLAN.stem}.json"]
    assert read_campaign(folder.state).campaign == Campaign(PROFILE)
    assert begun(tmp_path, Shard(2, 3)).state.name == f"{PLAN.stem}.2of3.json"


def test_an_existing_campaign_is_continued_only_on_request(tmp_path):
    folder = begun(tmp_path)
    found = campaign(failure())
    found.played = 5
    assert [*folder.keep(found)] == [WrittenFile(folder.path / f"{case_id(CASE, PROFILE, FOUND)}.toml", None)]
    with pytest.raises(BadInput, match=r"this campaign already exists \(--resume continues it\)"):
        begun(tmp_path)
    again = CampaignFolder(folder.path, PLAN)
    resumed = again.begin(resume=True)
    assert (resumed.played, resumed.failures[FOUND.group].is_shrunk, again.files) == (5, True, folder.files)
    assert [*again.keep(resumed)] == []


def test_another_search_or_another_rule_file_is_not_resumed(tmp_path):
    folder = begun(tmp_path)
    data = json.loads(folder.state.read_text())
    for change, said in (({"plan": [*data["plan"][:4], 4, ""]}, "another search"),
                         ({"rules": "digest"}, "the rule file has changed")):  # fmt: skip
        folder.state.write_text(json.dumps({**data, **change}))
        with pytest.raises(BadInput, match=f"not a campaign to resume: {said}"):
            CampaignFolder(folder.path, PLAN).begin(resume=True)


def test_a_smaller_case_replaces_the_file_of_its_failure(tmp_path):
    folder = begun(tmp_path)
    large = made("llama_cpp", {"A": 9}, "A", "A")
    found = campaign(failure(small=None, kept=None, first=3_000_001), failure(OTHER, small=large))
    first = [written.path for written in folder.keep(found)]
    assert [written.replaced for written in folder.keep(found)] == [] and len(first) == 2
    found.failures[FOUND.group] = failure(first=3_000_001)
    (written,) = folder.keep(found)
    assert written == WrittenFile(folder.path / f"{case_id(CASE, PROFILE, FOUND)}.toml", first[0])
    assert names(folder.path) == sorted([written.path.name, first[1].name])
    kept = read_campaign(folder.state)
    assert [*kept.files.values()] == [one.stem for one in (written.path, first[1])]
    assert kept.owned == sorted(kept.files.values())


def test_an_earlier_conversation_is_written_again(tmp_path):
    folder = begun(tmp_path)
    found = campaign(failure())
    first = [*folder.keep(found)]
    found.failures[FOUND.group] = failure(first=2, small=made("llama_cpp", {"A": 3}, "A"))
    (second,) = folder.keep(found)
    assert second.replaced == first[0].path and names(folder.path) == [second.path.name]


def test_a_failure_without_a_case_has_no_file(tmp_path):
    folder = begun(tmp_path)
    assert [*folder.keep(campaign(failure(DIED, small=None)))] == [] and folder.files == {} and not folder.missing


def test_files_that_belong_to_no_failure_are_removed_on_resume(tmp_path):
    folder = begun(tmp_path)
    found = campaign(failure())
    [*folder.keep(found)]
    data = json.loads(folder.state.read_text())
    data["owned"].append("fuzz-9-00000000")
    folder.state.write_text(json.dumps(data))
    for name in ("fuzz-9-00000000.toml", "fuzz-8-00000000.toml"):
        (folder.path / name).write_text("")
    again = CampaignFolder(folder.path, PLAN)
    again.begin(resume=True)
    assert names(folder.path) == sorted(["fuzz-8-00000000.toml", f"{case_id(CASE, PROFILE, FOUND)}.toml"])
    assert again.owned == {*again.files.values()}


def test_a_campaign_that_another_process_runs_is_refused(tmp_path):
    folder = begun(tmp_path)
    taken = pytest.raises(BadInput, match="another process is running this campaign")
    with folder.held(), taken, CampaignFolder(folder.path, PLAN).held():
        pass
    with folder.held():
        pass


def test_a_file_that_cannot_be_written_is_tried_again(tmp_path):
    folder = begun(tmp_path)
    found = campaign(failure(), failure(OTHER, small=made("llama_cpp", {"A": 9}, "A", "A")))
    away = folder.path.rename(tmp_path / "away")
    assert [*folder.keep(found)] == [] and folder.missing == {FOUND.group, OTHER.group} and folder.refused is not None
    away.rename(folder.path)
    assert len([*folder.keep(found)]) == 2 and folder.missing == set() and folder.refused is None
    assert read_campaign(folder.state).files.keys() == {FOUND.group, OTHER.group}
