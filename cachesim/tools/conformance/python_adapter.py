"""An implementation as a Python object: ``complete(prompt, n_predict)``, and whatever else it has.

An ability is there if the keyword or the method is: ``complete(..., cache=)``, ``complete(..., cancel_after=)``,
``complete(..., sampling=)``, ``burst(requests)``, ``limits()``, ``reset()``. A method that raises NotImplementedError
counts as missing: so a stub says it. ``cancel_after=0`` may be missing alone. What is returned: ``help`` of ``Reply``;
a fingerprint may be an array. Every call may take ``timeout`` seconds (timeouts.py).
"""

from __future__ import annotations

from inspect import Parameter, signature
from traceback import extract_tb
from typing import Any, Callable, Mapping, Sequence

from cachesim.tools.conformance.protocol import Ask, Failed, Reply, Unsupported, counts, read_reply
from cachesim.tools.conformance.timeouts import Patience


class PythonSubject:
    """An object with a method ``complete``. Whatever it raises becomes Failed, or Unsupported."""

    def __init__(self, factory: Callable[[], Any], patience: Patience) -> None:
        patience.check()
        self.patience, self.object = patience, _call(factory)
        if not callable(getattr(self.object, "complete", None)):
            raise Failed(f"{type(self.object).__name__} has no method complete(prompt, n_predict)")
        self.keywords = _keywords(self.object.complete)

    def complete(self, ask: Ask) -> Reply:
        options = ask.options()
        missing = [name for name in options if self.keywords is not None and name not in self.keywords]
        if missing:
            raise Unsupported(f"complete() takes no {missing[0]}")
        raw = self._timed(self.object.complete, list(ask.prompt), ask.n_predict, **options)
        return read_reply(raw, ask.cancel_after is not None)

    def burst(self, asks: Sequence[Ask]) -> list[Reply]:
        sent = [{"prompt": list(ask.prompt), "n_predict": ask.n_predict, **ask.options()} for ask in asks]
        raw = self._timed(self._method("burst"), sent)
        if not isinstance(raw, Sequence) or len(raw) != len(asks):
            raise Failed(f"burst() of {len(asks)} requests must return a list of {len(asks)} replies")
        return [read_reply(one, ask.cancel_after is not None) for one, ask in zip(raw, asks, strict=True)]

    def limits(self) -> Mapping[str, int]:
        return counts("limits", self._timed(self._method("limits")))

    def reset(self) -> None:
        self._timed(self._method("reset"))

    def close(self) -> None:
        """An object is left to the garbage collector."""

    def _timed(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        with self.patience.limit():
            return _call(function, *args, **options)

    def _method(self, name: str) -> Callable[..., Any]:
        found = getattr(self.object, name, None)
        if not callable(found):
            raise Unsupported(f"no method {name}()")
        method: Callable[..., Any] = found
        return method


def _keywords(function: Callable[..., Any]) -> frozenset[str] | None:
    """The names that it takes, None if it takes any or does not say."""
    try:
        parameters = signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(one.kind is Parameter.VAR_KEYWORD for one in parameters):
        return None
    return frozenset(one.name for one in parameters)


def _call(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    try:
        return function(*args, **options)
    except NotImplementedError as error:
        raise Unsupported(str(error) or f"{getattr(function, '__name__', 'it')} is not implemented") from None
    except Exception as error:
        place = extract_tb(error.__traceback__)[-1]
        raise Failed(f"{type(error).__name__}: {error} ({place.filename}:{place.lineno})") from error
