"""`bank show`, `select`, `plan`, `compare`: the keys, the published numbers, and what bad input says.

Run: .venv/bin/python -m pytest tests/unit/cli/test_choosing.py
"""

import json
from pathlib import Path

import pytest
import yaml

from core.cli.options import flag
from core.recipe import KNOBS
from tests.unit.cli.conftest import Shell

S3 = Path(__file__).resolve().parents[3] / "data" / "s3_card"


def test_select_gives_the_published_picks_and_weights_with_the_defaults_written_out(shell: Shell) -> None:
    found = shell("select", S3, "--lambda", 0.7, "--k", 5, "--tau", 0.02, "--json")
    assert found.code == 0
    picks, weights = found.json["picks"], found.json["weights"]
    assert {one["checkpoint"] for one in picks} == {"250", "270", "280", "290", "300"}
    published = {"250": 0.00568, "270": 0.45647, "280": 0.07901, "290": 0.00236, "300": 0.45647}
    # The softmax itself is 0.45649 and 0.07898 where 0.45647 and 0.07901 were published.
    assert weights == pytest.approx(published, abs=4e-5)
    assert found.json["effective_members"] == pytest.approx(2.612, abs=1e-3)
    keys = {"checkpoint", "order", "relevance", "max_similarity", "score", "margin", "ties"}
    assert all(keys <= set(one) for one in picks)
    assert [one["order"] for one in picks] == [1, 2, 3, 4, 5]
    assert shell("select", S3, "--json").json == found.json


def test_select_for_people_is_a_table_with_warnings_apart(shell: Shell) -> None:
    found = shell("select", S3)
    assert found.code == 0
    assert "0.4565" in found.out
    assert "effective members  2.612 of 5" in found.out
    assert "ties with 300" in found.err


def test_pins_and_bans_may_be_repeated(shell: Shell) -> None:
    words = ("--pin", "200", "--pin", "240", "--ban", "270", "--ban", "300", "--k", 3, "--similarity", "jaccard")
    picks = [one["checkpoint"] for one in shell("select", S3, *words, "--json").json["picks"]]
    assert picks[:2] == ["200", "240"]
    assert not {"270", "300"} & set(picks)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--tau", "0"], "tau (τ): expected a number, above 0; found 0.0."),
        (["--k", "12"], "K is 12, but the pool has 11 checkpoints."),
        (["--split", "nowhere"], "unknown split 'nowhere'."),
        (["--pin", "9"], "pinned checkpoint '9' is not in the bank"),
        (["--similarity", "taste"], "similarity (sim): expected one of cosine"),
        (["--lambda", "two"], "--lambda"),
        (["--lambda", "nan"], "lam (λ): expected a number"),
        (["--colour", "red"], "No such option"),
    ],
)
def test_bad_input_is_one_line_and_code_2(shell: Shell, words: list[str], says: str) -> None:
    found = shell("select", S3, *words, "--json")
    assert found.code == 2
    assert found.out == ""
    assert found.err.startswith("error: ")
    assert found.err.count("\n") == 1
    assert says in found.err


def test_a_folder_that_is_no_bank(shell: Shell, tmp_path: Path) -> None:
    for words in (("bank", "show", tmp_path), ("select", tmp_path), ("plan", tmp_path)):
        found = shell(*words)
        assert (found.code, found.out) == (2, "")
        assert "no bank here" in found.err


def test_every_knob_is_an_option_of_plan(shell: Shell) -> None:
    text = shell("plan", "--help").out
    assert all(f"{flag(one)} " in text for one in KNOBS)


def test_plan_is_the_recipes_config_alone_on_stdout(shell: Shell, tmp_path: Path) -> None:
    words = ("--density", 0.5, "--scale", 1.5, "--out-dtype", "bfloat16", "--no-normalize")
    found = shell("plan", S3, "--lambda", 0.7, *words)
    assert found.code == 0
    config = yaml.safe_load(found.out)
    assert (config["merge_method"], config["out_dtype"], config["dtype"]) == ("ties", "bfloat16", "float32")
    assert config["parameters"] == {"normalize": False, "lambda": 1.5}
    assert [one["parameters"]["density"] for one in config["models"]] == [0.5] * 5
    assert shell("plan", S3, *words, "--json").json["plan"] == found.out
    out = tmp_path / "made" / "config.yml"
    written = shell("plan", S3, *words, "--out", out)
    assert (written.code, written.out) == (0, "")
    assert out.read_text() == found.out


def test_bank_show_has_the_promised_keys(shell: Shell, tiny_bank: Path) -> None:
    found = shell("bank", "show", tiny_bank, "--json").json
    assert {"name", "base", "checkpoints", "splits", "warnings"} <= set(found)
    assert found["splits"] == {"dev": {"tasks": 4, "samples": 1}}
    first = found["checkpoints"][0]
    assert (first["id"], first["step"], first["dtype"]) == ("100", 100, "bfloat16")
    assert first["parameters"] > 1000
    assert first["path"] == str(tiny_bank / "100")
    assert "bfloat16" in shell("bank", "show", tiny_bank).out


def write_scores(path: Path, scores: list[int]) -> Path:
    path.write_text("".join(json.dumps({"task": f"t{at}", "score": one}) + "\n" for at, one in enumerate(scores)))
    return path


def test_compare_has_the_promised_keys_and_a_p_value_by_hand(shell: Shell, tmp_path: Path) -> None:
    a = write_scores(tmp_path / "a.jsonl", [0] * 6 + [1] * 3)
    b = write_scores(tmp_path / "b.jsonl", [1] * 6 + [1, 1, 0])
    found = shell("compare", a, b, "--json").json
    assert (found["n"], found["gained"], found["lost"]) == (9, [f"t{at}" for at in range(6)], ["t8"])
    assert found["difference"] == pytest.approx(5 / 9)
    # Exact McNemar: 1 of 7 discordant tasks the other way, 2 * (1 + 7) / 2**7.
    assert found["p_value"] == pytest.approx(0.125)
    assert found["verdict"] == "unresolved"
    assert {"mean_a", "mean_b", "interval", "minimum_detectable"} <= set(found)
    text = shell("compare", a, b).out
    assert "verdict             unresolved" in text


def test_compare_refuses_different_tasks(shell: Shell, tmp_path: Path) -> None:
    a, b = write_scores(tmp_path / "a.jsonl", [1, 0]), write_scores(tmp_path / "b.jsonl", [1, 0, 1])
    found = shell("compare", a, b)
    assert (found.code, found.out) == (2, "")
    assert "different tasks" in found.err
    assert shell("compare", a, tmp_path / "missing.jsonl").code == 2


def test_compare_takes_the_noise_of_a_bank_and_says_when_there_is_none(shell: Shell) -> None:
    scores = S3.parent / "rl_only" / "scores" / "dev.t05n1.jsonl"
    pair = ("compare", scores, scores, "--checkpoint-a", "260", "--checkpoint-b", "290")
    plain, noisy = shell(*pair, "--json").json, shell(*pair, "--bank", scores.parents[1], "--json").json
    assert plain["noise_half_width"] is None
    assert 0 < noisy["noise_half_width"] < 0.2
    assert plain["difference"] == noisy["difference"]
    unknown = shell(*pair, "--bank", S3)
    assert unknown.code == 2 and "run-to-run noise is unknown" in unknown.err
    assert shell(*pair, "--bank", S3, "--split", "nowhere").code == 2
    other = shell(*pair, "--bank", scores.parents[1], "--split", "test")
    assert other.code == 2 and "has 168" in other.err


def test_compare_says_when_the_protocols_differ(shell: Shell) -> None:
    scores = S3.parent / "rl_only" / "scores"
    pair = (scores / "dev.t09n8.jsonl", scores / "dev.t05n1.jsonl", "--checkpoint-a", "290", "--checkpoint-b", "290")
    text = shell("compare", *pair).out
    assert "as means over 1 against 8 samples" in text
    assert "not sampled under one protocol" in text
