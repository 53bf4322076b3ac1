"""Strategies of requests and conversations."""

from __future__ import annotations

from typing import Collection, Sequence

from hypothesis import reject
from hypothesis import strategies as st

from cachesim.base.errors import BadInput
from cachesim.engines.registry import engine_named
from cachesim.scenarios.notation.shrink_vector import ShrinkCase
from cachesim.scenarios.notation.tree import ScenarioLine
from cachesim.strategies.argument_checks import BadArgument, check_count, check_names, check_sizes
from cachesim.strategies.drawn_values import (
    ALPHABET,
    ClientConversation,
    ClientRequest,
    ServerSetup,
    request,
)
from cachesim.strategies.line_reduction import NUMBERS, NumberSource, canonical_line, draw_reduced, note_again
from cachesim.tools.conformance.client_history import MOST, history_from_tree
from cachesim.tools.conformance.corpus import DrawBounds, histories
from cachesim.tools.search.drawn_conversation import draw_conversation_for

LONGEST_PROMPT = 100_000             # tokens
ABILITIES = ("cache", "cancel_prompt", "cancel_answer", "burst")
"""What requests may ask for besides an answer: no reuse (``!``), a client that disconnects during the prompt or during
the answer, several requests at once."""
SERVER_STEPS = 9                     # most steps of a conversation that is drawn for a server


def requests(
    *, words: int = 4, max_words: int = 4, max_length: int = 24, near: Sequence[int] = (), max_predict: int = 1
) -> st.SearchStrategy[ClientRequest]:
    """Return a strategy of single requests, whose ``prompt`` is a tuple of tokens.

    A prompt has 1 to ``max_words`` of the first ``words`` (1 to 26) letters, each of 1 to ``max_length`` tokens; sizes
    in ``near`` and their neighbours are drawn more often. A letter has the same tokens in all requests, so that prompts
    share beginnings. ``max_predict``: most generated tokens. Raise BadArgument.
    """
    count = check_count("words", words, 1, len(ALPHABET))
    longest = check_count("max_length", max_length, 1, LONGEST_PROMPT)
    sizes = check_sizes("near", near, longest)
    beside = sorted({n + by for n in sizes for by in (-1, 0, 1)} & {*range(1, longest + 1)})
    most_words = check_count("max_words", max_words, 1, len(ALPHABET))
    most_predict = check_count("max_predict", max_predict, 1, 99)
    lengths: st.SearchStrategy[int] = st.integers(1, min(longest, 4)) | st.integers(1, longest)
    lengths = lengths | st.sampled_from(beside) if beside else lengths
    letter = st.sampled_from(ALPHABET[:count])
    pieces = st.lists(st.tuples(letter, lengths), min_size=1, max_size=most_words, unique_by=lambda piece: piece[0])
    return st.builds(_request, pieces, st.integers(1, most_predict))


def _request(pieces: list[tuple[str, int]], n_predict: int) -> ClientRequest:
    text = ".".join(f"{word}{length}" for word, length in pieces)
    return request(f"{text}>{n_predict}" if n_predict > 1 else text)


def conversations(
    server: ServerSetup | None = None, *, max_requests: int = 6, max_prompt: int | None = None,
    near: Sequence[int] = (), abilities: Collection[str] = (),
) -> st.SearchStrategy[ClientConversation]:  # fmt: skip
    """Return a strategy of conversations as clients have them: appended, edited, branched, repeated and cut prompts.

    Without ``server``: of prompts that every cache can serve. ``max_requests`` is at most 12; ``max_prompt``: longest
    prompt [tokens], 256 by default; ``near``: sizes of the cache (block, chunk, window) around which lengths cluster;
    ``abilities``: what the requests may ask for, names of ``ABILITIES``.

    With ``server``: what ``cachesim fuzz`` draws for it, at most 9 steps, with its lengths, fields, images, slot files
    and restarts. ``servers("llama_cpp").flatmap(conversations)`` draws both. Raise BadArgument.
    """
    if server is None:
        most = check_count("max_prompt", 256 if max_prompt is None else max_prompt, 2, LONGEST_PROMPT)
        bounds = DrawBounds(check_count("max_requests", max_requests, 1, MOST), most, check_sizes("near", near, most),
                            check_names("abilities", abilities, ABILITIES))  # fmt: skip
        return _histories(bounds)
    if not isinstance(server, ServerSetup):
        raise BadArgument(f"server: expected a value of servers(), found {type(server).__name__}",
                          hint="servers(...).flatmap(conversations)")  # fmt: skip
    if near or abilities:
        raise BadArgument("near and abilities are those of the server, if there is one")
    longest = check_count("max_prompt", server.drawn.most if max_prompt is None else max_prompt, 2, LONGEST_PROMPT)
    return _for_server(server, check_count("max_requests", max_requests, 1, SERVER_STEPS), longest)


@st.composite
def _histories(draw: st.DrawFn, bounds: DrawBounds) -> ClientConversation:
    numbers = draw(NUMBERS)
    history = next(histories(bounds, 1, numbers.integer()))
    try:
        found = ClientConversation(canonical_line(draw_reduced(numbers, history.shrinkable).line))
        history_from_tree(found.tree)
    except BadInput:
        reject()
    note_again(lambda: f"again: @example(conversation({found.line!r}))")
    return found


@st.composite
def _for_server(draw: st.DrawFn, server: ServerSetup, max_requests: int, max_prompt: int) -> ClientConversation:
    return draw_for_server(draw(NUMBERS), server, max_requests, max_prompt)


def draw_for_server(
    numbers: NumberSource, server: ServerSetup, max_requests: int, max_prompt: int
) -> ClientConversation:
    """Draw a conversation for a server, of at most so many steps and so many tokens in a prompt."""
    world = server.drawn._replace(most=min(server.drawn.most, max_prompt))
    drawn = draw_conversation_for(world, numbers.integer())
    line = ScenarioLine(drawn.words, drawn.asked[:max_requests])
    named = any("@" in str(value) for value in world.server.values())
    try:
        found = ClientConversation(canonical_line(draw_reduced(numbers, ShrinkCase(line)).line, fixed=named))
        found.scenario(engine_named(server.engine).line[-1], server.model, server.options)
    except BadInput:
        reject()
    return found
