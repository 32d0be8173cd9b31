"""95 % intervals from a stratified cluster sample: shares, norms and cosines, a tensor each and in total.

Tensors are strata, blocks the sampling units, everything is a ratio of sums over blocks and its variance that of the
jackknifed residuals (Cochran, "Sampling Techniques", ch. 6 and 11). Takes a row a block; gives arrays. A tensor that
was read whole has intervals of no width. Knows nothing about merging.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from core.preview.design import Design
from core.stats.student import t_quantile

MOST_FREEDOM = 500


class Bounds(NamedTuple):
    """Estimates with 95 % intervals, float64, all of one shape; NaN where there is nothing to estimate."""

    estimate: np.ndarray
    low: np.ndarray
    high: np.ndarray


class Both(NamedTuple):
    """The same figures of every tensor, (tensors, figures), and of all together, (figures,)."""

    tensors: Bounds
    total: Bounds


class Column(NamedTuple):
    """A figure summed over each block, float64 (n, figures)."""

    values: np.ndarray
    adjusted: np.ndarray
    """The same less what the estimated trim thresholds would have changed: what variances are taken of."""

    @property
    def trimmed(self) -> bool:
        """Whether thresholds were estimated."""
        return self.adjusted is not self.values


class Spread(NamedTuple):
    """The variance of a sum, and how many degrees of freedom its estimate has."""

    variance: np.ndarray
    freedom: np.ndarray
    """From the variance of a variance, 2σ⁴/(n−1) + excess kurtosis·σ⁴/n: few blocks that differ much count little."""


@dataclass(frozen=True, eq=False)
class Strata:
    """How the blocks of a sample lie in their tensors."""

    design: Design

    @cached_property
    def tensor(self) -> np.ndarray:
        """int64 (n,): the tensor of each block."""
        return self.design.tensor

    @cached_property
    def sampled(self) -> np.ndarray:
        """float64 (tensors, 1): elements that were read."""
        return self.sum(self.design.sizes[:, None].astype(np.float64))

    @cached_property
    def expand(self) -> np.ndarray:
        """float64 (tensors, 1): elements that each read one stands for."""
        return self.design.elements[:, None] / self.sampled

    @cached_property
    def unread(self) -> np.ndarray:
        """float64 (tensors, 1): share of each tensor that was not read, the finite population correction."""
        return np.where(self.design.exact[:, None], 0.0, 1 - 1 / self.expand)

    @cached_property
    def taken(self) -> np.ndarray:
        """float64 (tensors, 1): blocks that were read."""
        return self.design.taken[:, None].astype(np.float64)

    def sum(self, values: np.ndarray) -> np.ndarray:
        """Sums (tensors, figures) over each tensor's blocks of values (n, figures)."""
        return np.add.reduceat(values, self.design.first, axis=0)

    def spread(self, residuals: np.ndarray) -> Spread:
        """Of the sum over each tensor's sampled blocks of residuals (n, figures)."""
        n, below = self.taken, np.maximum(self.taken - 1, 1)
        squares = (residuals - (self.sum(residuals) / n)[self.tensor]) ** 2
        second = self.sum(squares) / n
        fourth = self.sum(squares**2) / n
        excess = np.divide(fourth, second**2, out=np.full_like(second, 3.0), where=second > 0) - 3
        return Spread(self.unread * second * n * n / below, 2 / (2 / below + np.maximum(excess, 0) / n))

    def combine(self, spread: Spread) -> Spread:
        """Of the total over all tensors: (figures,), with Satterthwaite's degrees of freedom."""
        parts = self.expand**2 * spread.variance
        below = (parts**2 / spread.freedom).sum(axis=0)
        total = parts.sum(axis=0)
        return Spread(total, np.divide(total**2, below, out=np.full_like(total, MOST_FREEDOM), where=below > 0))


def t_of(freedom: np.ndarray) -> np.ndarray:
    """The 97.5 % quantile of Student's t, for degrees of freedom rounded down and from 1 to MOST_FREEDOM."""
    whole = np.clip(np.nan_to_num(freedom, nan=1.0), 1, MOST_FREEDOM).astype(np.int64)
    kinds, place = np.unique(whole, return_inverse=True)
    found = np.array([t_quantile(int(one)) for one in kinds])[place]
    return np.asarray(found, dtype=np.float64).reshape(freedom.shape)


def wilson(share: np.ndarray, n: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Wilson's interval of shares at effective sample sizes n, with Student's t for z; exact 0 and 1 keep that end."""
    centre, scale = share + t * t / (2 * n), 1 + t * t / n
    room = t * np.sqrt(np.maximum(share * (1 - share), 0) / n + t * t / (4 * n * n))
    low, high = np.clip((centre - room) / scale, 0, 1), np.clip((centre + room) / scale, 0, 1)
    return np.where(share <= 0, 0.0, low), np.where(share >= 1, 1.0, high)


def shares(strata: Strata, part: Column, whole: Column, *, counted: bool = True) -> Both:
    """Shares Σ part / Σ whole within [0, 1]: Wilson's interval at the effective sample size p(1−p)/v.

    v is not below what independent elements would give (`counted`: whole counts elements). Where all that was read is
    0, or all 1, every block counts as one, since blocks may be all alike within.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return Both(_tensor_shares(strata, part, whole, counted), _total_shares(strata, part, whole, counted))


def _ratio(top: np.ndarray, bottom: np.ndarray) -> np.ndarray:
    ratio = np.where(bottom > 0, top / np.where(bottom > 0, bottom, 1), 0.0)
    return np.where(abs(ratio - 1) < 1e-12, 1.0, np.clip(ratio, 0, 1))


def _jackknifed(residuals: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Residuals as they are when the ratio is taken without the block, which has `weight` of its denominator."""
    return residuals / np.maximum(1 - weight, 0.1)


def _widened(low: np.ndarray, high: np.ndarray, share: np.ndarray, step: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """An interval that holds Student's too: the error of a threshold goes to both sides, near 0 and 1 as well."""
    return np.minimum(low, np.maximum(share - step, 0)), np.maximum(high, np.minimum(share + step, 1))


def _tensor_shares(strata: Strata, part: Column, whole: Column, counted: bool) -> Bounds:
    top, bottom = strata.sum(part.values), strata.sum(whole.values)
    share = _ratio(top, bottom)
    weight = whole.values / bottom[strata.tensor]
    spread = strata.spread(_jackknifed(part.adjusted - share[strata.tensor] * whole.adjusted, weight))
    variance = spread.variance / bottom**2
    room, unread = share * (1 - share), strata.unread
    least = unread * room / (bottom if counted else strata.sampled)
    alike = bottom**2 / strata.sum(whole.values**2) / unread
    t = t_of(np.where(room > 0, spread.freedom, alike - 1))
    low, high = wilson(share, np.where(room > 0, room / np.maximum(variance, least), alike), t)
    low, high = _widened(low, high, share, t * np.sqrt(variance)) if part.trimmed else (low, high)
    unknown, exact = bottom <= 0, unread == 0
    return Bounds(
        share,
        np.where(exact, share, np.where(unknown, 0.0, low)),
        np.where(exact, share, np.where(unknown, 1.0, high)),
    )


def _total_shares(strata: Strata, part: Column, whole: Column, counted: bool) -> Bounds:
    weight, unread = strata.expand, strata.unread
    each = strata.sum(whole.values) * weight
    bottom = each.sum(axis=0)
    share = _ratio((strata.sum(part.values) * weight).sum(axis=0), bottom)
    ours = whole.values * weight[strata.tensor] / bottom
    spread = strata.combine(strata.spread(_jackknifed(part.adjusted - share * whole.adjusted, ours)))
    room = share * (1 - share)
    per_element = each if counted else np.broadcast_to(strata.design.elements[:, None], each.shape)
    least = room * (weight * unread * per_element).sum(axis=0) / per_element.sum(axis=0) ** 2
    open_part = np.where(unread > 0, each, 0).sum(axis=0)
    alike = open_part**2 / (weight**2 * unread * strata.sum(whole.values**2)).sum(axis=0)
    t = t_of(np.where(room > 0, spread.freedom, alike - 1))
    variance = spread.variance / bottom**2
    low, high = wilson(share, np.where(room > 0, room / np.maximum(variance, least), alike), t)
    low, high = _widened(low, high, share, t * np.sqrt(variance)) if part.trimmed else (low, high)
    # What was read whole is known: only the rest can differ from an estimate of 0 or 1.
    known = open_part / bottom
    high = np.where(share <= 0, known * high, high)
    low = np.where(share >= 1, 1 - known * (1 - low), low)
    exact = np.broadcast_to(bool(strata.design.exact.all()), share.shape)
    unknown = (open_part <= 0) & ~exact
    return Bounds(
        share,
        np.where(exact, share, np.where(unknown, 0.0, low)),
        np.where(exact, share, np.where(unknown, 1.0, high)),
    )


def norms(strata: Strata, squares: Column, moved: np.ndarray, most_moved: Both) -> Both:
    """Norms √Σ squares, (n, 1): Student's t on the logarithm, since squares are skewed.

    Where all that was read is zero, the norm is at most that of as many changed elements as `most_moved` (shares of
    elements) allows, each of the mean square of all that were read; without any, no bound is known and `high` is
    infinite. `moved` float64 (n, 1) counts the changed elements of each block.
    """
    sizes, elements = strata.design.sizes[:, None], strata.design.elements[:, None].astype(np.float64)
    sums, weight = strata.sum(squares.values), strata.expand[strata.tensor]
    residuals = squares.adjusted - (sums / strata.sampled)[strata.tensor] * sizes
    whole = sums * strata.expand
    count = moved.sum()
    mean = squares.values.sum() / count if count else np.inf
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        own = np.nan_to_num(squares.values / sums[strata.tensor])
        spread = strata.spread(_jackknifed(residuals, own))
        ours = np.nan_to_num(squares.values * weight / whole.sum(axis=0))
        total = strata.combine(strata.spread(_jackknifed(residuals, ours)))
        return Both(
            _norm(whole, spread._replace(variance=strata.expand**2 * spread.variance), strata.unread,
                  elements * most_moved.tensors.high * mean),
            _norm(whole.sum(axis=0), total, strata.unread.max(axis=0), elements.sum() * most_moved.total.high * mean),
        )  # fmt: skip


def _norm(squares: np.ndarray, spread: Spread, unread: np.ndarray, most: np.ndarray) -> Bounds:
    norm, some = np.sqrt(squares), squares > 0
    factor = np.exp(t_of(spread.freedom) * np.sqrt(spread.variance) / np.where(some, squares, 1) / 2)
    high = np.where(some, norm * factor, np.where(unread > 0, np.sqrt(most), 0.0))
    return Bounds(norm, norm / factor, high)


def cosines(strata: Strata, products: np.ndarray) -> Both:
    """Cosines of all pairs of vectors, from their inner products over each block, float64 (n, vectors, vectors).

    Pairs in the order of `numpy.triu_indices`. Student's t on Fisher's z, with the linearised residuals of the ratio.
    Vectors alike (or opposite) in all that was read are bounded as a share of blocks that might not be. NaN where a
    vector is zero.
    """
    first, second = np.triu_indices(products.shape[1], 1)
    squares = np.diagonal(products, axis1=1, axis2=2)
    blocks = Pairs(products[:, first, second], squares[:, first], squares[:, second])
    sums = Pairs(*(strata.sum(part) for part in blocks))
    whole = Pairs(*((part * strata.expand).sum(axis=0) for part in sums))
    weight = strata.expand[strata.tensor]
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = strata.spread(_residuals(Pairs(*(part[strata.tensor] for part in sums)), blocks, 1.0))
        alike = np.broadcast_to(strata.taken / strata.unread, spread.variance.shape)
        tensors = _fisher(sums, spread, strata.unread / strata.sampled, alike, strata.unread)
        spread = strata.combine(strata.spread(_residuals(whole, blocks, weight)))
        parts = np.where(strata.unread > 0, strata.expand * strata.taken, 0)
        even = parts.sum() ** 2 / (strata.expand**2 * strata.taken * strata.unread).sum()
        least = strata.expand**2 * strata.unread * sums.one * sums.two / strata.sampled
        least = least.sum(axis=0) / (whole.one * whole.two)
        total = _fisher(whole, spread, least, np.full_like(spread.variance, even), strata.unread.max(axis=0))
    return Both(tensors, total)


class Pairs(NamedTuple):
    """Inner products of pairs of vectors, and the squares of both, all of one shape."""

    cross: np.ndarray
    one: np.ndarray
    two: np.ndarray

    @property
    def size(self) -> np.ndarray:
        """Product of the norms."""
        return np.sqrt(self.one * self.two)

    @property
    def cosine(self) -> np.ndarray:
        """NaN where a vector is zero."""
        return np.clip(self.cross / self.size, -1, 1)


def _residuals(sums: Pairs, blocks: Pairs, weight: np.ndarray | float) -> np.ndarray:
    """A block's residuals of cosine·size; `weight` is what each block stands for in the sums."""
    own = (blocks.one / sums.one + blocks.two / sums.two) / 2
    return _jackknifed(blocks.cross - sums.cosine * sums.size * own, weight * own)


def _fisher(sums: Pairs, spread: Spread, least: np.ndarray, alike: np.ndarray, unread: np.ndarray) -> Bounds:
    """`least` is the variance that Fisher's z has where elements are independent; sparse vectors may show none."""
    cosine = sums.cosine
    room = 1 - cosine**2
    same = room < 1e-9
    z = np.arctanh(np.where(same, 0, cosine))
    variance = np.maximum(spread.variance / (sums.size * np.where(same, 1, room)) ** 2, least)
    step = t_of(spread.freedom) * np.sqrt(variance)
    low, high = np.tanh(z - step), np.tanh(z + step)
    edge = 2 * wilson(np.zeros_like(cosine), alike, t_of(alike - 1))[1]
    low = np.where(same, np.where(cosine > 0, cosine - edge, cosine), low)
    high = np.where(same, np.where(cosine > 0, cosine, cosine + edge), high)
    unknown = np.isnan(cosine)
    low, high = np.where(unknown, -1.0, low), np.where(unknown, 1.0, high)
    return Bounds(cosine, np.where(unread == 0, cosine, low), np.where(unread == 0, cosine, high))
