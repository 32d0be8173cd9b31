"""What each member does to the merge of a chunk: elected signs that need it, and its part of the merged delta."""

# ruff: noqa: PLR0917 -- numba takes no keyword-only arguments

from typing import NamedTuple

import numpy as np
from numba import njit

from core.merge.kernels.layout import CHUNK, LANES, SHARES, Count

CHANGED_0, SOLO, CHANGED_2 = int(Count.CHANGED_0), int(Count.SOLO), int(Count.CHANGED_2)
UNANIMOUS, CONTESTED, ZERO_SUM = int(Count.UNANIMOUS), int(Count.CONTESTED), int(Count.ZERO_SUM)
ZERO, ONE = np.float32(0.0), np.float32(1.0)
MINUS = np.int32(16)
"""`votes` holds the count of positive votes in its lower 16 bits, of negative ones in its upper."""
LOWER = np.int32(0xFFFF)
FEW = 12
"""Members up to which summing all elements again is quicker than looking for those that need it."""


class Scratch(NamedTuple):
    """Room for one chunk; all (CHUNK,) but `x` and `lanes`."""

    total: np.ndarray
    """float32: sum of the weighted deltas, in member order."""
    sign: np.ndarray
    """float32: the elected sign, 1 or −1."""
    mixed: np.ndarray
    """float32: Σ of the agreeing, later the merged delta."""
    divisor: np.ndarray
    absolute: np.ndarray
    """float32: Σ|x|, from which a bound on the rounding error of `total` follows."""
    factor: np.ndarray
    """float32: what an agreeing weighted delta is multiplied by."""
    votes: np.ndarray
    """int32."""
    place: np.ndarray
    """int32: for whoever needs it next, as are the float32 `spare` and `other`."""
    solo: np.ndarray
    """float32: 1 where one member votes alone, else 0."""
    spare: np.ndarray
    other: np.ndarray
    low: np.ndarray
    high: np.ndarray
    """float32: a vote between the two may flip its element."""
    near: np.ndarray
    """uint8: 1 where a vote lies between the two."""
    x: np.ndarray
    """float32 (members, CHUNK): kept weighted deltas."""
    lanes: np.ndarray
    """float64 (members, SHARES, LANES)."""


@njit(cache=True, nogil=True, inline="always")
def count_election(n: int, elects: bool, s: Scratch, counts: np.ndarray) -> None:
    """Tally how many members voted on each element, and how; prepare what `count_influence` compares with.

    `solo` becomes 1 where one member is alone. A member's vote flips a contested element when, seen from the
    elected sign, it is larger than |total|: for certain above `high`, not below `low`, which leave room for the
    rounding of the sums. Where votes agree no sign can flip.
    """
    slack = np.float32((s.x.shape[0] + 2) * 2.0**-23)
    never = np.float32(np.inf)
    nobody, solo, contested, zero_sum = np.int32(0), np.int32(0), np.int32(0), np.int32(0)
    for j in range(n):
        positive, negative = s.votes[j] & LOWER, s.votes[j] >> MINUS
        voters = positive + negative
        both = (positive != 0) & (negative != 0)
        alone = voters == 1
        nobody += np.int32(voters == 0)
        solo += np.int32(alone)
        contested += np.int32(both)
        zero_sum += np.int32((voters > 0) & (s.total[j] == ZERO))
        s.solo[j] = ONE if alone else ZERO
        # 0 where a vote may flip, else infinity.
        s.high[j] = ZERO if both & elects else never
    for j in range(n):
        s.low[j] = (abs(s.total[j]) - s.absolute[j] * slack) + s.high[j]
    for j in range(n):
        s.high[j] += abs(s.total[j]) + s.absolute[j] * slack
    counts[CHANGED_0] += nobody
    counts[SOLO] += solo
    counts[CHANGED_2] += n - nobody - solo
    counts[UNANIMOUS] += n - nobody - solo - contested
    counts[CONTESTED] += contested
    counts[ZERO_SUM] += zero_sum


@njit(cache=True, nogil=True)
def elected_without(member: int, j: int, zero_plus: bool, x: np.ndarray) -> np.float32:
    """The sign elected when a member's vote on element j is left out, summed in order as the engine would.

    `x` is float32 (members, CHUNK): weighted deltas.
    """
    total = ZERO
    for i in range(x.shape[0]):
        if i != member:
            total += x[i, j]
    return ONE if total > ZERO or (total == ZERO and zero_plus) else -ONE


@njit(cache=True, nogil=True)
def sum_again(member: int, n: int, zero_plus: bool, near: np.ndarray, sign: np.ndarray, x: np.ndarray) -> int:
    """How many of the elements whose `near` (uint8) is set elect another sign than `sign` without a member."""
    flipped, eights = 0, near.view(np.uint64)
    for k in range(0, eights.size, 4):
        if eights[k] | eights[k + 1] | eights[k + 2] | eights[k + 3]:
            for eight in range(k, k + 4):
                if eights[eight]:
                    for j in range(8 * eight, min(8 * eight + 8, n)):
                        if near[j] and elected_without(member, j, zero_plus, x) != sign[j]:
                            flipped += 1
    return flipped


@njit(cache=True, nogil=True)
def sum_others(member: int, n: int, x: np.ndarray, total: np.ndarray) -> None:
    """Put in `total` each element's sum over all members but one, in order."""
    for j in range(n):
        total[j] = ZERO
    for i in range(x.shape[0]):
        if i != member:
            row = x[i]
            for j in range(n):
                total[j] += row[j]


@njit(cache=True, nogil=True, inline="always")
def fold(values: np.ndarray) -> None:
    """Add the upper half of a chunk's values to its lower half, until LANES are left."""
    width = CHUNK // 2
    while width >= LANES:
        for j in range(width):
            values[j] += values[width + j]
        width //= 2


@njit(cache=True, nogil=True, inline="always")
def count_influence(n: int, elects: bool, zero_plus: bool, s: Scratch, flips: np.ndarray) -> None:
    """Count each member's flips; add its agreeing |weighted delta| × factor to its lanes, and again where it is alone.

    A chunk's values are folded to LANES in fp32; those of all chunks add up in float64.
    """
    part, alone = s.spare, s.other
    never = np.float32(np.nan)
    for i in range(s.x.shape[0]):
        x = s.x[i]
        if n < CHUNK:
            part[:] = ZERO
            alone[:] = ZERO
        surely, maybe = np.int32(0), np.int32(0)
        # Loops over few arrays each: with more the compiler does not vectorise.
        for j in range(n):
            part[j] = x[j] * s.sign[j]
        for j in range(n):
            surely += np.int32(part[j] > s.high[j])
            maybe += np.int32(part[j] >= s.low[j])
        if maybe != surely and s.x.shape[0] <= FEW:
            sum_others(i, n, s.x, alone)
            flipped = np.int32(0)
            for j in range(n):
                elected = ONE if (alone[j] > ZERO) | ((alone[j] == ZERO) & zero_plus) else -ONE
                alone[j] = part[j] if elected != s.sign[j] else never
            for j in range(n):
                flipped += np.int32((alone[j] >= s.low[j]) & (alone[j] <= s.high[j]))
            flips[i] += flipped
        elif maybe != surely:
            for j in range(n):
                s.near[j] = (part[j] >= s.low[j]) & (part[j] <= s.high[j])
            flips[i] += sum_again(i, n, zero_plus, s.near, s.sign, s.x)
        for j in range(n):
            mine = s.factor[j] * (part[j] if elects else abs(part[j]))
            part[j] = mine if mine > ZERO else ZERO
        for j in range(n):
            alone[j] = part[j] if s.solo[j] != ZERO else ZERO
        flips[i] += surely
        fold(part)
        fold(alone)
        for lane in range(LANES):
            s.lanes[i, 0, lane] += np.float64(part[lane])
            s.lanes[i, 1, lane] += np.float64(alone[lane])


@njit(cache=True, nogil=True)
def close_shares(lanes: np.ndarray, shares: np.ndarray) -> None:
    """Reduce the lanes (members, SHARES, LANES) in order to float64 (members, SHARES), and clear them."""
    for i in range(lanes.shape[0]):
        for k in range(SHARES):
            total = 0.0
            for lane in range(LANES):
                total += lanes[i, k, lane]
                lanes[i, k, lane] = 0.0
            shares[i, k] = total
