"""Writer of the notation: the canonical text of a tree, without default values and in a fixed order."""

from __future__ import annotations

from typing import Iterator, Mapping

from cachesim.scenarios.notation.flags import FLAGS, given
from cachesim.scenarios.notation.tree import Action, LineRequest, Piece, Pieces, ScenarioLine


class Lengths:
    """Writer of texts that adds the length of a word at its first use. Without lengths it writes words only."""

    def __init__(self, words: Mapping[str, int] | None = None) -> None:
        self.left = dict(words or {})

    def text(self, pieces: Pieces) -> str:
        """Return a text in notation."""
        return ".".join(self._piece(piece) for piece in pieces)

    def _piece(self, piece: Piece) -> str:
        start, stop = ("" if end is None else end for end in (piece.start, piece.stop))
        cut = f"[{start}:{stop}]" if piece.start is not None or piece.stop is not None else ""
        return f"{'|' if piece.user else ''}{piece.word}{self.left.pop(piece.word, '')}{cut}"


def spell(line: ScenarioLine) -> str:
    """Return the text of a line with canonical steps. Parsing it gives ``normal(line)``. Empty prompts cannot be
    written."""
    lengths = Lengths(line.words)
    return "/".join(f"{{{action_text(step)}}}" if isinstance(step, Action) else request_text(step, lengths)
                    for step in line.steps)  # fmt: skip


def step_text(step: LineRequest | Action) -> str:
    """Return a canonical step without lengths of words; an action without its braces."""
    return action_text(step) if isinstance(step, Action) else request_text(step, Lengths())


def prompt_text(step: LineRequest | Action) -> str:
    """Return only the words of the prompt, or the action, for a table."""
    return action_text(step) if isinstance(step, Action) else _prompt(step, Lengths())


def action_text(action: Action) -> str:
    """Return an action as it is written in braces."""
    slot = f"@{action.id_slot}" if action.id_slot >= 0 else ""
    changed = "".join(f" {name}={value}" for name, value in action.server)
    cut = f" percent={action.percent}" if action.percent < 100 else ""
    return f"{action.do}{slot} {action.file or action.scales}".strip() + cut + changed


def request_text(step: LineRequest, lengths: Lengths) -> str:
    """Return a request: its prompt, then the fields that differ from their defaults."""
    text = _prompt(step, lengths)
    if step.answer is not None:
        text += f">{lengths.text(step.answer)}"
    elif step.n_predict is not None:
        text += f">{step.n_predict}"
    if not step.cache_prompt:
        text += "!"
    if step.id_slot >= 0:
        text += f"@{step.id_slot}"
    more = " ".join(_more(step, lengths))
    return f"{text}{{{more}}}" if more else text


def _prompt(step: LineRequest, lengths: Lengths) -> str:
    messages = "+".join(f"{role[0]}:{lengths.text(text)}" for role, text in step.chat)
    return messages or lengths.text(step.prompt)


def _more(step: LineRequest, lengths: Lengths) -> Iterator[str]:
    """Yield the fields in braces."""
    texts = {name: f"{name}={FLAGS[name].write(value) if name in FLAGS else value}" for name, value in given(step)}
    drafts, _, _ = (texts.pop(name, "") for name in ("drafts", "together", "after"))
    yield from texts.values()
    if step.answers:
        yield "answers=" + "/".join(lengths.text(text) for text in step.answers)
    if drafts:
        yield drafts
    if step.together:
        yield f"together+{step.after}" if step.after else "together"
