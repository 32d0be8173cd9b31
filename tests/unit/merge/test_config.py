"""mergekit configs: what becomes a streaming plan, what goes to mergekit, and what is refused.

Run: .venv/bin/python -m pytest tests/unit/merge/test_config.py
"""

from pathlib import Path

import pytest

from core.errors import PlanError
from core.merge import AUTO, Member, parse_plan, preflight, read_plan

HERE = Path("/nowhere/config.yml")
CANCELLING = "merge_method: linear\nmodels:\n"
CANCELLING += "".join(f"  - {{model: {name}, parameters: {{weight: {w}}}}}\n" for name, w in (("a", 1), ("b", -1)))
TIES = "merge_method: ties\nbase_model: base\nmodels:\n  - model: a\n    parameters: {weight: 0.5, density: 0.2}\n"


def test_ties_with_its_defaults() -> None:
    plan = parse_plan(TIES + "dtype: float32\n", HERE)
    assert plan.engine == "streaming"
    assert plan.base == Path("base")
    assert plan.members == (Member(Path("a"), 0.5, 0.2),)
    assert (plan.normalize, plan.scale, plan.dtype, plan.out_dtype) == (True, 1.0, "float32", "float32")
    assert plan.warnings == ()


def test_a_models_own_parameters_come_before_the_global_ones() -> None:
    text = "merge_method: ties\nbase_model: base\nmodels:\n  - model: a\n    parameters: {weight: 2}\n  - model: b\n"
    plan = parse_plan(text + "parameters: {weight: 0.25, density: 0.5, lambda: '1e-1', normalize: false}\n", HERE)
    assert plan.members == (Member(Path("a"), 2.0, 0.5), Member(Path("b"), 0.25, 0.5))
    assert (plan.scale, plan.normalize) == (0.1, False)


def test_the_base_among_the_models_is_skipped() -> None:
    text = TIES.replace("models:\n", "models:\n  - model: base\n")
    assert [one.path for one in parse_plan(text, HERE).members] == [Path("a")]


def test_task_arithmetic_does_not_normalize_by_default_and_has_no_density() -> None:
    plan = parse_plan(TIES.replace("ties", "task_arithmetic"), HERE)
    assert plan.normalize is False
    assert plan.members[0].density == 1.0
    assert any("density" in one for one in plan.warnings)


def test_linear_counts_a_base_with_the_global_weight_as_mergekit_does() -> None:
    text = "merge_method: linear\nbase_model: base\nmodels:\n  - model: a\nparameters: {weight: 1}\n"
    plan = parse_plan(text, HERE)
    assert [one.path for one in plan.members] == [Path("a"), Path("base")]
    assert plan.normalize is True
    own = "merge_method: linear\nbase_model: base\nmodels:\n  - model: a\n    parameters: {weight: 1}\n"
    with pytest.raises(PlanError, match="base: has no weight"):
        parse_plan(own, HERE)


@pytest.mark.parametrize(
    ("tail", "out"),
    [("", AUTO), ("dtype: bfloat16\n", "bfloat16"), ("dtype: float32\nout_dtype: bfloat16\n", "bfloat16"),
     ("out_dtype: torch.float16\n", "float16")],
)  # fmt: skip
def test_the_output_dtype_follows_out_dtype_then_dtype(tail: str, out: str) -> None:
    plan = parse_plan(TIES + tail, HERE)
    assert plan.out_dtype == out
    assert bool(plan.warnings) == ("dtype: float32" not in tail)


def test_int8_mask_and_unknown_keys_are_ignored_with_a_warning() -> None:
    plan = parse_plan(TIES + "parameters: {int8_mask: true, lamda: 0.5}\ndtype: float32\nname: mine\n", HERE)
    assert plan.engine == "streaming"
    assert plan.scale == 1.0
    assert [word for word in ("int8_mask", "lamda", "name") if any(word in one for one in plan.warnings)] == [
        "int8_mask",
        "lamda",
        "name",
    ]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("merge_method: ties", "merge_method: dare_ties"), "dare_ties"),
        (("weight: 0.5", "weight: [0.1, 0.9]"), "gradient"),
        (("weight: 0.5", "weight: {value: 0.5, filter: mlp}"), "filter"),
        (("merge_method: ties", "merge_method: ties\ntokenizer_source: union"), "tokenizer_source"),
        (("merge_method: ties", "merge_method: ties\nchat_template: auto"), "chat_template"),
        (("merge_method: ties", "merge_method: ties\ndtype: float64"), "float64"),
        (("merge_method: ties", "merge_method: ties\nparameters: {rescale: true}"), "rescale"),
    ],
)
def test_what_only_mergekit_does_goes_to_mergekit(change: tuple[str, str], reason: str) -> None:
    plan = parse_plan(TIES.replace(*change), HERE)
    assert plan.engine == "mergekit"
    assert reason in plan.reason
    assert [one.path for one in plan.members] == [Path("a")]


def test_slices_go_to_mergekit() -> None:
    text = "merge_method: passthrough\nslices:\n  - sources: [{model: a, layer_range: [0, 2]}]\n"
    text += "  - sources: [{model: b, layer_range: [1, 2]}]\n"
    plan = parse_plan(text, HERE)
    assert plan.engine == "mergekit"
    assert [one.path for one in plan.members] == [Path("a"), Path("b")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("merge_method: [", "not valid YAML"),
        ("- 1", "a mapping"),
        (TIES.replace("ties", "tiess"), "Did you mean ties"),
        (TIES.replace("base_model: base\n", ""), "needs a base_model"),
        (TIES.replace("weight: 0.5, ", ""), "a: has no weight"),
        (TIES.replace("0.5", "much"), "expected a number"),
        (TIES.replace("0.5", ".inf"), "finite number"),
        (TIES.replace("0.2", "1.5"), r"density 1.5 is outside \[0, 1\]"),
        (TIES.replace("0.2", "-0.1"), "outside"),
        (TIES + "dtype: int4\n", "dtype 'int4' is not known"),
        (TIES + "parameters: {normalize: maybe}\n", "true or false"),
        (TIES + "  - model: a\n    parameters: {weight: 1}\n", "listed twice"),
        (TIES + "slices: [1]\n", "exactly one of"),
        (TIES.replace("model: a", "model: a+lora"), "LoRA"),
        (TIES.replace("  - model: a", "  - nodel: a"), "entry 1"),
        (CANCELLING, "sum to zero"),
    ],
)  # fmt: skip
def test_a_malformed_config_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(PlanError, match=message) as caught:
        parse_plan(text, HERE)
    assert str(HERE) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_paths_are_looked_up_beside_the_config_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("there/base", "here/base", "here/a"):
        (tmp_path / place).mkdir(parents=True)
    config = tmp_path / "there" / "c.yml"
    config.write_text(TIES)
    monkeypatch.chdir(tmp_path / "here")
    plan = read_plan(config)
    assert plan.base == tmp_path / "there" / "base"
    assert plan.members[0].path == tmp_path / "here" / "a"
    assert plan.yaml_text == TIES


def test_an_unreadable_config_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="cannot be read"):
        read_plan(tmp_path / "none.yml")
    (tmp_path / "bad.yml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PlanError, match="not UTF-8"):
        read_plan(tmp_path / "bad.yml")


def test_odd_yaml_is_a_plan_error_not_a_crash(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for text in (
        "merge_method: slerp\nmodels: &all\n- model: a\n  parameters: {more: *all}\n",
        f"merge_method: ties\nbase_model: {'x' * 5000}\nmodels: [{{model: loop}}]\n",
    ):
        try:
            plan = parse_plan(text, tmp_path)
        except PlanError:
            continue
        assert preflight(plan).problems
