"""Sentences and plain data about the settings that decided."""

from __future__ import annotations

from typing import Any, Iterator, Mapping

from cachesim.engines.capabilities import Flag, Manual, Option
from cachesim.engines.registry import engine_of
from cachesim.judging.deciding_rule import DecidingRule, FailureKind
from cachesim.judging.deciding_setting import DecidingSetting, SettingCure
from cachesim.judging.judged_run import Run
from cachesim.judging.reproduce_command import flag_text
from cachesim.scenarios.option_checks import in_force
from cachesim.scenarios.server_settings import server_options

OTHERS = 3               # further settings that are named
Data = dict[str, Any]


def settings_data(found: DecidingSetting | None, run: Run, rule: DecidingRule | None) -> Data | None:
    """Return the settings that decided as plain data, None without any. ``rule``: the rule that decided. ``leads``: the
    settings are the more likely cause: they were given, or no rule brings back as many tokens."""
    if found is None:
        return None
    manual = engine_of(run.profile).manual
    now = in_force(server_options(run.scenario), run.profile)
    given = run.scenario.server
    return {
        "what": found.what,
        "reused": found.reused,
        "reusable": found.reusable,
        "leads": _leads(found, rule),
        "cures": [_cure_data(one, manual, now, given) for one in found.cures],
        "together": None if found.together is None else _cure_data(found.together, manual, now, given),
        "tried": found.tried,
        "complete": found.complete,
        "says": list(_sentences(found, manual, now, given)),
    }


def _leads(found: DecidingSetting, rule: DecidingRule | None) -> bool:
    """True if the settings are named before a rule."""
    if rule is None or not rule.cures or rule.what is not found.what or found.best is None:
        return True
    if rule.what is FailureKind.LOSS and found.best.cache_n != rule.cures[0].cache_n:
        return found.best.cache_n > rule.cures[0].cache_n
    return found.best.trial.is_reset


def _cure_data(cure: SettingCure, manual: Manual, now: Mapping[str, Option], given: Mapping[str, Option]) -> Data:
    below = None if cure.size is None else {"value": cure.size.below, "cache_n": cure.below}
    return {
        "options": [{"name": name, "value": value, "now": now[name], "given": name in given}
                    for name, value in cure.options.items()],
        "text": options_text(cure.options, manual),
        "role": cure.trial.role,
        "rules": list(cure.trial.rules),
        "cache_n": cure.cache_n,
        "status": cure.status,
        "below": below,
        "with_rule": None if cure.with_rule is None else cure.with_rule._asdict(),
    }  # fmt: skip


def options_text(options: Mapping[str, Option], manual: Manual) -> str:
    """Return options as the server's command line has them."""
    flags = ((manual.flag(name), value) for name, value in options.items())
    return " ".join(_option_text(flag, value, manual) for flag, value in flags if flag is not None)


def _option_text(flag: Flag, value: Option, manual: Manual) -> str:
    if value == "":                      # a word that is not given
        return f"{flag.spellings[0] if flag.spellings else flag.name} unset"
    return flag_text(flag, value, manual.open_words)


def _sentences(
    found: DecidingSetting, manual: Manual, now: Mapping[str, Option], given: Mapping[str, Option]
) -> Iterator[str]:
    """Yield a sentence with the settings that decided, then one with others that help."""
    best = found.best
    if best is None:
        return
    decided = _decided(best, manual, now, given)
    with_values = f"with {options_text(best.options, manual)}"
    if best.with_rule is not None:
        with_values += f" and {best.with_rule.new} of {best.with_rule.profile}"
    parts = [one.cache_n for one in found.cures if one.options.keys() <= best.options.keys()]
    alone = max(parts, default=found.reused)
    less = f"; with one of them alone at most {alone}" if best is found.together else ""
    yield f"{decided}{with_values} {_effect(found, best)}{less}{_below(found, best)}"
    others = [one for one in found.cures if one is not best][:OTHERS]
    if others and found.what is FailureKind.LOSS:
        also = ", ".join(f"{options_text(one.options, manual)} ({one.cache_n})" for one in others)
        yield f"tokens reused with another setting alone: {also}"
    elif others:
        yield f"also answered with {', '.join(options_text(one.options, manual) for one in others)}"
    if not found.complete:
        yield "not all settings were tried"


def _decided(
    cure: SettingCure, manual: Manual, now: Mapping[str, Option], given: Mapping[str, Option]
) -> str:
    """Return the values that were given and their verdict, "" if none of them was given."""
    own = {name: now[name] for name in cure.options if name in given}
    if not own or not cure.trial.is_reset:
        return ""
    names = [options_text({name: value}, manual) for name, value in own.items()]
    names += [cure.with_rule.old] if cure.with_rule is not None else []
    together = " together" if len(names) > 1 else ""
    return f"{' and '.join(names)} decided{together}: "


def _effect(found: DecidingSetting, cure: SettingCure) -> str:
    """Return what the values do. With a larger context the server may evaluate, and so reuse, more tokens of the
    prompt."""
    if found.what is FailureKind.REFUSED:
        return "the request is answered"
    if cure.cache_n > found.reusable:
        return f"{cure.cache_n} tokens are reused"
    return f"{cure.cache_n} of {found.reusable} tokens are reused"


def _below(found: DecidingSetting, cure: SettingCure) -> str:
    """Return what the next smaller size does, "" if none was tried."""
    if cure.size is None:
        return ""
    if found.what is FailureKind.REFUSED:
        return f", with {cure.size.below} it is not"
    return f", with {cure.size.below} only {cure.below}"
