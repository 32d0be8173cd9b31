"""Times MMR on 1,000 checkpoints × 10,000 tasks, K=50, similarities included, against LangChain's.

Takes nothing; prints and returns seconds. LangChain is not a dependency: its row is there only when
langchain-core is installed. Run: python -m bench.mmr_bench
"""

import time
from collections.abc import Callable
from importlib import import_module

import numpy as np

from core.recipe import SimilarityRows, mmr

CHECKPOINTS, TASKS, K, LAMBDA = 1_000, 10_000, 50, 0.7


def scores() -> np.ndarray:
    """Seeded 0/1 scores, float64, shape (checkpoints, tasks), means from 0.1 to 0.9."""
    rng = np.random.default_rng(0)
    return (rng.random((CHECKPOINTS, TASKS)) < rng.uniform(0.1, 0.9, (CHECKPOINTS, 1))).astype(np.float64)


def graded_scores() -> np.ndarray:
    """As `scores`, means of eight samples: multiples of 1/8, for which there is no shortcut."""
    rng = np.random.default_rng(1)
    means = rng.uniform(0.1, 0.9, (CHECKPOINTS, 1))
    return rng.binomial(8, means, (CHECKPOINTS, TASKS)) / 8


def ours(vectors: np.ndarray) -> None:
    """Relevances, similarities of the picks and 50 steps with their whole trace."""
    mmr(vectors.mean(axis=1), SimilarityRows(vectors, "cosine"), LAMBDA, K)


def langchain() -> Callable[[np.ndarray], None] | None:
    """LangChain's function on the same vectors, with the all-ones vector as its query; None without it."""
    try:
        theirs = import_module("langchain_core.vectorstores.utils").maximal_marginal_relevance
    except ImportError:
        return None
    return lambda vectors: theirs(np.ones(TASKS), list(vectors), lambda_mult=LAMBDA, k=K)


def best_of(function: Callable[[np.ndarray], None], vectors: np.ndarray, repeats: int = 3) -> float:
    """Seconds of the quickest of `repeats` calls."""
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        function(vectors)
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def run() -> dict[str, float | None]:
    """Seconds of each: ours on 0/1 and on graded scores, LangChain's or None where it is not installed."""
    vectors = scores()
    theirs = langchain()
    return {
        "ours, 0/1 scores": best_of(ours, vectors),
        "ours, graded scores": best_of(ours, graded_scores()),
        "langchain": best_of(theirs, vectors, 1) if theirs else None,
    }


def main() -> None:
    """Print one line for each tool."""
    print(f"MMR, {CHECKPOINTS:,} × {TASKS:,}, K={K}, similarities included")
    for name, seconds in run().items():
        print(f"  {name:20} {'not installed' if seconds is None else f'{seconds:.3f} s'}")


if __name__ == "__main__":
    main()
