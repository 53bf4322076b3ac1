"""``cachesim workload --curve``: evaluated tokens along an axis, from one run and from a run for each value."""

import json

import pytest

from cachesim.cli.main import main

DATA = "tests/workloads/data"


@pytest.fixture
def repeated(tmp_path):
    """Ten conversations, one request after the other, that all come back in the order in which they began."""
    lines = [{"blocks": [10 * n, 10 * n + 1, 10 * n + 2], "prompt": 190, "answer": 4} for n in (*range(10), *range(10))]
    file = tmp_path / "repeated.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(file)


def curve_of(capsys, *argv):
    """The first curve that a command prints as JSON."""
    assert main(["workload", *argv, "--json"]) == 0
    return json.loads(capsys.readouterr().out)["curves"][0]


def evaluated(curve):
    """Evaluated tokens by value."""
    return {point["value"]: point["evaluated"] for point in curve["points"]}


def test_one_run_and_a_run_for_each_value_agree(capsys, repeated):
    argv = (repeated, "-p", "vllm@0.33.0", "--model", "A", "--curve", "memory")
    one = curve_of(capsys, *argv)
    assert [point["from_one_run"] for point in one["points"]].count(False) == 0
    assert one["each_run_alone"] is None
    each = curve_of(capsys, *argv, "--direct", "-j", "2")
    assert {point["from_one_run"] for point in each["points"]} == {False}
    assert evaluated(one) == evaluated(each)
    assert one["unlimited"] == each["unlimited"] == evaluated(one)[one["enough"]] < evaluated(one)[32]


@pytest.mark.parametrize(("length", "refused"), [("-1", 20), ("0", 0)])
def test_a_size_that_answers_no_request_has_its_own_run(capsys, repeated, length, refused):
    """A length that the pool determines refuses the requests; without one they wait."""
    curve = curve_of(capsys, repeated, "-p", "vllm@0.33.0", "--model", "A", "--curve", "num_gpu_blocks=8,200",
                     "--set", f"max_model_len={length}")  # fmt: skip
    small, large = curve["points"]
    assert (small["answered"], small["refused"], small["from_one_run"]) == (0, refused, False)
    assert (large["answered"], large["refused"], large["from_one_run"]) == (20, 0, True)


def test_a_memory_is_converted_to_the_largest_value_that_fits(capsys, repeated):
    curve = curve_of(capsys, repeated, "-p", "vllm@0.33.0", "--model", "qwen3-32b", "--curve", "memory=1GiB,2GiB")
    assert [(point["value"], point["memory"]) for point in curve["points"]] == [(256, 2**30), (512, 2**31)]


def test_the_present_value_is_among_the_points(capsys, repeated):
    argv = ["workload", repeated, "-p", "vllm@0.33.0", "--model", "A", "--set", "num_gpu_blocks=64"]
    assert main([*argv, "--curve", "num_gpu_blocks=200"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert out.startswith("num_gpu_blocks 200 blocks: 53.7 % of the prompt tokens are evaluated, as with unlimited ")
    assert "num_gpu_blocks 64 blocks, as now: 100.0 %, 1,760 tokens more than num_gpu_blocks 200 blocks" in out


def test_a_scenario_is_a_recording_with_the_same_prompts(capsys, tmp_path):
    file = tmp_path / "case.toml"
    assert main(["export", "S40.A20>r4/S.B21>q4{together}/S.A.r.C9", "--to", "toml", "-p", "vllm@0.33.0",
                 "--model", "A", "--out", str(file)]) == 0
    assert main(["run", str(file), "--json"]) == 0
    run = json.loads(capsys.readouterr().out)["runs"][0]
    curve = curve_of(capsys, str(file), "-p", "vllm@0.33.0", "--model", "A", "--curve", "num_gpu_blocks=200")
    assert evaluated(curve) == {200: sum(request["prompt_n"] for request in run["requests"])}


def test_sessions_that_share_a_server_are_an_axis(capsys):
    curve = curve_of(capsys, DATA, "-p", "llama_cpp@b11549", "--scale", "16", "--curve", "sessions")
    assert [point["value"] for point in curve["points"]] == [1, 2]
    assert main(["workload", DATA, "--scale", "16", "--curve", "sessions"]) == 0
    assert "2 sessions at a time fit" in capsys.readouterr().out


@pytest.mark.parametrize(("argv", "told"), [
    (["--curve", "nonsense"], "llama_cpp has no option 'nonsense'"),
    (["--curve", "cache_ram="], "expected NAME or NAME=VALUE,VALUE, found 'cache_ram='"),
    (["--curve", "cache_ram=many"], "cache_ram must be an integer, not 'many'"),
    (["--curve", "swa_full"], "its values are not given (--curve swa_full=VALUE,VALUE)"),
    (["--curve", "sessions=3"], "expected 1 to 2 (the number of files), found '3'"),
    (["--curve", "memory=8GiB", "--model", "A"], "the sizes of this model's caches are not known"),
    (["--curve", "memory=1MiB"], "1MiB is less than 15.7 GiB, which the caches take with cache_ram 0"),
    (["--curve", f"cache_ram={','.join(map(str, range(65)))}"], "65 values, at most 64 are allowed"),
    (["--curve", "cache_ram", "--detail", "answers"], "--detail answers is for workloads without a curve"),
    (["--curve", "cache_ram", "--out", "lines"], "--curve does not store results"),
    (["--direct"], "--direct needs --curve"),
])  # fmt: skip
def test_an_unusable_axis_is_one_line(capsys, argv, told):
    assert main(["workload", DATA, "--scale", "16", "--model", "qwen3-next", *argv]) == 2
    err = capsys.readouterr().err
    assert told in err and len(err.splitlines()) == 1
