"""The flags that a report prints are flags that the server's command line takes, with the same meaning."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cachesim.base.errors import BadInput
from cachesim.engines.registry import ENGINES, present_name
from cachesim.judging.reproduce_command import flag_text
from cachesim.scenarios.option_checks import in_force
from cachesim.tools.run.pasted_command import read_pasted
from cachesim.tools.search.drawn_conversation import draw_conversation

EXAMPLES = pytest.mark.parametrize("examples", [10, pytest.param(25, marks=pytest.mark.long)])
STARTS = {"llama_cpp": "llama-server -m", "ik_llama": "llama-server -m", "mlx_lm": "mlx_lm.server --model",
          "vllm": "vllm serve", "sglang": "python -m sglang.launch_server --model-path"}  # fmt: skip


@EXAMPLES
@pytest.mark.parametrize("engine", STARTS)
def test_each_printed_flag_is_read_as_it_was_set(engine, examples):
    manual, profile = ENGINES[engine].manual, present_name(engine)
    default = in_force({}, profile)

    @settings(max_examples=examples)
    @given(st.integers(0, 2**32))
    def holds(seed):
        try:
            now = in_force(draw_conversation(seed, engine).scenario(profile).server, profile)
        except BadInput:                    # the drawn conversation does not fit the drawn server
            assume(False)
        for flag in manual.flags:
            text = flag_text(flag, now[flag.name], manual.open_words)
            if now[flag.name] != default[flag.name] and text.startswith("-"):
                command = read_pasted(f"{STARTS[engine]} Qwen/Qwen3-8B {text}", [profile]).command
                assert command.options[flag.name] == now[flag.name], text

    holds()
