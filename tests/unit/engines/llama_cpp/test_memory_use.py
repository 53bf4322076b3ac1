"""Sizes that real llama-servers printed, beside those that are computed from the model and the flags.

Logs: ../shared/logs and the threads that its README names. Start-up lines: llama-server b11549 with the models of
../shared/models. Recordings: tests/data.
"""

import json
from functools import cache
from pathlib import Path

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.llama_cpp.memory_use import (
    FORMS,
    checkpoint_bytes,
    contexts,
    draft_model,
    entry_bytes,
    use,
)
from cachesim.engines.registry import ENGINES, commits, rules_of
from cachesim.engines.shared.memory_use import MIB, MemoryQuestion
from cachesim.engines.shared.model_sizes import real_model

ROOT = Path(__file__).resolve().parents[4]
MODELS = ROOT.parent / "shared" / "models"
NEWEST = "llama_cpp@b11549"
HERE = pytest.mark.skipif(not MODELS.is_dir(), reason="the models of ../shared are missing")


def ask(model, profile=NEWEST, draft=None, **options):
    """A question about a model by name, or about a tiny model."""
    rules = rules_of(profile)
    sizes = {flag.name: flag.default for flag in FORMS.flags}
    found = {**ENGINES["llama_cpp"].manual.defaults, **sizes, **rules.defaults, **options}
    return MemoryQuestion(of(model), found, rules, draft=draft and of(draft))


@cache
def of(model):
    """Sizes of a model. A child process reads each file."""
    return real_model(str(MODELS / f"{model}.gguf") if model.startswith("tiny-") else model)


def mib(size, digits=3):
    return f"{size / MIB:.{digits}f}"


MTP = {"spec_type": "draft-mtp"}
Q8 = {"cache_type_k": "q8_0", "cache_type_v": "q8_0"}
LOGS = [
    # thread, build, model, options, tokens, cells of the window layers, printed MiB
    ("17118", "b6998", "gpt-oss-20b", {"parallel": 4}, 1103, 643, "15.078"),
    ("17118", "b6998", "gpt-oss-20b", {"parallel": 4}, 941, 642, "15.055"),
    ("17118", "b6998", "gpt-oss-20b", {"parallel": 4}, 806, 640, "15.008"),
    ("17428", "b8916", "granite-4.0-h-small", {}, 4096, None, "147.481"),
    ("17428", "b8916", "granite-4.0-h-small", {}, 6144, None, "147.481"),
    ("19408", "b8152", "qwen3-next", {}, 16038, None, "75.376"),
    ("21831", "b9473", "qwen3.5-35b-a3b", {}, 16, None, "62.813"),
    ("21831", "b9473", "qwen3.5-35b-a3b", {}, 13, None, "62.813"),
    ("22275", "b8916", "gemma-4-26b-a4b", Q8, 8192, 1536, "159.393"),
    ("22746", "b9765", "qwen3.5-27b", MTP, 9853, None, "188.302"),
    ("22929", "b9473", "qwen3.5-27b", {}, 60029, None, "149.626"),
    ("22929", "b9473", "qwen3.5-27b", {}, 60121, None, "149.626"),
    ("24035", "b9518", "qwen3.5-35b-a3b", MTP, 9676, None, "81.896"),
    ("24035", "b9518", "qwen3.5-35b-a3b", MTP, 11719, None, "85.925"),
    ("27527", "b10587", "qwen3.5-27b", MTP, 23286, None, "241.031"),
    ("27527", "b10587", "qwen3.5-27b", MTP, 27034, None, "255.743"),
    ("27527", "b10587", "qwen3.5-27b", MTP, 27660, None, "258.201"),
    ("27527", "b10587", "qwen3.5-27b", MTP, 28058, None, "259.763"),
]
"""Checkpoints in logs whose model is known. Not here: am17an/llama.cpp#6, a development branch that stored other bytes
per token; the entries in 17118, whose window cells are not printed; the logs whose model is not named."""


@pytest.mark.parametrize(("thread", "build", "model", "options", "tokens", "held", "printed"), LOGS)
def test_checkpoints_have_the_size_that_logs_print(thread, build, model, options, tokens, held, printed):
    contexts_of = contexts(ask(model, f"llama_cpp@{build}", **{"parallel": 1, **options}))
    assert mib(checkpoint_bytes(contexts_of, tokens, held)) == printed


DRAFTS = {"spec_type": "draft-mtp", "spec_draft_n_max": 3}
STARTS = [
    # model, options, draft model, printed MiB of each buffer
    ("llama", {"ctx_size": 4096, "parallel": 2}, "", "2.00"),
    ("llama", {"ctx_size": 8192}, "", "4.00"),
    ("gemma3", {"ctx_size": 4096, "parallel": 2}, "", "1.00 0.38"),
    ("gemma3", {"ctx_size": 4096, "parallel": 3, "kv_unified": True}, "", "1.00 0.19"),
    ("gemma3", {"ctx_size": 4096, "parallel": 2, "swa_full": True}, "", "1.00 1.00"),
    ("gemma3l6", {"ctx_size": 2048, "parallel": 1, "ubatch_size": 64}, "", "0.25 0.16"),
    ("mamba2", {"ctx_size": 4096, "parallel": 3}, "", "0.21"),
    ("qwen35", {"ctx_size": 4096, "parallel": 2}, "", "1.00 0.06"),
    ("qwen35mtp", {"ctx_size": 4096, "parallel": 2, **DRAFTS}, "", "1.00 0.26 0.50"),
    ("lfm2", {"ctx_size": 4096, "parallel": 2, "kv_unified": True}, "", "1.00 0.00"),
    ("lfm2swa", {"ctx_size": 4096, "parallel": 2}, "", "0.38 0.00"),
    ("falconh1", {"ctx_size": 4096, "parallel": 2}, "", "1.50 0.11"),
    ("granitehybrid", {"ctx_size": 3000, "parallel": 3}, "", "0.75 0.21"),
    ("qwen2vl", {"ctx_size": 4096, "cache_type_k": "f32", "cache_type_v": "f32"}, "", "4.00"),
    ("llama", {"ctx_size": 4096, "parallel": 1, "spec_type": "draft-simple"}, "gemma3", "2.00 1.00 0.19"),
    ("qwen35mtp", {"ctx_size": 4096, "parallel": 1, **DRAFTS, "spec_draft_n_max": 5, "cache_type_k_draft": "f32",
                   "cache_type_v_draft": "f32"}, "", "1.00 0.19 1.00"),
]  # fmt: skip
"""Lines `llama_kv_cache: size =` and `llama_memory_recurrent: size =` of b11549, in the order in which it allocates."""


@HERE
@pytest.mark.parametrize(("model", "options", "draft", "printed"), STARTS)
def test_buffers_have_the_size_that_the_server_prints_at_its_start(model, options, draft, printed):
    found = use(ask(f"tiny-{model}", draft=draft and f"tiny-{draft}", **options))
    assert " ".join(mib(part.bytes, 2) for part in found.parts if not part.host) == printed


RECORDED = sorted(file for folder in ("llama_cpp", "llama_cpp_b11549", "llama_cpp_odd")
                  for file in (ROOT / "tests/data" / folder).glob("*.json"))  # fmt: skip


def recorded(file):
    """Contexts of a recording's server, and the checkpoints and entries that it logged."""
    header = json.loads(file.read_text())
    if "profile" in header:
        return [], []                    # recorded under the name of an older rule set
    profile = commits()[header["commit"]]
    line = ENGINES["llama_cpp"].recorded.read(header["flags"])
    kind = header["model"].removesuffix(".gguf")
    types = {"cache_type_k": "f32", "cache_type_v": "f32"}
    draft = f"tiny-{line.options['model_draft']}" if line.options.get("model_draft") else None
    steps = [one for step in header["steps"] for one in (step, *step.get("steps", ()))]
    if line.options.get("spec_type", "none") != "none" and any(step["op"] == "slot" for step in steps):
        return [], []                # the draft context then still has the cells of another conversation
    return contexts(ask(kind, profile, draft, **{**line.options, **types})), [
        event for step in steps for event in step.get("events", ()) if event["ev"] == "ckpt_create"]  # fmt: skip


@HERE
def test_checkpoints_have_the_size_that_recorded_servers_logged():
    compared = 0
    for file in RECORDED:
        of_server, events = recorded(file)
        for event in events:
            held = None if of_server[0].model.states else event["pos_max"] - event["pos_min"] + 1
            assert float(mib(checkpoint_bytes(of_server, event["n_tokens"], held))) == event["mib"], (file.name, event)
            compared += 1
    assert compared > 100


@pytest.mark.parametrize(("build", "tokens", "held", "kept"), [
    ("b11549", 0, None, 0), ("b11549", 1, None, 1), ("b11549", 5, 3, 3), ("b11549", 128, None, 128),
    ("b11549", 129, None, 128), ("b11549", 900, 100, 100),
    ("b6998", 129, None, 129), ("b6998", 900, None, 768), ("b6998", 900, 100, 100),      # also cells after the window
])  # fmt: skip
def test_a_saved_window_has_the_cells_that_the_build_saves_of_those_held(build, tokens, held, kept):
    target = contexts(ask("gpt-oss-20b", f"llama_cpp@{build}", ctx_size=4096, parallel=1))[0]
    assert target.kept_cells(tokens, held) == kept


def test_a_draft_of_an_mtp_head_needs_one():
    with pytest.raises(BadInput, match="no MTP head"):
        use(ask("qwen3-next", spec_type="draft-mtp"))
    with pytest.raises(BadInput, match="draft model is missing"):
        use(ask("qwen3-next", spec_type="draft-simple"))


@pytest.mark.parametrize(("kinds", "window"), [("W", 128), ("A", 0), ("AW", 128), ("WA", 128), ("AA", 0)])
def test_an_mtp_head_has_the_window_of_its_model_if_a_layer_of_it_has_one(kinds, window):
    question = ask("gpt-oss-20b", **MTP)
    layers = {layer.kind: layer for layer in question.model.layers}
    heads = tuple(layers[kind] for kind in kinds)
    draft = draft_model(question._replace(model=question.model._replace(heads=heads)))
    assert (question.model.window, draft.layers, draft.window) == (128, heads, window)


def test_narrow_heads_are_not_quantised():
    with pytest.raises(BadInput, match="heads of 16 numbers as q8_0"):
        use(MemoryQuestion(real_model("qwen3")._replace(head=16), ask("qwen3", **Q8).options, rules_of(NEWEST)))


def test_an_unlimited_prompt_cache_counts_with_one_conversation():
    found = use(ask("qwen3-next", cache_ram=-1, ctx_checkpoints=2))
    whole = entry_bytes(contexts(ask("qwen3-next")), 262144)
    assert (found.unlimited, found.parts[-1].bytes) == ("cache_ram", whole + 2 * found.checkpoint)
    assert found.parts[-1].host and found.parts[-1].unit == "conversation"


@pytest.mark.parametrize(("model", "entry", "checkpoint"), [
    # 100 tokens: what can be rolled back is in an entry of the prompt cache only
    ("qwen3.5-27b", 163450776, 156894364), ("gpt-oss-20b", 4918240, 2459124), ("llama-3", 13109204, 13109204),
    ("glm-5.2", 9526852, 9526852),
])  # fmt: skip
def test_bytes_of_an_entry_and_of_a_checkpoint(model, entry, checkpoint):
    of_server = contexts(ask(model, ctx_size=4096, parallel=2))
    assert (entry_bytes(of_server, 100), checkpoint_bytes(of_server, 100)) == (entry, checkpoint)


@pytest.mark.parametrize("unified", [True, False])
def test_every_slot_has_windows_of_its_own_beside_compressed_rows(unified):
    found = use(ask("deepseek-v4", ctx_size=4096, parallel=2, ubatch_size=128, kv_unified=unified))
    assert (found.parts[0].name, found.parts[0].number) == ("window rows", 2 * 256)


def test_models_that_can_be_cut_have_no_checkpoints():
    assert [part.name for part in use(ask("llama-3")).parts] == ["attention rows", "prompt cache"]
    assert use(ask("gpt-oss", swa_full=True)).checkpoint == 0


CACHE = "prompt cache 1048576 * 8192 MiB"
NEVER_SHARED = "-kvu gives each of 2 slots the whole context: this memory is never shared (LC-KV-STREAMS)"


@pytest.mark.parametrize(("model", "draft", "options", "parts"), [
    # 8 K/V heads of 128 numbers, F16, in 32 layers; a quantized K row has 34 bytes for 32 numbers
    ("llama-3", None, {"parallel": 2}, ["attention rows 131072 * 4096 cells", CACHE]),
    ("llama-3", None, {"parallel": 2, "cache_type_k": "q8_0"}, ["attention rows 100352 * 4096 cells", CACHE]),
    ("llama-3", "llama-3", {"parallel": 1, "spec_type": "draft-simple", "cache_type_k_draft": "q8_0"},
     ["attention rows 131072 * 4096 cells", "draft: attention rows 100352 * 4096 cells", CACHE]),
    # each slot has a window of 128 tokens and a micro-batch of 512, in 768 cells
    ("gpt-oss-20b", None, {"parallel": 2}, [
        "attention rows 24576 * 4096 cells", "window rows 24576 * 1536 cells", "checkpoints 3147588 * 64 checkpoints",
        CACHE]),
    ("gpt-oss-20b", None, {"parallel": 2, "kv_unified": True, "cache_ram": 0, "ctx_checkpoints": 0}, [
        "attention rows 24576 * 4096 cells", "window rows 24576 * 768 cells"]),
    # three rollback planes beside the state of each slot
    ("qwen3.5-27b", None, {"parallel": 2, "spec_type": "draft-mtp", "spec_draft_n_max": 3}, [
        "attention rows 65536 * 4096 cells", "states 156893184 * 8 states", "draft: attention rows 4096 * 4096 cells",
        "checkpoints 165332184 * 64 checkpoints", CACHE]),
    # a draft model's states have no planes
    ("llama-3", "mamba-2", {"parallel": 2, "spec_type": "draft-simple", "spec_draft_n_max": 3}, [
        "attention rows 131072 * 4096 cells", "draft: states 171900928 * 2 states", CACHE]),
    ("qwen3.5-27b", None, {"parallel": 2, "spec_type": "none"}, [
        "attention rows 65536 * 4096 cells", "states 156893184 * 2 states", "checkpoints 156894364 * 64 checkpoints",
        CACHE]),
    ("deepseek-v4", None, {"parallel": 2}, [
        "window rows 44032 * 1536 cells", "compressed rows 19005440 * 2 slots", "rings 12206080 * 2 rings",
        "checkpoints 17848068 * 64 checkpoints", CACHE]),
    ("glm-5.2", None, {"parallel": 2}, ["attention rows 89856 * 4096 cells", "index rows 5376 * 4096 cells", CACHE]),
])  # fmt: skip
def test_the_parts_of_a_server_memory(model, draft, options, parts):
    found = use(ask(model, draft=draft, ctx_size=4096, **options))
    assert [f"{part.name} {part.each} * {part.number} {part.unit}" for part in found.parts] == parts
    assert [part.host for part in found.parts] == [part.name in ("checkpoints", "prompt cache") for part in found.parts]
    assert (found.chosen, found.unlimited, found.notes) == ({"ctx_size": 4096, "parallel": options["parallel"]}, "", ())


def test_rows_of_a_token_state_and_checkpoint():
    both = use(ask("gpt-oss-20b", ctx_size=4096, parallel=2, ctx_checkpoints=0))
    assert (both.token, both.window, both.state, both.checkpoint) == (24576, 24576, 0, 3147588)
    state = use(ask("qwen3.5-27b", ctx_size=4096, parallel=1))
    assert (state.token, state.window, state.state, state.checkpoint) == (65536, 0, 156893184, 156894364)
    index = use(ask("glm-5.2", ctx_size=4096, parallel=2))
    assert (index.token, index.window, index.state, index.checkpoint) == (89856 + 5376, 0, 0, 0)
    builds = ["b10809", "b11063", "b11312", "b11549"]
    pooled = [use(ask("qwen3.8-flash-next", f"llama_cpp@{build}", ctx_size=4096, parallel=1)) for build in builds]
    assert [one.token - 24576 for one in pooled] == [12 * (256 + 512), 12 * 256, 12 * 256, 12 * 512]


@pytest.mark.parametrize(("index_key", "each", "width"), [(None, 256, 256), (0, 0, 0)])
def test_compressed_rows_may_lack_an_index(index_key, each, width):
    question = ask("deepseek-v4", ctx_size=4096, parallel=1)
    layers = question.model.layers
    if index_key is not None:
        layers = tuple(layer._replace(index_key=index_key) for layer in layers)
    shape = contexts(question)[0]._replace(model=question.model._replace(layers=layers)).shape
    assert [*map(tuple, shape.rows)] == [(21, 4, 1024), (20, 128, 1024), (21, 4, each)]
    assert [*map(tuple, shape.rings)] == [(21, 8, 1024), (20, 128, 512), (21, 8, width)]


def test_the_history_of_a_state_has_numbers_of_four_bytes():
    question = ask("qwen3.5-27b", ctx_size=4096, parallel=1)
    layers = tuple(layer._replace(history=10) if layer.state else layer for layer in question.model.layers)
    found = use(question._replace(model=question.model._replace(layers=layers)))
    assert found.state == 156893184 + 40 * len(question.model.states)


def test_a_context_that_is_not_given_is_that_of_the_model():
    found = use(ask("llama-3"))
    assert found.chosen == {"ctx_size": 131072, "parallel": 4} and found.parts[0].number == 131072
    shared = use(ask("deepseek-v4", ctx_size=4096, parallel=2, kv_unified=True))
    assert shared.notes == (NEVER_SHARED,) and shared.parts[0].number == 1536 and shared.parts[1].each == 32768000
    assert shared.parts == use(ask("deepseek-v4", ctx_size=8192, parallel=2)).parts


def test_a_context_that_follows_from_the_most_of_a_slot_is_not_that_of_the_model():
    """Two slots of 300 tokens, rounded up to a multiple of 256."""
    found = use(ask("llama-3", parallel=2, kv_unified=True, kv_unified_per_slot=300))
    assert found.chosen == {"ctx_size": 768, "parallel": 2} and found.parts[0].number == 768


def test_rows_without_values_of_their_own_have_one_type():
    question = ask("llama-3", ctx_size=4096, parallel=1, cache_type_k="q8_0")
    latent = question.model._replace(layers=tuple(layer._replace(value=0) for layer in question.model.layers))
    with pytest.raises(BadInput) as bad:
        use(question._replace(model=latent))
    assert bad.value.cause == ("the server does not start: V rows of this model are part of its K rows and need their "
                               "type, not q8_0 and f16")  # fmt: skip
    alike = ask("llama-3", ctx_size=4096, parallel=1)._replace(model=latent)
    assert use(alike).token == 65536


def test_rules_of_another_engine_are_refused():
    question = ask("llama-3")._replace(rules=rules_of("mlx_lm@0.32.2"))
    with pytest.raises(BadInput, match="is not a rule set of this engine"):
        use(question)
