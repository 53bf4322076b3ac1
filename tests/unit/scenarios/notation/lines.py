"""Lines of every kind, drawn as trees."""

from __future__ import annotations

from hypothesis import strategies as st

from cachesim.scenarios.notation.tree import ROLES, TASKS, Action, LineRequest, Piece, ScenarioLine
from cachesim.scenarios.notation.word_lengths import ImageSize, normal, predicted

WORDS = {"S": 40, "A": 60, "long_name": 7, "x": 1, "b": 2, "THINK": 1, "I": ImageSize(4, 2)}
SETTINGS = {"parallel": st.integers(-1, 64), "kv_unified": st.booleans(), "share": st.sampled_from((0.5, 0.25)),
            "template": st.sampled_from(("plain", "terse"))}  # fmt: skip


@st.composite
def pieces(draw, least=1, user=True):
    """A text."""
    out = []
    for _ in range(draw(st.integers(least, 4))):
        word = draw(st.sampled_from([word for word in sorted(WORDS) if word != "I" or user]))
        start = draw(st.integers(0, WORDS[word] - 1))
        stop = draw(st.integers(start + 1, WORDS[word]))
        cut = (start, stop) if word != "I" and draw(st.booleans()) else (None, None)
        out.append(Piece(word, user and draw(st.booleans()), *cut))
    return tuple(out)


@st.composite
def requests(draw, first):
    """A request that can be made."""
    chat = draw(st.lists(st.tuples(st.sampled_from(ROLES), pieces(0)), min_size=1, max_size=3).map(tuple)
                if draw(st.booleans()) else st.just(()))  # fmt: skip
    answer = draw(st.none() | pieces(user=False))
    step = LineRequest(
        () if chat else draw(pieces()), answer, None if answer else draw(st.none() | st.integers(0, 9)), chat=chat,
        cache_prompt=draw(st.booleans()), id_slot=draw(st.integers(-1, 3)), task=draw(st.sampled_from(TASKS)),
        n_keep=draw(st.integers(-1, 2)), n_discard=draw(st.integers(0, 2)),
        n_cache_reuse=draw(st.none() | st.integers(0, 2)), draft_else=draw(st.integers(0, 2)), seed=draw(st.booleans()),
        drafts=draw(st.lists(st.tuples(st.integers(2, 4), st.integers(0, 2)), max_size=2).map(tuple)),
        together=not first and draw(st.booleans()),
    )  # fmt: skip
    more = {"n_cmpl": draw(st.integers(0, 3))}
    if step.together:
        more["after"] = draw(st.integers(0, 3))
    if (length := predicted(step, WORDS)) and draw(st.booleans()):
        more["cancel_after"] = draw(st.integers(0, length - 1))
    if more["n_cmpl"] > 1 and step.answer:
        more["answers"] = (step.answer,) * draw(st.integers(0, more["n_cmpl"] - 1))
    return step._replace(**more)


@st.composite
def lines(draw):
    """Any line that can be written, canonical."""
    steps, saved = [], []
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(("ask", "ask", "ask", "save", "erase", "restart", *(["restore"] if saved else []))))
        if kind == "ask":
            steps.append(draw(requests(not steps or isinstance(steps[-1], Action))))
        elif kind == "restart":
            names = draw(st.lists(st.sampled_from(sorted(SETTINGS)), unique=True, max_size=2))
            steps.append(Action("restart", server=tuple((name, draw(SETTINGS[name])) for name in names)))
        else:
            file = draw(st.sampled_from(saved) if kind == "restore" else st.sampled_from(("f", "g2")))
            steps.append(Action(kind, draw(st.integers(0, 3)), "" if kind == "erase" else file))
            saved += [file] * (kind == "save")
    return normal(ScenarioLine(WORDS, tuple(steps)))
