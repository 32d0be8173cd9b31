"""The streaming engine against mergekit itself, run on the same folders in this process.

Run: .venv/bin/python -m pytest tests/golden/test_mergekit.py
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import yaml

from core.merge import parse_plan, run_merge
from tests.unit.merge import models
from tests.unit.merge.models import (
    from_bf16,
    load,
    random_tensors,
    shapes,
    ties_config,
    to_bf16,
    write_model,
    write_pool,
)

CONFIG = models.CONFIG | {
    "vocab_size": 128,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 1,
    "head_dim": 64,
}
"""Every tensor a multiple of 64 elements, as in real models. torch adds five or more members of what is left over
in another order, which depends on the width of the processor's vectors; ours is the member order everywhere."""

pytestmark = pytest.mark.golden

STEEP = [0.45647, 0.45647, 0.07901, 0.00568, 0.00236, 1e-3, 1e-4, 1e-5]


class Compared(NamedTuple):
    """Elements of two merged models, and how they differ in steps of fp32."""

    elements: int
    different: int
    largest: int


def with_mergekit(text: str, out: Path) -> dict[str, np.ndarray]:
    """mergekit's own result."""
    from mergekit.config import MergeConfiguration
    from mergekit.merge import run_merge as run_mergekit
    from mergekit.options import MergeOptions

    config = MergeConfiguration.model_validate(yaml.safe_load(text))
    run_mergekit(config, str(out), MergeOptions(quiet=True, copy_tokenizer=False, write_model_card=False))
    return load(out / "model.safetensors")


def ordered(values: np.ndarray) -> np.ndarray:
    """fp32 as integers that count representable steps; both zeros are 0."""
    bits = values.astype(np.float32).ravel().view(np.int32).astype(np.int64)
    return np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)


def compare(text: str, root: Path) -> Compared:
    """Merge with both and compare every tensor."""
    result = run_merge(parse_plan(text, root), root / "ours")
    assert result.engine == "streaming"
    ours, theirs = load(root / "ours" / "model.safetensors"), with_mergekit(text, root / "theirs")
    assert sorted(ours) == sorted(theirs)
    steps = np.concatenate([np.abs(ordered(ours[name]) - ordered(theirs[name])) for name in ours])
    return Compared(steps.size, int((steps != 0).sum()), int(steps.max()))


def agrees(found: Compared) -> None:
    """Within one fp32 step everywhere, and 99.9 % to the bit."""
    assert found.largest <= 1, found
    assert found.different <= 0.001 * found.elements, found


def distinct_pool(root: Path, members: int, dtype: str) -> tuple[Path, list[Path]]:
    """A pool in which no two |δ| of a member's tensor are equal, so that no tie can fall on a threshold.

    The base is zero, and each member has every magnitude 128 … 255 times a power of two, all exact in bf16,
    at most once a tensor.
    """
    rng = np.random.default_rng(members)
    cast = to_bf16 if dtype == "bf16" else np.float32
    found = {name: np.zeros(shape, np.float32) for name, shape in shapes(CONFIG).items()}
    folders = [write_model(root / "base", {name: cast(one) for name, one in found.items()}, CONFIG)]
    for index in range(members):
        tensors = {}
        for name, one in found.items():
            powers = np.exp2(np.arange(-(-one.size // 128)) - 40.0)
            magnitudes = np.concatenate([np.arange(128, 256) * power for power in powers])[: one.size]
            signed = rng.permutation(magnitudes) * rng.choice([-1.0, 1.0], one.size)
            tensors[name] = cast(signed.astype(np.float32).reshape(one.shape))
        folders.append(write_model(root / f"member-{index}", tensors, CONFIG))
    return folders[0], folders[1:]


def pool_of(root: Path, members: int, dtype: str = "bf16", seed: int = 0) -> tuple[Path, list[Path]]:
    """A random base and members that drifted from it."""
    return write_pool(root, members, dtype, seed=seed, config=CONFIG)


def test_left_over_elements_agree_within_the_error_of_the_sum(tmp_path: Path) -> None:
    base, folders = write_pool(tmp_path, 8, "fp32", config=models.CONFIG)  # norms of 8 and 16 elements
    text = ties_config(base, folders, STEEP)
    found = compare(text, tmp_path)
    assert found.different <= 0.005 * found.elements
    ours, theirs = load(tmp_path / "ours" / "model.safetensors"), load(tmp_path / "theirs" / "model.safetensors")
    start = load(base / "model.safetensors")
    for name, one in start.items():
        drift = max(np.abs(load(path / "model.safetensors")[name] - one).max() for path in folders)
        assert np.abs(ours[name] - theirs[name]).max() <= 8 * 2.0**-24 * (drift + np.abs(one).max())


def weights_of(kind: str, members: int) -> list[float]:
    return [1.0 / members] * members if kind == "equal" else STEEP[:members]


@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
@pytest.mark.parametrize("members", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("kind", ["equal", "steep"])
def test_ties_at_density_1(tmp_path: Path, dtype: str, members: int, kind: str) -> None:
    base, folders = pool_of(tmp_path, members, dtype, seed=members)
    agrees(compare(ties_config(base, folders, weights_of(kind, members)), tmp_path))


@pytest.mark.parametrize("density", [0.5, 0.2])
@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
@pytest.mark.parametrize(("members", "kind"), [(1, "equal"), (2, "equal"), (3, "steep"), (5, "steep"), (8, "equal")])
def test_ties_trimmed_where_no_ties_fall_on_the_threshold(
    tmp_path: Path, dtype: str, density: float, members: int, kind: str
) -> None:
    base, folders = distinct_pool(tmp_path, members, dtype)
    agrees(compare(ties_config(base, folders, weights_of(kind, members), density=density), tmp_path))


@pytest.mark.parametrize("density", [0.5, 0.2])
def test_fp32_drifts_trimmed(tmp_path: Path, density: float) -> None:
    # Random fp32 deltas hardly ever tie; a tie on a threshold would move two elements.
    base, folders = pool_of(tmp_path, 5, "fp32", seed=4)
    agrees(compare(ties_config(base, folders, STEEP[:5], density=density), tmp_path))


@pytest.mark.parametrize("density", [0.5, 0.2])
def test_bf16_drifts_trimmed_differ_only_where_magnitudes_tie(tmp_path: Path, density: float) -> None:
    base, folders = pool_of(tmp_path, 1, "bf16", seed=4)
    text = ties_config(base, folders, density=density)
    run_merge(parse_plan(text, tmp_path), tmp_path / "ours")
    ours, theirs = load(tmp_path / "ours" / "model.safetensors"), with_mergekit(text, tmp_path / "theirs")
    start, member = load(base / "model.safetensors"), load(folders[0] / "model.safetensors")
    for name in ours:
        delta = np.abs(member[name] - start[name]).ravel()
        k = max(1, int(density * delta.size))
        threshold = np.sort(delta)[::-1][k - 1]
        differs = (ours[name] != theirs[name]).ravel()
        assert (delta[differs] == threshold).all()
        kept = (ours[name] != start[name]).ravel()
        tied = np.flatnonzero(delta == threshold)
        assert kept[tied].tolist() == sorted(kept[tied], reverse=True)  # the lowest indices are kept


@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_zero_sums_elect_plus(tmp_path: Path, dtype: str) -> None:
    start = random_tensors(0, dtype, config=CONFIG)
    base = write_model(tmp_path / "base", start, CONFIG)
    up = random_tensors(1, dtype, base=start, config=CONFIG)
    down = {}
    for name, one in up.items():
        middle, high = (from_bf16(x) if dtype == "bf16" else x for x in (start[name], one))
        low = middle - (high - middle)
        down[name] = to_bf16(low) if dtype == "bf16" else low.astype(np.float32)
    folders = [write_model(tmp_path / "up", up, CONFIG), write_model(tmp_path / "down", down, CONFIG)]
    text = ties_config(base, folders, [0.5, 0.5])
    agrees(compare(text, tmp_path))
    result = run_merge(parse_plan(text, tmp_path), tmp_path / "again")
    assert result.election["zero_sum"] > result.elements // 4


@pytest.mark.parametrize(
    "extra",
    [
        "parameters: {normalize: false, lambda: 0.4}\ndtype: float32\n",
        "parameters: {lambda: 1.7}\ndtype: float32\nout_dtype: bfloat16\n",
        "dtype: float32\nout_dtype: float16\n",
    ],
)
def test_ties_with_its_other_knobs(tmp_path: Path, extra: str) -> None:
    base, folders = pool_of(tmp_path, 3, "bf16")
    agrees(compare(ties_config(base, folders, [0.6, 0.3, -0.2], extra=extra), tmp_path))


@pytest.mark.parametrize("extra", ["", "parameters: {normalize: true, lambda: 0.7}\n"])
@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_task_arithmetic(tmp_path: Path, dtype: str, extra: str) -> None:
    base, folders = pool_of(tmp_path, 5, dtype)
    text = ties_config(base, folders, STEEP[:5], method="task_arithmetic", extra=f"dtype: float32\n{extra}")
    agrees(compare(text, tmp_path))


def linear_config(folders: Sequence[Path], weights: Sequence[float], extra: str) -> str:
    lines = [f"  - model: {path}\n    parameters: {{weight: {w}}}\n" for path, w in zip(folders, weights, strict=True)]
    return "merge_method: linear\nmodels:\n" + "".join(lines) + extra + "dtype: float32\n"


@pytest.mark.parametrize("extra", ["", "parameters: {normalize: false}\n"])
@pytest.mark.parametrize("kind", ["equal", "steep"])
def test_linear_within_the_error_of_the_sum(tmp_path: Path, kind: str, extra: str) -> None:
    # mergekit fuses multiply and add here where the processor can; ours never does, so that every machine
    # gives the same bytes. Each of the sums is within half a step of Σ|w·m| per term.
    _, folders = pool_of(tmp_path, 5, "bf16")
    weights = weights_of(kind, 5)
    text = linear_config(folders, weights, extra)
    run_merge(parse_plan(text, tmp_path), tmp_path / "ours")
    ours, theirs = load(tmp_path / "ours" / "model.safetensors"), with_mergekit(text, tmp_path / "theirs")
    models = [load(one / "model.safetensors") for one in folders]
    for name in ours:
        terms = sum(w * np.abs(one[name].astype(np.float64)) for w, one in zip(weights, models, strict=True))
        assert (
            np.abs(ours[name].astype(np.float64) - theirs[name]) <= 6 * 2.0**-24 * terms / min(1, sum(weights))
        ).all()


def test_the_base_listed_among_the_models_and_global_parameters(tmp_path: Path) -> None:
    base, folders = pool_of(tmp_path, 2, "bf16")
    text = f"merge_method: ties\nbase_model: {base}\nmodels:\n"
    text += "".join(f"  - model: {path}\n" for path in [folders[0], base, folders[1]])
    agrees(compare(text + "parameters: {weight: 0.5, density: 1.0}\ndtype: float32\n", tmp_path))


def test_other_methods_run_in_mergekit_with_the_same_folder_and_report(tmp_path: Path) -> None:
    base, folders = pool_of(tmp_path, 1, "bf16")
    text = f"merge_method: slerp\nbase_model: {base}\nmodels:\n  - model: {base}\n  - model: {folders[0]}\n"
    text += "parameters: {t: [0.2, 0.8]}\ndtype: float32\n"
    plan = parse_plan(text, tmp_path)
    result = run_merge(plan, tmp_path / "ours")
    assert (plan.engine, result.engine, result.election) == ("mergekit", "mergekit", {})
    ours, theirs = load(tmp_path / "ours" / "model.safetensors"), with_mergekit(text, tmp_path / "theirs")
    assert all(np.array_equal(ours[name], theirs[name]) for name in theirs)
    assert result.rounding["changed"] > 0
    names = {path.name for path in (tmp_path / "ours").iterdir()}
    assert {"merge_report.parquet", "provenance.json", "mergekit_config.yml", "config.json", "tokenizer.json"} <= names


def test_the_merged_folder_opens_in_transformers_and_in_mergekit(tmp_path: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    base, folders = pool_of(tmp_path, 2, "bf16")
    run_merge(parse_plan(ties_config(base, folders), tmp_path), tmp_path / "ours")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "ours")
    assert model.dtype == torch.float32
    merged = load(tmp_path / "ours" / "model.safetensors")
    state = model.state_dict()
    assert all(np.array_equal(state[name].numpy(), one) for name, one in merged.items())
    assert np.array_equal(state["lm_head.weight"].numpy(), merged["model.embed_tokens.weight"])
    assert AutoTokenizer.from_pretrained(tmp_path / "ours").convert_tokens_to_ids("a") == 0
    again = with_mergekit(ties_config(base, [tmp_path / "ours"]), tmp_path / "again")
    assert sorted(again) == sorted(merged)
