"""``cachesim workload``: its table, its JSON, and what it refuses."""

import json
from argparse import ArgumentParser, Namespace

import pytest

from cachesim.base import exits
from cachesim.base.errors import BadInput
from cachesim.base.shard import Shard
from cachesim.cli.main import main
from cachesim.scenarios.schema import DEFAULT_PROFILE
from cachesim.tools.workload import command
from cachesim.tools.workload.cell_jobs import CellJob
from cachesim.tools.workload.result_store import id_of

DATA = "tests/workloads/data"


def test_the_table_has_a_row_for_each_rule_set(capsys):
    assert main(["workload", DATA, "-p", "llama_cpp@latest", "-p", "ik_llama@main", "--scale", "16", "-np", "2"]) == 0
    out = capsys.readouterr().out
    assert "2 sessions, 12 requests, 2 sub-agents" in out and "under any rules" in out
    assert all(f"\n{name} " in out for name in ("llama_cpp@b11549", "ik_llama@main"))
    assert max(map(len, out.splitlines())) <= 80


def test_a_long_name_takes_no_room_from_the_numbers(capsys):
    assert main(["workload", DATA, "-p", "llama_cpp@b11549-repaired", "--scale", "16", "--detail", "counts"]) == 0
    out = capsys.readouterr().out
    assert "llama_cpp@" in out and "b11549-repaired" in out and "restored loaded wrong MiB ckpt MiB pc" in out
    assert "\u2026" not in out and max(map(len, out.splitlines())) <= 80


def test_sessions_share_a_server(capsys):
    shared = ["workload", DATA, "--sessions", "2", "--scale", "16", "--detail", "counts"]
    assert main([*shared, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (line,), (total,) = found["lines"], found["totals"]
    assert (line["session"], line["requests"], line["wrong"]) == ("agents+chat", 12, None)
    assert [(one["sessions"], one["servers"]) for one in (line, total)] == [(2, 1), (2, 1)]
    assert main(shared) == 0
    assert capsys.readouterr().out.startswith("2 sessions on 1 server, 12 requests, 2 sub-agents, ")


@pytest.mark.parametrize(("argv", "told"), [
    ([DATA, "--scale", "7"], "a scale of 7 does not divide blocks of 64 tokens"),
    ([DATA, "--scale", "0"], "must be at least 1"),
    ([DATA, "--model", "nobodys-model"], "unknown sizes of K/V rows and states: model 'nobodys-model'"),
    (["tests/workloads/data/none.json"], "none.json"),
    ([DATA, "--limit", "workload=100"], "at most 100 tokens are allowed"),
    ([DATA, "--model", "mamba-2", "-p", "llama_cpp@b10587", "-p", "ik_llama@main"], "ik_llama has no model 'mamba-2'"),
    ([DATA, "--set", "nonsense=1"], "unknown server option 'nonsense'"),
])  # fmt: skip
def test_what_cannot_be_played_is_one_line(capsys, argv, told):
    assert main(["workload", *argv]) == 2
    err = capsys.readouterr().err
    assert told in err and "Traceback" not in err


def test_without_a_result_the_last_error_is_the_json(tmp_path, capsys):
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_text("{}")
    assert main(["workload", str(tmp_path), "--json"]) == 2
    out, err = capsys.readouterr()
    error = json.loads(out)["error"]
    assert (error["kind"], error["code"], len(err.splitlines())) == ("input", 2, 2)
    assert all(f"{name}.jsonl" in err for name in "ab") and error["message"] in err


def test_with_one_result_errors_are_lines_on_stderr(tmp_path, capsys):
    (tmp_path / "a.jsonl").write_text("{}")
    (tmp_path / "b.jsonl").write_text('{"blocks": [1, 2, 3]}\n')
    assert main(["workload", str(tmp_path), "--json", "--detail", "counts"]) == 2
    out, err = capsys.readouterr()
    assert [line["session"] for line in json.loads(out)["lines"]] == ["b"] and err.count("a.jsonl") == 1


def test_the_command_explains_every_argument():
    parser = ArgumentParser()
    command.add_arguments(parser)
    assert [action.dest for action in parser._actions if not action.help] == []
    assert vars(parser.parse_args(["x"])) == {
        "files": ["x"], "profiles": [], "settings": [], "model": "qwen3-next", "scale": 1, "sessions": 1,
        "detail": "causes", "jobs": 1, "on": None, "shard": None, "out": None, "resume": False, "limits": [],
        "json": False}  # fmt: skip


@pytest.mark.parametrize(("total", "code"), [
    ({}, exits.HOLDS), ({"undecided": 1}, exits.UNDECIDED), ({"wrong": 1}, exits.BROKEN), ({"died": 1}, exits.BROKEN),
    ({"wrong": 1, "undecided": 1}, exits.BROKEN), ({"wrong": None, "undecided": None}, exits.HOLDS),
])  # fmt: skip
def test_the_code_of_a_sum(total, code):
    assert command.code_of({"wrong": 0, "died": 0, "undecided": 0, **total}) == code


@pytest.fixture
def ended(monkeypatch):
    """Return a function that runs the command when the jobs end so: stored lines, errors, and an interrupt."""
    def run(lines, errors=(), interrupt=None, as_json=False, resume=False):
        begun = []

        class Made:
            def __init__(self, todo, folder, jobs, on):
                self.lines, self.errors = dict(lines), list(errors)
                begun.append((len(todo), folder, jobs, on))

            def play(self, resume):
                begun.append(resume)
                if interrupt:
                    raise interrupt

        monkeypatch.setattr("cachesim.tools.workload.workload_jobs.Workload", Made)
        told = []
        monkeypatch.setattr(command, "_tell", lambda found, as_json: told.append((found, as_json)) or [exits.UNDECIDED])
        args = Namespace(jobs=3, on=None, resume=resume, json=as_json)
        return command._play(args, ["job"], None), told, begun

    return run


def test_results_are_printed_in_the_order_of_the_jobs_whatever_failed(ended, capsys):
    assert ended({2: "last", 0: "first"}, resume=True) == (
        exits.UNDECIDED, [(["first", "last"], False)], [(1, None, 3, ""), True])  # fmt: skip
    code, told, _ = ended({0: "first"}, [BadInput("no"), ValueError("x")], as_json=True)
    assert (code, told) == (exits.CRASH, [(["first"], True)])
    assert ended({})[:2] == (exits.UNDECIDED, [([], False)])            # nothing was to run
    assert capsys.readouterr().err == ""


def test_an_interrupt_keeps_the_results_before_it(ended, capsys):
    code, told, _ = ended({1: "one"}, interrupt=KeyboardInterrupt())
    assert (code, told) == (exits.INTERRUPTED, [(["one"], False)])
    assert capsys.readouterr().err == "cachesim: interrupted: results so far\n"
    code, told, _ = ended({}, [BadInput("no")], KeyboardInterrupt(), as_json=True)
    assert (code, told, capsys.readouterr().out) == (exits.INTERRUPTED, [], "")


def test_errors_alone_are_told_by_the_last_one_as_json(ended, capsys):
    code, told, _ = ended({}, [ValueError("x"), BadInput("no")], as_json=True)
    error = json.loads(capsys.readouterr().out)["error"]
    assert (code, told, error["kind"], error["code"]) == (exits.CRASH, [], "input", exits.CRASH)
    assert ended({}, [BadInput("no")])[0] == exits.BAD_INPUT and capsys.readouterr().out == ""


def test_no_line_is_a_note(capsys):
    assert command._tell([], False) == [] and capsys.readouterr().err == "cachesim: no results: no job was run\n"
    assert command._tell([], True) == [] and json.loads(capsys.readouterr().out)["lines"] == []


def test_a_folder_without_a_workload_and_an_unknown_rule_set_are_refused(tmp_path, capsys):
    assert main(["workload", str(tmp_path)]) == 2
    assert capsys.readouterr().err == (
        "cachesim: the folders contain no workload (files end in .json or .jsonl)\n")  # fmt: skip
    assert main(["workload", DATA, "-p", "llama_cpp@none"]) == 2
    assert "unknown profile 'llama_cpp@none'" in capsys.readouterr().err
    assert main(["workload", DATA, "--resume"]) == 2
    assert capsys.readouterr().err == "cachesim: --resume needs a folder (add --out FOLDER)\n"


def test_there_is_a_job_for_each_server_under_each_rule_set():
    args = Namespace(files=[DATA], sessions=1, model="qwen3-next", profiles=["llama_cpp@b9518", "mlx_lm@0.32.2"] * 2,
                     settings=[], scale=16, detail="answers")  # fmt: skip
    files = [f"{DATA}/agents.json", f"{DATA}/chat.jsonl"]
    assert [(job.files, job.profile) for job in command.jobs(args)] == [
        ((file,), profile) for profile in args.profiles[:2] for file in files]  # fmt: skip
    args.sessions, args.profiles = 2, []
    (job,) = command.jobs(args)
    assert job == CellJob(tuple(files), DEFAULT_PROFILE, "qwen3-next", {}, 16, "judged", True)


def test_there_is_a_job_for_each_rule_set_and_server_and_its_model_is_known(tmp_path):
    for name in ("a.json", "b.json", "c.jsonl"):
        (tmp_path / name).touch()
    args = Namespace(files=[str(tmp_path)], sessions=2, model="GA", profiles=["llama_cpp@b9518", "vllm@0.33.0"],
                     settings=[], scale=4, detail="counts")  # fmt: skip
    files = [(str(tmp_path / "a.json"), str(tmp_path / "b.json")), (str(tmp_path / "c.jsonl"),)]
    assert command.jobs(args) == [CellJob(some, profile, "GA", {}, 4, "counted", True)
                                  for profile in args.profiles for some in files]  # fmt: skip
    args.model = "nobodys-model"
    with pytest.raises(BadInput, match="unknown sizes of K/V rows and states"):
        command.jobs(args)


def test_every_argument_has_a_help():
    parser = ArgumentParser()
    command.add_arguments(parser)
    assert [one.dest for one in parser._actions if not one.help] == []


def test_the_usage_names_the_value_of_each_option(capsys):
    parser = ArgumentParser(prog="workload")
    command.add_arguments(parser)
    usage = " ".join(parser.format_usage().split())
    for text in ("[--model MODEL]", "[--scale N]", "[--detail {counts,answers,causes}]", "[--out FOLDER]",
                 "[--sessions N]", "[--resume]"):  # fmt: skip
        assert text in usage
    assert usage.endswith(" FILE [FILE ...]")
    with pytest.raises(SystemExit):
        parser.parse_args(["x", "--detail", "other"])
    assert "invalid choice: 'other'" in capsys.readouterr().err


@pytest.fixture
def begun(monkeypatch):
    """Return a function that runs the command, and returns the tasks and the folder that it begins with."""
    def run(**more):
        given = {"files": [DATA], "sessions": 1, "model": "GA", "profiles": ["llama_cpp@b9518", "mlx_lm@0.32.2"],
                 "settings": [], "scale": 1, "detail": "counts", "on": None, "out": None, "shard": None,
                 "resume": False}  # fmt: skip
        found = []

        def played(args, todo, folder):
            if folder is not None:
                with pytest.raises(BadInput, match="another process is running this workload"), folder.held():
                    pass
            found.append((todo, folder))
            return 7

        monkeypatch.setattr(command, "_play", played)
        assert command.run(Namespace(**given | more)) == 7
        return found[0]

    return run


def test_jobs_have_ids_only_where_they_are_stored_or_sent(begun, tmp_path):
    here, none = begun()
    assert [task.id for task in here] == [""] * 4 and none is None
    sent, none = begun(on="dask://x:1")
    assert [task.id for task in sent] == [id_of(task.job) for task in here] and none is None
    stored, folder = begun(out=str(tmp_path))
    assert stored == sent and folder.jobs == tuple(task.id for task in sent)


def test_a_part_of_the_jobs_has_a_file_of_its_own(begun, tmp_path):
    whole, _ = begun()
    assert begun(shard=Shard(2, 4)) == (whole[1:2], None)
    part, folder = begun(shard=Shard(4, 4), out=str(tmp_path))
    assert [task.job for task in part] == [whole[3].job] and len(folder.jobs) == 4
    assert folder.file.name.endswith(f"{Shard(4, 4).suffix}.jsonl")


def test_a_file_of_rules_is_not_sent_to_a_cluster(begun, monkeypatch):
    monkeypatch.setattr("cachesim.engines.rule_files.rule_file_digest", lambda name: "x" * ("b9518" in name))
    assert len(begun()[0]) == 4
    with pytest.raises(BadInput, match="workers cannot use rules from a local file"):
        begun(on="dask://x:1")
