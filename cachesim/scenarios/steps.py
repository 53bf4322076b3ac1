"""How does one parsed request become a Step? Shared by the file form and the one-line form."""

from __future__ import annotations

from typing import Iterator, Mapping, NamedTuple

from cachesim import limits
from cachesim.engines.base import Request
from cachesim.engines.chat import Message, Template, render
from cachesim.engines.manual import Option
from cachesim.errors import BadInput
from cachesim.scenarios.schema import Action, Step
from cachesim.scenarios.words import Piece, expand, size, user_starts, written
from cachesim.tokens import Tokens

Pieces = tuple[Piece, ...]


class Asked(NamedTuple):
    """A request as written: ``n_predict`` None = not given (1, or the length of the answer). ``cancel_after``: the
    client hangs up after so many generated tokens, 0 = in the prompt, after its first chunk. ``answers`` are those of
    the further completions. The other names are those of ``Request`` and ``Step``."""

    prompt: Pieces
    answer: Pieces | None = None
    n_predict: int | None = None
    cache_prompt: bool = True
    id_slot: int = -1
    why: str = ""
    task: str = "completion"
    n_keep: int = 0
    n_discard: int = 0
    n_cache_reuse: int | None = None
    n_cmpl: int = 1
    answers: tuple[Pieces, ...] = ()
    cancel_after: int | None = None
    drafts: tuple[tuple[int, int], ...] = ()
    draft_else: int = 0
    together: bool = False
    after: int = 0
    action: Action | None = None
    chat: tuple[tuple[str, Pieces], ...] = ()
    seed: bool = False


def make_steps(
    asked: list[Asked], words: Mapping[str, int], server: Mapping[str, Option] | None = None
) -> tuple[Step, ...]:
    """The steps of a scenario; chats go through the template that ``server`` names. Raises BadInput if the prompts, or
    the tokens to be generated, are too many together, or if the template refuses a chat. How many tokens of the prompts
    are new is seen when the scenario runs."""
    limits.PROMPT_TOKENS.check(sum(_size(one, words) for one in asked), "all prompts together")
    limits.NEW_TOKENS.check(sum(one.n_cmpl * _predicted(one, words) for one in asked), "all answers together")
    options = server or {}
    template = Template(str(options.get("template", "plain")), bool(options.get("thinking", False)))
    made: dict[str, Tokens] = {}
    return tuple(_step(one, words, template, made) for one in asked)


def _size(asked: Asked, words: Mapping[str, int]) -> int:
    return size(asked.prompt, words) + sum(size(pieces, words) for _, pieces in asked.chat)


def check_asked(asked: Asked, words: Mapping[str, int]) -> None:
    """Raise BadInput if this request alone cannot be made."""
    _size(asked, words)
    for pieces in (asked.answer or (), *asked.answers):
        if any(piece.user for piece in pieces):
            raise BadInput("a user message cannot start in an answer")
        size(pieces, words)
    length = _predicted(asked, words)
    if asked.answer is not None and asked.n_predict not in (None, length):
        raise BadInput(f"n_predict is {asked.n_predict}, but the answer has {length} tokens")
    if len(asked.answers) >= asked.n_cmpl > 0 and asked.answers:
        raise BadInput(f"answers are those of the further completions: {asked.n_cmpl - 1} with n_cmpl {asked.n_cmpl}")
    if any(size(pieces, words) != length for pieces in asked.answers):
        raise BadInput(f"every completion has {length} tokens, so must each of answers")
    if asked.cancel_after is not None and asked.cancel_after >= length:
        raise BadInput(f"cancel_after is {asked.cancel_after}, but the answer ends after {length} tokens")


def _step(asked: Asked, words: Mapping[str, int], template: Template, made: dict[str, Tokens]) -> Step:
    if asked.action is not None:
        return Step(Request(()), _action(asked.action), asked.why, asked.action)
    messages = tuple(Message(role, expand(pieces, words, made)) for role, pieces in asked.chat)
    prompt = render(messages, template) if messages else expand(asked.prompt, words, made)
    request = Request(
        prompt=prompt,
        n_predict=_predicted(asked, words),
        kind=asked.task,
        forced=None if asked.answer is None else expand(asked.answer, words, made),
        cache_prompt=asked.cache_prompt,
        id_slot=asked.id_slot,
        user_starts=user_starts(asked.prompt, words),
        n_keep=asked.n_keep or None,
        n_discard=asked.n_discard,
        n_cache_reuse=asked.n_cache_reuse,
        n_cmpl=asked.n_cmpl,
        children_forced=tuple(expand(pieces, words, made) for pieces in asked.answers),
        cancel_at=_held_at(asked.cancel_after, len(prompt)),
        draft_else=asked.draft_else,
        messages=messages,
        seed=asked.seed,
    )
    text = _text(asked, words)
    return Step(request, text, asked.why, None, asked.drafts, asked.together, asked.after)


def _held_at(generated: int | None, prompt: int) -> int | None:
    """Tokens in the slot once so many were generated: the last one is not in it. 0 = whatever the first chunk holds."""
    return None if generated is None else prompt + generated - 1 if generated else 1


def _predicted(asked: Asked, words: Mapping[str, int]) -> int:
    if asked.answer is not None:
        return size(asked.answer, words)
    return 1 if asked.n_predict is None else asked.n_predict


def _action(action: Action) -> str:
    slot = f"@{action.id_slot}" if action.id_slot >= 0 else ""
    changed = "".join(f" {name}={value}" for name, value in action.server)
    return f"{action.do}{slot} {action.file}".strip() + changed


def _text(asked: Asked, words: Mapping[str, int]) -> str:
    """The canonical notation of the request: prompt, then only what is not the default."""
    text = "+".join(_message(role, pieces, words) for role, pieces in asked.chat) or written(asked.prompt, words)
    if asked.answer is not None:
        text += f">{written(asked.answer, words)}"
    elif _predicted(asked, words) != 1:
        text += f">{asked.n_predict}"
    if not asked.cache_prompt:
        text += "!"
    text = text if asked.id_slot < 0 else f"{text}@{asked.id_slot}"
    more = " ".join(_more(asked, words))
    return f"{text}{{{more}}}" if more else text


def _message(role: str, pieces: Pieces, words: Mapping[str, int]) -> str:
    """A message in a table: the role's first letter, and its words."""
    return f"{role[0]}:{written(pieces, words)}"


def _more(asked: Asked, words: Mapping[str, int]) -> Iterator[str]:
    """What the notation has no sign for: it stands in braces (see braces.py)."""
    plain = Asked(())
    for name in ("task", "n_keep", "n_discard", "n_cache_reuse", "n_cmpl", "cancel_after", "draft_else", "seed"):
        if getattr(asked, name) != getattr(plain, name):
            yield f"{name}={getattr(asked, name)}"
    if asked.answers:
        yield "answers=" + "/".join(written(pieces, words) for pieces in asked.answers)
    if asked.drafts:
        yield "drafts=" + ",".join(f"{drafted}:{accepted}" for drafted, accepted in asked.drafts)
    if asked.together:
        yield f"together+{asked.after}" if asked.after else "together"
