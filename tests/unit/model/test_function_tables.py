"""Tests that our functions are close to the real functions, and bit-identical on every machine."""

import hashlib
from fractions import Fraction

import numpy as np
import pytest

from cachesim.model import function_tables
from cachesim.model.grid import UNIT
from cachesim.model.rope import rotate, turns


def test_tables_are_near_the_functions() -> None:
    """Accuracy, not equality: library functions differ between machines, so the model has its own."""
    t = np.linspace(0, 60, 5001)
    assert (np.abs(function_tables.exp_negative(t) / np.exp(-t) - 1) < 2e-10).all()
    z = np.arange(-16384, 16385) / 1024
    assert (np.abs(function_tables.sigmoid_table() - 1 / (1 + np.exp(-z))) < 1e-10).all()
    assert (np.abs(function_tables.softplus_table() - np.log1p(np.exp(np.arange(-2048, 2049) / 128))) < 1e-9).all()
    turn, angle = turns(np.arange(-50, 4000, 13)), np.arange(-50, 4000, 13)[:, None] * 10000.0 ** (-np.arange(8) / 8)
    assert (np.abs(turn.cos[:, 0] - np.cos(angle)) < 1e-5).all()
    assert (np.abs(turn.sin[:, 0] - np.sin(angle)) < 1e-5).all()


@pytest.mark.parametrize("position", [0, 1, 255, 256, 257, 131_071, 2**31, -1, -256, -300])
def test_one_position_turns_as_it_does_among_others(position: int) -> None:
    alone, among = turns(np.array([position])), turns(np.arange(position - 2, position + 2))
    assert alone.cos.tobytes() == among.cos[2:3].tobytes() and alone.sin.tobytes() == among.sin[2:3].tobytes()


def test_tables_are_pinned() -> None:
    functions = function_tables.sigmoid_table(), function_tables.softplus_table(), function_tables.weight_table()
    all_of_them = *functions, *turns(np.arange(-9, 9))
    text = hashlib.sha256(b"".join(np.ascontiguousarray(table).tobytes() for table in all_of_them)).hexdigest()
    assert text[:16] == "c1a47b6323fa3e8a"


@pytest.mark.parametrize(("x", "place"), [(0.0, 16384), (1.0, 17408), (99.0, 32768), (-99.0, 0), (2**-11, 16385)])
def test_lookup_takes_the_nearest(x: float, place: int) -> None:
    found = function_tables.lookup(function_tables.sigmoid_table(), np.array([x / UNIT]), function_tables.SIGMOID_STEP)
    assert found[0] == function_tables.sigmoid_table()[place]


def test_softmax_weights_end_in_zero() -> None:
    assert function_tables.weight_table()[0] == function_tables.WEIGHT_ONE and function_tables.weight_table()[-1] == 0
    assert (np.diff(function_tables.weight_table()) <= 0).all()
    assert (np.rint(function_tables.weight_table()) == function_tables.weight_table()).all()


def test_rotation_by_nothing_is_nothing() -> None:
    x = np.rint(np.linspace(-9e5, 9e5, 2 * 3 * 16)).reshape(3, 2, 16)
    assert (rotate(x, turns(np.zeros(3, np.int64)), 1.0) == x).all()


def test_score_depends_on_the_distance_only_up_to_rounding() -> None:
    """Accuracy: the product of q and k rotated by the same angle is unchanged."""
    q, k = (np.rint(np.linspace(-a, 2 * a, 16) * 2**20)[None, None] for a in (1.0, 1.7))
    near, far = ((turns(np.array([p + 5])), turns(np.array([p]))) for p in (0, 3000))
    scores = [float((rotate(q, asked, 1.0) * rotate(k, held, 1.0)).sum()) for asked, held in (near, far)]
    assert abs(scores[0] / scores[1] - 1) < 1e-4


def test_the_functions_that_tables_are_made_of_are_near_their_own() -> None:
    assert function_tables.exp_negative(np.array([0.0, 1.0])).tolist()[0] == 1.0
    s = np.linspace(0, 1, 400)
    assert (np.abs(function_tables.log1p_unit(s) - np.log1p(s)) < 1e-14).all()
    cos, sin = function_tables.circle(70, Fraction(1, 70))
    angle = 2 * np.pi * np.arange(70) / 70
    assert (np.abs(cos - np.cos(angle)) < 1e-14).all() and (np.abs(sin - np.sin(angle)) < 1e-14).all()
    assert not cos.flags.writeable and not sin.flags.writeable


def test_a_decay_follows_its_rate_up_to_a_limit() -> None:
    found = function_tables.decays(0.5, 0.75)
    softplus = np.log1p(np.exp(np.arange(-2048, 2049) / 128))
    assert (np.abs(found - np.minimum(np.exp(-0.5 * softplus), 0.75)) < 1e-9).all() and not found.flags.writeable
