"""What is a rule? One decision of an engine as a pure function, with an id, a role, a source and its life.

    @rule("LC-CKPT-NEED.TH4", Role.NEED, llama_cpp(CONTEXT, "pre_decode", "3f545be"), since="#24110 (b9509)")
    def need_th4(ask: Ask) -> Decision:
        return Decision(Need(thold, search), {"thold": thold})

The id is written once: the decorator enters it in every ``Decision`` that the function returns. Whoever looks at
decisions of any engine asks for their role, never for a part of an id.
"""

from __future__ import annotations

import ast
import inspect
import sys
from dataclasses import dataclass
from enum import StrEnum
from functools import wraps
from textwrap import dedent
from typing import Any, Callable, Mapping, NamedTuple, TypeVar

from cachesim.base.errors import BadInput, Crash, quoted

F = TypeVar("F", bound=Callable[..., Any])

RULES: dict[str, Callable[..., Any]] = {}
"""Every rule of every engine that has been imported, by id."""


class Role(StrEnum):
    """What a rule decides, in words of no engine. In brackets: what the value of such a decision is."""

    SETUP = "setup"               # a number or a habit fixed when the server starts
    PROMPT = "prompt"             # how a request is read: which slot it names, how its prompt is cut
    ADMIT = "admit"               # which waiting request begins
    ASSIGN = "assign"             # which slot serves the request
    PREEMPT = "preempt"           # which request at work is put back, to begin again later
    CONSULT = "consult"           # is the prompt cache asked, or a slot stored in it, at this moment
    STORE = "store"               # does a conversation enter the prompt cache
    PUBLISH = "publish"           # from when on others can find what a request has computed
    LOAD = "load"                 # which stored conversation is taken for a request (its number, or None)
    HAND = "hand"                 # what becomes of a stored conversation that is taken
    PREFIX = "prefix"             # how many tokens of a prompt need no evaluation
    NEED = "need"                 # must a checkpoint be searched (true where it must)
    PICK = "pick"                 # which checkpoint serves (its number, or None)
    RESUME = "resume"             # where evaluation goes on behind a checkpoint
    RESET = "reset"               # what is left where no checkpoint serves
    ENABLE = "enable"             # are checkpoints made for this request at all (true where they are)
    PLAN = "plan"                 # where a checkpoint could be made
    CREATE = "create"             # is a checkpoint made here (true where it is); because["start"]: tokens before it
    DROP = "drop"                 # which checkpoints, entries or rows leave
    REMOVE = "remove"             # may positions be removed from a memory
    FAIL = "fail"                 # what follows a refusal or a failure
    SHIFT = "shift"               # where a context is shifted, and by how much
    DRAFT = "draft"               # drafts: how long, what is saved before them, what is taken back
    READ_FILE = "read file"       # what a slot file gives back
    WRITE_FILE = "write file"     # what a slot file carries
    MEMORY = "memory"             # what a memory keeps, copies or hides
    TOLD = "told"                 # what the log names
    END = "end"                   # when a generation ends


NUMBERED = frozenset({Role.LOAD, Role.HAND, Role.PICK, Role.RESUME})
"""Roles whose value may be the number 0 of an object: nothing was decided only where it is None."""


def has_effect(role: Role, value: object) -> bool:
    """Did a decision of this role do what the role is there for? False where it declined."""
    return value is not None if role in NUMBERED else bool(value)


class Source(NamedTuple):
    """From where a rule is: a file of a public repository at a commit (or build, or release), the function in it and
    texts that lead to the statement; or a pull request. ``note`` is whatever else has to be said."""

    project: str
    path: str = ""
    where: str = ""
    commit: str = ""
    pull: int = 0
    note: str = ""

    @property
    def link(self) -> str:
        """Its address: of the file at that commit, else of the pull request, else "" """
        commit = self.commit.partition(" ")[0]
        if self.path and commit:
            tag = f"v{commit}" if "." in commit else commit
            return f"https://github.com/{self.project}/blob/{tag}/{self.path}"
        return f"https://github.com/{self.project}/pull/{self.pull}" if self.pull else ""

    def __str__(self) -> str:
        pull = f"{self.project}#{self.pull}" if self.pull else ""
        place = " ".join(filter(None, (self.path, self.where, f"({self.commit})" if self.commit else "")))
        if place and not (pull and not self.path):
            return "; ".join(filter(None, (f"{self.project} {place}".strip(), pull, self.note)))
        return "; ".join(filter(None, (" ".join(filter(None, (pull or self.project, place))), self.note)))


class About(NamedTuple):
    """What is known of a rule: its id, its role, its source, and the changes that began and ended it ("" = as far back
    as was looked, or still there)."""

    id: str
    role: Role
    source: Source
    since: str = ""
    until: str = ""

    @property
    def cited(self) -> str:
        """Source and life in one line."""
        life = f"{self.since} to {self.until}" if self.since and self.until else (
            f"since {self.since}" if self.since else f"before {self.until}" if self.until else "")
        return ", ".join(filter(None, (str(self.source), life)))


@dataclass(slots=True)
class Decision:
    """The answer of a rule. ``because`` holds the numbers looked at; the sentence is made elsewhere. ``rule`` is the id
    of the rule, entered by its decorator: the only field that is ever set on a decision already made. ``case`` names
    the kind of situation where the value alone does not tell which ones have been seen on a real server."""

    value: Any
    because: Mapping[str, Any]
    rule: str = ""
    case: str = ""


def rule(rule_id: str, role: Role, source: Source | str, since: str = "", until: str = "") -> Callable[[F], F]:
    """Register a pure function as the rule ``rule_id``. ``source`` may be a sentence for a rule of one's own. A
    function that returns a ``Decision`` is wrapped, so that the decision names the rule; one that returns a plain value
    is not.

    Raises Crash if the id belongs to another function already or the source is empty.
    """
    about = About(rule_id, role, Source("", note=source) if isinstance(source, str) else source, since, until)

    def register(fn: F) -> F:
        if rule_id in RULES and _place(RULES[rule_id]) != _place(fn):
            raise Crash(f"rule id {rule_id} is used twice")
        if not any(about.source):
            raise Crash(f"rule {rule_id} names no source")
        decides = fn.__annotations__.get("return") in ("Decision", Decision)
        named = _stamped(fn, rule_id, checked=isinstance(source, str)) if decides else fn
        named.about = about  # type: ignore[attr-defined]
        named.rule = rule_id  # type: ignore[attr-defined]
        RULES[rule_id] = named
        return named

    return register


def _stamped(fn: F, rule_id: str, checked: bool) -> F:
    """``checked``: it is a rule of one's own, which may return anything."""
    @wraps(fn)
    def decide(*args: Any) -> Decision:
        decision: Decision = fn(*args)
        if checked and not isinstance(decision, Decision):
            code = inspect.unwrap(fn).__code__
            raise BadInput(f"rule {rule_id} returned {quoted(decision)}, which is no Decision",
                           file=code.co_filename, line=code.co_firstlineno)  # fmt: skip
        decision.rule = rule_id
        return decision

    return decide  # type: ignore[return-value]


def _place(fn: Callable[..., Any]) -> tuple[str, str]:
    """Where a function is written: a module that is loaded again brings the same ones."""
    code = inspect.unwrap(fn).__code__
    return code.co_filename, code.co_qualname


def about(rule: Callable[..., Any]) -> About:
    """What is known of a rule. Raises Crash if it is no rule."""
    found = getattr(rule, "about", None)
    if not isinstance(found, About):
        raise Crash(f"{rule!r} is not a rule")
    return found


def rule_id(rule: Callable[..., Any]) -> str:
    """The id under which a function was registered. Raises Crash if it is no rule."""
    return about(rule).id


def role_of(rule_id: str) -> Role | None:
    """The role of the rule with this id, None for an id that no loaded engine has."""
    found = RULES.get(rule_id)
    return None if found is None else found.about.role       # type: ignore[attr-defined]


def rule_text(rule: Callable[..., Any]) -> str:
    """The docstring of a rule. ``python -OO`` strips it: there it is read from the source file ("" = none)."""
    if sys.flags.optimize < 2:
        return rule.__doc__ or ""
    try:
        [function] = ast.parse(dedent(inspect.getsource(rule))).body
    except OSError:                     # installed without source files
        return ""
    return ast.get_docstring(function, clean=False) or "" if isinstance(function, ast.FunctionDef) else ""
