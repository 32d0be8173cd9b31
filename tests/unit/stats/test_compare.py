"""Comparisons: what they say, when they refuse, and that chance rarely makes a verdict.

Run: .venv/bin/python -m pytest tests/unit/stats/test_compare.py
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import InputError, TaskError
from core.files import jsonl_bytes
from core.stats import NoiseBand, compare, compare_files, mcnemar, noise_band, tasks_for_mcnemar

Scores = dict[str, list[float]]


def single(values: Any) -> Scores:
    """One sample a task: t0, t1 and so on."""
    return {f"t{i}": [float(v)] for i, v in enumerate(values)}


def pair(gained: int, lost: int, n: int = 57, both: int = 20) -> tuple[Scores, Scores]:
    """Two models of which the second gains and loses this many tasks."""
    a = [0] * gained + [1] * lost + [1] * both + [0] * (n - gained - lost - both)
    b = [1] * gained + [0] * lost + a[gained + lost :]
    return single(a), single(b)


def band(sd: float, tasks: int = 57) -> NoiseBand:
    """Noise with this standard deviation of the total."""
    return NoiseBand(30, sd, 2 * sd, 0.1, 20, 0.4, 0.6, tasks)


def test_a_comparison_by_hand() -> None:
    found = compare(*pair(4, 2), names=("the best single", "The merge"))
    assert (found.n, found.samples_a, found.samples_b) == (57, 1, 1)
    assert (found.mean_a, found.mean_b) == pytest.approx((22 / 57, 24 / 57))
    assert found.difference == pytest.approx(2 / 57)
    assert found.gained == ("t0", "t1", "t2", "t3")
    assert found.lost == ("t4", "t5")
    assert found.p_value == pytest.approx(44 / 64)
    assert found.test == "exact McNemar"
    assert found.p_value_by_cluster is None
    assert found.interval == pytest.approx((-3 / 57, 7 / 57), abs=1.01 / 57)
    assert found.verdict == "unresolved"
    low, high = (f"{100 * x:.1f}".removesuffix(".0") for x in found.interval)
    assert found.sentence == (
        f"The merge solves 2 more of 57 tasks than the best single (+3.5 pp, 95 % interval {low} to +{high}, exact "
        f"McNemar p = 0.69): unresolved. To detect a difference at 80 % power it would have to be at least "
        f"{100 * found.minimum_detectable:.1f} pp. If the true difference is what was seen, about "
        f"{tasks_for_mcnemar(2 / 57, 6 / 57)} tasks or at least 13 samples of each of these would settle it."
    )


def test_better_and_worse() -> None:
    a, b = pair(10, 1)
    better, worse = compare(a, b), compare(b, a)
    assert (better.verdict, worse.verdict) == ("better", "worse")
    assert better.p_value == worse.p_value == pytest.approx(2 * 12 / 2048)
    assert better.sentence.startswith("B solves 9 more of 57 tasks than A (+15.8 pp")
    assert worse.sentence.startswith("B solves 9 fewer of 57 tasks than A (-15.8 pp")
    assert better.sentence.endswith("p = 0.012): better.")


def test_five_gained_and_none_lost_is_not_enough() -> None:
    assert compare(*pair(5, 0)).verdict == "unresolved"
    assert compare(*pair(6, 0)).verdict == "better"


def test_no_discordance_is_no_certainty() -> None:
    found = compare(*pair(0, 0))
    assert (found.difference, found.p_value, found.verdict) == (0, 1, "unresolved")
    assert found.interval.low < 0 < found.interval.high
    assert found.minimum_detectable > 6 / 57
    assert found.sentence.startswith("B solves as many of 57 tasks as A (0 pp")
    for same in (single([1]), single([0, 0, 0]), {"a": [0.5, 0.25]}, {"a": [1, 0, 1], "b": [1, 1, 1]}):
        found = compare(same, same)
        assert (found.p_value, found.verdict) == (1, "unresolved")
        assert found.minimum_detectable > 0 or len(same) > 1
        json.dumps(found.as_dict(), allow_nan=False)


def test_a_difference_inside_the_noise_is_never_resolved() -> None:
    a, b = pair(10, 1)
    assert compare(a, b, noise=band(3.0)).verdict == "better"
    found = compare(a, b, noise=band(3.5))
    assert 9 < 1.96 * 2**0.5 * 3.5
    assert found.verdict == "unresolved"
    assert "Two runs of one model differ by up to 17 pp, so this is within the noise" in found.sentence
    assert found.minimum_detectable >= found.noise_half_width == pytest.approx(band(3.5).difference_half_width() / 57)


@given(st.integers(0, 20), st.integers(0, 20), st.floats(0, 8))
@settings(max_examples=60, deadline=None)
def test_noise_only_ever_withholds_a_verdict(gained: int, lost: int, sd: float) -> None:
    a, b = pair(gained, lost, both=10)
    plain, noisy = compare(a, b), compare(a, b, noise=band(sd))
    assert noisy.verdict in (plain.verdict, "unresolved")
    if abs(gained - lost) <= band(sd).difference_half_width():
        assert noisy.verdict == "unresolved"


def test_several_samples_use_a_sign_flip_test() -> None:
    # Differences of +1/2 in three tasks, none in the rest: all signs alike in 2 of 8 cases.
    a = {f"t{i}": [0, 0] for i in range(6)}
    b = a | {f"t{i}": [1, 0] for i in range(3)}
    found = compare(a, b)
    assert (found.p_value, found.test) == (pytest.approx(0.25), "exact sign-flip test over tasks")
    assert found.gained == ("t0", "t1", "t2")
    assert found.sentence.startswith("B solves 1.5 more of 6 tasks than A, as means over 2 samples (+25 pp")


def test_scenarios_count_as_one_where_tasks_have_several_samples() -> None:
    # Scenario differences 3/2, 0: of 2 signs both reach 3/2.
    a = {f"t{i}": [0, 0] for i in range(6)}
    b = a | {f"t{i}": [1, 0] for i in range(3)}
    found = compare(a, b, clusters=["x"] * 3 + ["y"] * 3)
    assert (found.p_value, found.test, found.clusters) == (1, "exact sign-flip test over scenarios", 2)
    assert found.p_value_by_cluster == found.p_value


def test_gains_in_a_few_scenarios_only_stay_unresolved() -> None:
    a, b = pair(9, 0)
    alone, together = compare(a, b), compare(a, b, clusters=[f"s{i // 3}" for i in range(57)])
    assert (alone.verdict, together.verdict) == ("better", "unresolved")
    assert together.p_value == alone.p_value == mcnemar(9, 0)
    assert together.p_value_by_cluster == pytest.approx(0.25)
    assert "over its 19 scenarios p = 0.25" in together.sentence


def test_clusters_by_name_or_in_order_are_the_same_and_lone_ones_are_none() -> None:
    a, b = pair(9, 2)
    groups = [f"s{i // 3}" for i in range(57)]
    assert compare(a, b, clusters=groups) == compare(a, b, clusters=dict(zip(a, groups, strict=True)))
    assert compare(a, b, clusters=list(a)) == compare(a, b)


def test_scores_between_0_and_1_and_uneven_samples_are_compared_by_means() -> None:
    rng = np.random.default_rng(0)
    a = {f"t{i}": rng.random(3).tolist() for i in range(40)}
    b = {f"t{i}": (0.3 + 0.7 * rng.random(5)).tolist() for i in range(40)}
    found = compare(a, b)
    assert found.test == "sampled sign-flip test over tasks"
    assert found.verdict == "better"
    assert (found.samples_a, found.samples_b) == (3, 5)
    assert compare(a, b) == found


binary = st.integers(0, 1).map(float)


@given(
    st.integers(1, 4).flatmap(
        lambda n: st.lists(
            st.tuples(st.lists(binary, min_size=n, max_size=n), st.lists(binary, min_size=1, max_size=3)), min_size=1
        )
    ),
    st.integers(1, 4),
)
@settings(max_examples=60, deadline=None)
def test_a_comparison_turned_round_is_its_mirror(rows: list[tuple[list[float], list[float]]], size: int) -> None:
    a = {f"t{i}": one for i, (one, _) in enumerate(rows)}
    b = {f"t{i}": two for i, (_, two) in enumerate(rows)}
    clusters = [f"s{i // size}" for i in range(len(rows))]
    there, back = compare(a, b, clusters=clusters), compare(b, a, clusters=clusters)
    assert there.difference == pytest.approx(-back.difference)
    assert there.p_value == pytest.approx(back.p_value)
    assert (there.gained, there.lost) == (back.lost, back.gained)
    assert 0 <= there.p_value <= 1
    assert 0 <= there.minimum_detectable <= 1
    assert there.interval.low - 1e-9 <= there.difference <= there.interval.high + 1e-9
    json.dumps(there.as_dict(), allow_nan=False)
    order = list(a)[::-1]
    shuffled = compare({t: a[t] for t in order}, b, clusters=clusters[::-1])
    assert shuffled.interval == pytest.approx(there.interval)
    assert shuffled.p_value == pytest.approx(there.p_value)


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        ({}, {}, "no tasks"),
        ({"x": [1], "y": [1]}, {"y": [1], "z": [1]}, r"1 only in A \(x\); 1 only in B \(z\)"),
        ({f"t{i}": [1] for i in range(9)}, {"t0": [1]}, "8 only in A .*and more"),
        ({"x": []}, {"x": [1]}, "A on task 'x'"),
        ({"x": [1]}, {"x": [float("nan")]}, "B on task 'x'"),
        ({"x": [1]}, {"x": [2]}, "B on task 'x'"),
    ],
)
def test_what_cannot_be_compared_is_refused(a: Scores, b: Scores, message: str) -> None:
    with pytest.raises(TaskError, match=message):
        compare(a, b)


def test_clusters_that_do_not_fit_are_refused() -> None:
    a, b = pair(1, 1)
    with pytest.raises(TaskError, match="57 tasks, found 2"):
        compare(a, b, clusters=["x", "y"])
    with pytest.raises(TaskError, match="'t1' has no scenario"):
        compare(a, b, clusters={"t0": "x"})


def rows(checkpoint: str | None, scores: Scores, size: int = 3) -> list[dict[str, Any]]:
    """Long form of these scores."""
    named = {} if checkpoint is None else {"checkpoint": checkpoint}
    return [
        named | {"task": task, "scenario": f"s{i // size}", "sample": k, "score": value}
        for i, (task, one) in enumerate(scores.items())
        for k, value in enumerate(one)
    ]


def test_files_are_aligned_by_task_and_clustered_by_scenario(tmp_path: Path) -> None:
    a, b = pair(10, 1)
    one, two = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    one.write_bytes(jsonl_bytes(rows("300", a)))
    two.write_bytes(jsonl_bytes(rows("merge", b)[::-1]))
    found = compare_files(one, two)
    groups = {task: f"s{i // 3}" for i, task in enumerate(a)}
    assert found == compare(a, b, clusters=groups, names=("300", "merge"))
    assert found.clusters == 19
    assert found.sentence.startswith("merge solves 9 more of 57 tasks than 300")


def test_one_of_several_models_in_a_file_can_be_named(tmp_path: Path) -> None:
    a, b = pair(10, 1)
    path = tmp_path / "all.jsonl"
    path.write_bytes(jsonl_bytes(rows("200", a) + rows("300", b)))
    with pytest.raises(TaskError, match=r"all\.jsonl: holds scores of 2 models \(200, 300\)"):
        compare_files(path, path)
    with pytest.raises(TaskError, match="no scores of '400'"):
        compare_files(path, path, checkpoint_a="400", checkpoint_b="300")
    assert compare_files(path, path, checkpoint_a="200", checkpoint_b="300").difference == pytest.approx(9 / 57)


def test_files_need_only_task_and_score(tmp_path: Path) -> None:
    one, two = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    one.write_bytes(jsonl_bytes([{"task": "x", "score": 1}, {"task": "y", "score": 0}]))
    two.write_bytes(jsonl_bytes([{"task": "y", "score": 1}, {"task": "x", "score": 1}]))
    found = compare_files(one, two)
    assert (found.gained, found.clusters, found.p_value_by_cluster) == (("y",), 2, None)


def test_bad_files_are_named(tmp_path: Path) -> None:
    one, two = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    one.write_bytes(jsonl_bytes(rows("a", single([1, 0, 1]))))
    two.write_bytes(jsonl_bytes(rows("b", single([1, 0]))))
    with pytest.raises(TaskError, match=r"1 only in a \(t2\)"):
        compare_files(one, two)
    two.write_bytes(jsonl_bytes([*rows("b", single([1, 0, 1])), {"checkpoint": "b", "task": "t1", "score": 1}]))
    with pytest.raises(TaskError, match=r"b\.jsonl:4: sample 0 of task 't1' is there twice \(first on line 2\)"):
        compare_files(one, two)
    with pytest.raises(InputError, match=r"c\.jsonl: cannot be read"):
        compare_files(one, tmp_path / "c.jsonl")


def test_seeds_of_one_sample_number_are_different_samples(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(jsonl_bytes([{"task": "x", "sample": 0, "seed": seed, "score": seed % 2} for seed in range(4)]))
    assert compare_files(path, path).samples_a == 4


def lone_tasks(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    p = rng.beta(0.7, 0.7, 57)[:, None]
    return (rng.random((57, 1)) < p).astype(float), (rng.random((57, 1)) < p).astype(float)


def with_scenario_effects(rng: np.random.Generator, samples: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Each model is better or worse at whole scenarios by chance, equally on average."""
    base, own = rng.uniform(0.3, 0.7, 57), np.repeat(rng.normal(0, 0.25, (2, 19)), 3, axis=1)
    one, two = ((rng.random((57, samples)) < (base + own[i])[:, None]).astype(float) for i in range(2))
    return one, two


def with_four_samples(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    return with_scenario_effects(rng, 4)


@pytest.mark.parametrize("draw", [lone_tasks, with_scenario_effects, with_four_samples])
def test_chance_makes_a_verdict_at_most_5_5_percent_of_the_time(draw: Callable[..., Any]) -> None:
    rng, verdicts, clusters = np.random.default_rng(8), 0, [f"s{i // 3}" for i in range(57)]
    for seed in range(2000):
        a, b = ({f"t{i}": row.tolist() for i, row in enumerate(one)} for one in draw(rng))
        verdicts += compare(a, b, clusters=clusters, seed=seed).verdict != "unresolved"
    assert verdicts / 2000 <= 0.055


def test_a_real_gain_is_found_and_its_direction_is_right() -> None:
    rng, found = np.random.default_rng(9), []
    for _ in range(200):
        p = rng.uniform(0.2, 0.6, 168)
        a, b = single(rng.random(168) < p), single(rng.random(168) < p + 0.25)
        found.append(compare(a, b).verdict)
    assert found.count("better") > 180
    assert "worse" not in found


TWO = {"temperature": 0.5, "samples": 1, "seed": 0}, {"temperature": 0.9, "samples": 1, "seed": 7}


def test_different_protocols_are_compared_only_when_asked_and_then_said() -> None:
    a, b = pair(10, 1)
    with pytest.raises(TaskError, match=r"the best and it were not .*: temperature 0\.5 against 0\.9\. Evaluate both"):
        compare(a, b, protocols=TWO, names=("the best", "it"))
    found = compare(a, b, protocols=TWO, across_protocols=True)
    assert found.protocol_differences == ("temperature 0.5 against 0.9",)
    assert "The two were not evaluated under one protocol (temperature 0.5 against 0.9), which may be" in found.sentence
    assert json.loads(json.dumps(found.as_dict()))["protocol_differences"] == ["temperature 0.5 against 0.9"]
    same = compare(a, b, protocols=(TWO[0], TWO[0] | {"seed": 3}))
    assert same == compare(a, b)


def test_with_scenarios_the_detectable_difference_is_what_they_can_show() -> None:
    # Nine tasks gained, in three scenarios of 19 as a whole: sums are 3 in three and 0 in sixteen.
    found = compare(*pair(9, 0), clusters=[f"s{i // 3}" for i in range(57)])
    # √(Σ(s − 9/19)²·19/18)/57 = √(22.7368·1.05556)/57 = 0.085948; t of 18 degrees: 2.10092 + 0.86205; and one task.
    assert found.minimum_detectable == pytest.approx(0.085948 * 2.96297 + 1 / 57, abs=1e-4)
    assert found.settled_by is not None
    assert found.settled_by.samples is not None
    assert found.settled_by.samples_at_least
    few = compare(*pair(9, 0), clusters=[f"s{i // 12}" for i in range(57)])
    assert (few.verdict, few.minimum_detectable) == ("unresolved", 1)


def test_what_settles_is_told_only_of_what_is_open() -> None:
    assert compare(*pair(10, 1)).settled_by is None
    assert compare(*pair(3, 3)).settled_by is None
    a, b = pair(4, 2)
    known = compare(a, b, noise=band(1.0)).settled_by
    assert known is not None
    assert not known.samples_at_least


def test_the_noise_of_a_bank_can_be_given_as_it_was_measured() -> None:
    rng = np.random.default_rng(1)
    p = rng.uniform(0, 1, 57)
    found = compare(*pair(10, 1), noise=noise_band((rng.random((20, 57)) < p).astype(float)))
    assert found.noise_half_width is not None
    assert found.verdict == ("better" if found.difference > found.noise_half_width else "unresolved")
