"""Holm's correction and the verdict of a family, by hand and against its definition.

Run: .venv/bin/python -m pytest tests/unit/stats/test_family.py
"""

import json
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError, TaskError
from core.stats import Holm, compare, compare_family, holm, judge_family
from core.stats.protocols import protocol_differences
from tests.unit.stats.test_compare import Scores, pair


def test_holm_by_hand() -> None:
    # 4 · 0.01 = 0.04; 3 · 0.02 = 0.06; 2 · 0.03 = 0.06, not below the one before; 1 · 0.04 = 0.04 is raised to 0.06.
    found = holm([0.04, 0.01, 0.03, 0.02])
    assert found.adjusted == pytest.approx((0.06, 0.04, 0.06, 0.06))
    assert found.significant == (False, True, False, False)
    # The example of Holm's paper has its own steps: 0.01 · 3, 0.02 · 2, 0.04 · 1.
    assert holm([0.01, 0.02, 0.04]).significant == (True, True, True)
    assert holm([0.5, 0.9]).adjusted == (1, 1)
    assert holm([]) == Holm((), ())
    for wrong in ([1.1], [-0.1], [float("nan")]):
        with pytest.raises(InputError, match="Holm"):
            holm(wrong)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_holm_is_the_closure_of_bonferroni(p_values: list[float]) -> None:
    # A hypothesis falls where every set that contains it is refused by Bonferroni: adjusted p is the largest of
    # size · smallest p over those sets.
    everyone = range(len(p_values))
    sets = [chosen for size in range(1, len(p_values) + 1) for chosen in combinations(everyone, size)]
    closed = [max(min(1, len(one) * min(p_values[i] for i in one)) for one in sets if at in one) for at in everyone]
    assert holm(p_values).adjusted == pytest.approx(closed)


def family() -> dict[str, Scores]:
    """A merge of 57 tasks: far above the base, a little above the best single, 10 : 2 above the mean."""
    merge = {f"t{at}": [float(at < 40)] for at in range(57)}

    def rival(gained: int, lost: int) -> Scores:
        solved = [float(gained <= at < 40 or 40 <= at < 40 + lost) for at in range(57)]
        return {f"t{at}": [one] for at, one in enumerate(solved)}

    return {"merge": merge, "base": rival(30, 1), "best single": rival(4, 2), "uniform mean": rival(10, 2)}


def test_a_family_by_hand() -> None:
    found = compare_family(family(), "merge")
    base, best, mean = found.members
    assert [one.rival for one in found.members] == ["base", "best single", "uniform mean"]
    # Alone: 64/2³¹, 0.6875 and 158/4096; by Holm three times, once and twice that.
    assert (best.p_value, mean.p_value) == (pytest.approx(0.6875), pytest.approx(158 / 4096))
    assert base.p_adjusted == pytest.approx(3 * 2 * 32 / 2**31)
    assert mean.p_adjusted == pytest.approx(2 * 158 / 4096)
    assert (base.verdict, best.verdict, mean.verdict) == ("better", "unresolved", "unresolved")
    assert mean.comparison.verdict == "better"
    assert found.sentence.startswith("Over 57 tasks, merge is better than base (+50.9 pp, 29 tasks, 95 % interval +")
    assert "; not told from best single (+3.5 pp, 2 tasks, 95 % interval -" in found.sentence
    assert "(p adjusted by Holm for 3 comparisons at once; intervals are each on its own)." in found.sentence
    assert "On its own each would hold against uniform mean, but among 3 it may be chance." in found.sentence
    assert "Against best single: if the true difference is what was seen, about" in found.sentence
    json.dumps(found.as_dict(), allow_nan=False)


def test_a_family_of_one_is_its_comparison() -> None:
    a, b = pair(10, 1)
    found = judge_family({"A": compare(a, b)}, "B")
    assert (found.members[0].verdict, found.members[0].p_adjusted) == ("better", pytest.approx(24 / 2048))
    assert "Holm" not in found.sentence
    equal = judge_family({"A": compare(a, a)}, "B").sentence
    assert "not told from A (0 pp, 0 tasks" in equal
    assert "a difference of" in equal
    assert "pp would be found with 80 % power." in equal
    for empty in (lambda: judge_family({}), lambda: compare_family(family(), "soup")):
        with pytest.raises(InputError):
            empty()


def test_scenarios_count_in_the_family_too() -> None:
    a, b = pair(9, 0)
    clusters = {task: f"s{at // 3}" for at, task in enumerate(a)}
    found = compare_family({"A": a, "B": b}, "B", clusters=clusters).members[0]
    assert (found.p_value, found.verdict) == (pytest.approx(0.25), "unresolved")


def test_a_family_across_protocols_is_refused_or_says_so() -> None:
    cold, hot = {"name": "T=0.5", "temperature": 0.5, "seed": 1}, {"name": "T=0.9", "temperature": 0.9, "seed": 2}
    protocols = {"merge": hot, "base": cold, "best single": hot | {"seed": 5}, "uniform mean": hot}
    with pytest.raises(
        TaskError, match=r"base and merge were not evaluated under one protocol: temperature 0.5 against"
    ):
        compare_family(family(), "merge", protocols=protocols)
    found = compare_family(family(), "merge", protocols=protocols, across_protocols=True)
    assert "Not evaluated under one protocol, which may be what differs (base: temperature 0.5 against 0.9)." in (
        found.sentence
    )
    protocols.pop("base")
    with pytest.raises(TaskError, match="the protocol of one is not known"):
        compare_family(family(), "merge", protocols=protocols)


def test_what_makes_protocols_differ() -> None:
    own = {"name": "a", "seed": 0, "temperature": 0.5, "max_new_tokens": 32, "prompt": "x" * 90}
    assert protocol_differences(own, own | {"name": "b", "seed": 9}) == ()
    assert protocol_differences(None, None) == ()
    assert protocol_differences(own, own | {"max_new_tokens": 64, "dtype": "float32"}) == (
        "max new tokens 32 against 64",
        "dtype nothing against float32",
    )
    assert protocol_differences(own, own | {"prompt": "y"}) == (f"prompt {'x' * 37}… against y",)
