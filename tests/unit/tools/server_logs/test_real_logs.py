"""Contents of each file of ../shared/logs, read by hand, and the result of its import.

``OPEN`` marks values that cannot be known from the log: they must not be reported as exact.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cachesim.base.untrusted_files import open_lines
from cachesim.tools.server_logs.facts.log_reader import read_session
from cachesim.tools.server_logs.import_log import import_log
from cachesim.tools.server_logs.lines.recognise import engine_of_log, grammars
from tests.unit.tools.server_logs.test_import_runs import reused

LOGS = Path(__file__).parents[5] / "shared" / "logs"
OPEN = "open"                # not in the log; an assumed value is marked as a guess
LLAMA, IK, MLX = "llama_cpp", "ik_llama", "mlx_lm"

Expected = tuple[str, dict[str, Any], list[dict[str, Any]]]
EXPECTED: dict[str, Expected] = {
    "buun-2026-05-hybrid-42": (LLAMA, {"n_ctx_slot": 262144, "n_swa": 0, "similarity": 0.1}, [
        {"slot": 0, "task": 6981, "chosen": "lcp", "f_sim": 0.937, "f_keep": 0.606, "n_tokens": 3664, "lcp": 3433,
         "held": 5663, "pos_min": 5662, "full": True, "cache_n": 0, "predicted_n": OPEN}]),
    "fork-posend-24035": (LLAMA, {}, [
        {"slot": 0, "task": 986, "restored": 9676, "lcp": 11586, "cache_n": 9676, "n_tokens": OPEN}]),
    "ik-2026-06-mtp-1931": (IK, {}, [
        {"slot": 0, "task": 11266, "lcp": 2528, "held": 39936, "pos_min": 39935, "full": True, "cache_n": OPEN,
         "n_tokens": OPEN}]),
    "ik-2026-07-restore-2088": (IK, {"max": 32}, [
        {"slot": 0, "task": 3817, "lcp": 50377, "held": 51124, "restored": 50376, "cache_n": 50376,
         "created": [51378], "n_tokens": OPEN}]),
    "ik-2026-08-cap6-2226": (IK, {"max": 6}, [
        {"slot": 0, "task": 1, "cache_n": 0, "created": [3072, 6144], "n_tokens": OPEN}]),
    "llamacpp-2023-11-ctxshift-3969": (LLAMA, {}, [
        {"slot": 0, "task": None, "n_tokens": 347 + 934, "cache_n": 347, "prompt_n": 934, "end": 1634},
        {"slot": 0, "task": 205, "n_tokens": 336 + 1888, "cache_n": 336, "prompt_n": 1888,
         "shifts": [(2224, 1947)] * 3}]),
    "llamacpp-2023-12-nocache-4288": (LLAMA, {}, [
        {"slot": 0, "task": 0, "cache_n": 0, "prompt_n": 14, "n_tokens": 14, "predicted_n": 12, "end": 27}]),
    "llamacpp-2026-02-opencode-19408": (LLAMA, {"n_ctx_slot": 262144, "n_swa": 1}, [
        {"slot": 0, "task": 1010, "n_tokens": 32259, "lcp": 16274, "held": 32240, "pos_min": 32239, "cache_n": OPEN}]),
    "llamacpp-2026-09-minstep-28302": (LLAMA, {"n_ctx_slot": 131072}, [
        {"slot": 0, "task": 1288, "n_tokens": 48866, "full": True, "cache_n": 0,
         "checked": [(46260, 46260, 43667), (45752, 45752, 43667), (43726, 43726, 43667)]}]),
    "llamacpp-22746-maintainer-0618": (LLAMA, {"n_ctx_slot": 131072}, [
        {"slot": 3, "task": 720, "n_tokens": 9867, "restored": 9853, "cache_n": 9853,
         "checked": [(at, at, 9858) for at in (16324, 15812, 13329, 11878, 11366, 9852)]}]),
    "llamacpp-22929-corrm-0522": (LLAMA, {"max": 8}, [
        {"slot": 0, "task": 15927, "chosen": "lcp", "f_sim": 1.0, "f_keep": 1.0, "checked": [(60028, 60028, 60120)],
         "restored": 60029, "cache_n": 60029, "created": [60121], "n_tokens": OPEN}]),
    "llamacpp-22929-corrm-0523": (LLAMA, {}, [
        {"slot": 0, "task": 48472, "full": True, "cache_n": 0, "n_tokens": OPEN},
        {"slot": 0, "task": 48542, "prompt_n": 1756, "predicted_n": 151, "end": 79755, "n_tokens": 79755 - 151 + 1,
         "cache_n": 79605 - 1756}]),
    "llamacpp-b10078-operator-27527": (LLAMA, {}, [
        {"slot": 0, "task": 6364, "restored": 23286, "cache_n": 23286, "n_tokens": OPEN,
         "checked": [(at, at, 26946) for at in (28057, 27659, 27033, 23285)]}]),
    "llamacpp-b4384-cachermi-10958": (LLAMA, {"n_ctx_slot": 4096}, [
        {"slot": 0, "task": 613, "n_tokens": 3817, "cache_n": 3520, "prompt_n": 297}]),
    "llamacpp-b5609-infill-14059": (LLAMA, {"n_ctx_slot": 16384}, [
        {"slot": 1, "task": 169, "n_tokens": 6467, "prompt_n": 6467, "cache_n": 0, "predicted_n": 1, "end": 6467},
        {"slot": 0, "task": 174, "n_tokens": 5965, "cache_n": 0}]),
    "llamacpp-b6992-gptoss-17118": (LLAMA, {"n_ctx_slot": 131072, "n_swa": 128, "max": 8}, [
        {"slot": 0, "task": 2819, "n_tokens": 5752, "lcp": 331, "held": 1986, "pos_min": 1740, "cache_n": OPEN},
        {"slot": 1, "task": 2821, "n_tokens": 6325, "lcp": 331, "held": 1517, "pos_min": 1378, "full": True,
         "cache_n": 0},
        {"slot": 3, "task": 2817, "n_tokens": 870, "lcp": 333, "held": 1266, "full": True, "cache_n": 0,
         "spans": [(166, 805)]}]),
    "llamacpp-b8871-every8192-22275": (LLAMA, {"max": 32}, [
        {"slot": 0, "task": 0, "n_tokens": 25888, "created": [8192], "spans": [(6656, 8191)], "cache_n": 0}]),
    "llamacpp-b9479-router-21831": (
        LLAMA, {"n_slots": 1, "n_ctx_slot": 262144, "limit_mib": 8192, "max": 32, "step": 256}, [
            {"slot": 0, "task": 20, "checked": [(15, 15, 2)], "full": True, "cache_n": 0, "created": [13],
             "prompt_n": 17, "predicted_n": 47, "end": 63, "n_tokens": 63 - 47 + 1}]),
    "llamacpp-dsv4-restorefail-25452": (LLAMA, {}, [
        {"slot": 0, "lcp": 25190, "held": 25550, "n_tokens": OPEN, "cache_n": OPEN}]),
    "llamacpp-fork-granite-prefillckpt-17428": (LLAMA, {"max": 256}, [
        {"slot": 0, "task": 487, "n_tokens": 17402, "created": [4096, 6144], "cache_n": OPEN}]),
    "llamacpp-mtp-dev-am17an-6": (LLAMA, {"max": 32}, [
        {"slot": 3, "task": 94, "n_tokens": 5182, "created": [4666, 5178], "prompt_n": 1450, "predicted_n": 281,
         "end": 5462, "cache_n": 5182 - 1450}]),
    "lmstudio-0.4.5-truncate-1563": (LLAMA, {}, [
        {"slot": 0, "task": 5007, "full": True, "cache_n": 0, "n_tokens": 2124}]),
    "mlxengine-lmstudio-zero-1917": (MLX, {}, [{"slot": 0, "cache_n": 0, "n_tokens": 3968, "prompt_n": 3968}]),
    "ollama-0.33-ramlimit-18072": (LLAMA, {"limit_mib": 8192}, []),
}  # fmt: skip

AGREE = {"buun-2026-05-hybrid-42": 1, "fork-posend-24035": 1, "ik-2026-07-restore-2088": 1,
         "ik-2026-08-cap6-2226": 1, "llamacpp-2023-11-ctxshift-3969": 2, "llamacpp-2023-12-nocache-4288": 1,
         "llamacpp-2026-09-minstep-28302": 1, "llamacpp-22746-maintainer-0618": 1, "llamacpp-22929-corrm-0522": 1,
         "llamacpp-22929-corrm-0523": 2, "llamacpp-b10078-operator-27527": 1, "llamacpp-b4384-cachermi-10958": 1,
         "llamacpp-b5609-infill-14059": 2, "llamacpp-b6992-gptoss-17118": 2, "llamacpp-b8871-every8192-22275": 1,
         "llamacpp-b9479-router-21831": 1, "llamacpp-mtp-dev-am17an-6": 1,
         "lmstudio-0.4.5-truncate-1563": 1}  # fmt: skip
"""Number of requests whose reused tokens are in the log: the simulation agrees at each. Other logs: 0."""
LINES = {
    "buun-2026-05-hybrid-42": "A5663/A[:3433].B231>b1",
    "ik-2026-06-mtp-1931": "A39936/A[:2528].B1>b1",
    "ik-2026-07-restore-2088": "A50381>a744/A[:50377].B1006>b1",
    "llamacpp-2026-09-minstep-28302": "A46265[:43727].|A46265[43727:45753].|A46265[45753:46265]/A[:43667].B5199>b1",
    "llamacpp-22929-corrm-0522": "A60033>a89/A.a[:87].B2[:1].|B2[1:2]>b1",
    "llamacpp-b10078-operator-27527": "A23290/A.B4374/A.B.C398/A.B[:3656].D1>d1",
    "llamacpp-2023-11-ctxshift-3969": "A347/A.B934>b354/A[:336].C1888>c1",
    "llamacpp-2026-02-opencode-19408": "A32240/A[:16274].B15985>b1",
    "llamacpp-b4384-cachermi-10958": "A3520/A.B297>b1",
    "llamacpp-b8871-every8192-22275": "A25888[:8192].|A25888[8192:25888]>a1",
    "llamacpp-fork-granite-prefillckpt-17428": "A17402[:4096].|A17402[4096:6144].|A17402[6144:17402]>a1",
    "llamacpp-mtp-dev-am17an-6": "A3732/A.B1450>b281",
    "lmstudio-0.4.5-truncate-1563": "A2124>a1",
}
"""Reconstructed requests, read by hand. ``lmstudio``: its memory refused a removal that ours allows."""
NOT_SIMULATED = ("mlxengine-lmstudio-zero-1917", "ollama-0.33-ramlimit-18072")
"""Logs of software that is not simulated, and without a request."""

pytestmark = pytest.mark.skipif(not LOGS.exists(), reason="../shared/logs is missing")


def test_every_file_is_expected():
    assert sorted(EXPECTED) == sorted(file.stem for file in LOGS.glob("*.log"))


@pytest.mark.parametrize("name", EXPECTED)
def test_a_log_is_read_as_by_hand(name):
    engine, facts, requests = EXPECTED[name]
    file = LOGS / f"{name}.log"
    assert engine_of_log(open_lines(file)) == engine
    session = read_session(engine, grammars()[engine], open_lines(file))
    assert {name: session.facts.get(name) for name in facts} == facts
    assert len(session.requests) == len(requests)
    for one, expected in zip(session.requests, requests, strict=True):
        for field, value in expected.items():
            if value is OPEN:
                assert getattr(one, field) is None, field
            elif field in one.numbers and not one.numbers[field].is_exact:
                assert one.may_be(field, value) and one.numbers[field].low + 1 == one.numbers[field].high, field
            else:
                found = getattr(one, field)
                assert (list(found) if isinstance(value, list) else found) == value, field


@pytest.mark.long
@pytest.mark.parametrize("name", EXPECTED)
def test_the_simulation_agrees_with_the_log_and_a_run_of_its_scenario_with_the_simulation(name):
    data, text = import_log(LOGS / f"{name}.log")
    assert (data["agree"], data["differ"]) == (AGREE.get(name, 0), 0)
    assert bool(text) == (name not in NOT_SIMULATED) and data["log_requests"] == len(EXPECTED[name][2])
    assert all(one["assumed"] for one, expected in zip(data["requests"], EXPECTED[name][2], strict=bool(text))
               if expected["n_tokens"] is OPEN)  # fmt: skip
    if name in LINES:
        assert (data["line"], data["rejected"]) == (LINES[name], name.startswith("lmstudio"))
    if text:
        found = reused(text)
        rows = [row for row in data["requests"] if row["step"] >= 0]
        assert [found[row["step"]] for row in rows] == [row["simulated"] for row in rows]
