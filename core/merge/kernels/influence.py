"""What each member does to the merge of a chunk: elected signs that need it, and its part of the merged delta."""

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
    spare: np.ndarray
    other: np.ndarray
    mask: np.ndarray
    """uint8."""
    x: np.ndarray
    """float32 (members, CHUNK): kept weighted deltas."""
    lanes: np.ndarray
    """float64 (members, SHARES, LANES)."""


@njit(cache=True, nogil=True, inline="always")
def count_election(n: int, s: Scratch, counts: np.ndarray) -> np.int32:
    """Tally how many members voted on each element, and how; gives the contested elements."""
    nobody, solo, unanimous, contested, zero_sum = np.int32(0), np.int32(0), np.int32(0), np.int32(0), np.int32(0)
    for j in range(n):
        positive, negative = s.votes[j] & LOWER, s.votes[j] >> MINUS
        voters = positive + negative
        both = (positive != 0) & (negative != 0)
        nobody += np.int32(voters == 0)
        solo += np.int32(voters == 1)
        contested += np.int32(both)
        unanimous += np.int32((voters > 1) & (not both))
        zero_sum += np.int32((voters > 0) & (s.total[j] == ZERO))
    counts[CHANGED_0] += nobody
    counts[SOLO] += solo
    counts[CHANGED_2] += n - nobody - solo
    counts[UNANIMOUS] += unanimous
    counts[CONTESTED] += contested
    counts[ZERO_SUM] += zero_sum
    return contested


@njit(cache=True, nogil=True, inline="always")
def elected_without(member: int, j: int, zero_plus: bool, s: Scratch) -> np.float32:
    """The sign elected when a member's vote on element j is left out, summed in order as the engine would."""
    total = ZERO
    for i in range(s.x.shape[0]):
        if i != member:
            total += s.x[i, j]
    return ONE if total > ZERO or (total == ZERO and zero_plus) else -ONE


@njit(cache=True, nogil=True, inline="always")
def count_flips(n: int, zero_plus: bool, s: Scratch, flips: np.ndarray) -> None:
    """Add to each member the contested elements whose elected sign is another without it.

    `total − x` differs from the others' sum in order by rounding only, which is bounded: where it is nearer
    to zero than that, the sum is done again. Where all votes agree no sign can flip.
    """
    members = s.x.shape[0]
    slack = np.float32((members + 2) * 2.0**-23)
    near, far = s.spare, s.other
    for j in range(n):
        contested = ((s.votes[j] & LOWER) != 0) & ((s.votes[j] >> MINUS) != 0)
        bound = s.absolute[j] * slack
        near[j] = bound if contested else -ONE
        far[j] = -bound if contested else -np.float32(np.inf)
    for i in range(members):
        x = s.x[i]
        flipped, unsure = np.int32(0), np.int32(0)
        for j in range(n):
            rest = s.total[j] - x[j]
            flipped += np.int32(rest * s.sign[j] < far[j])
            unsure += np.int32(abs(rest) <= near[j])
        if unsure:
            flipped += sum_again(i, n, near, zero_plus, s)
        flips[i] += flipped


@njit(cache=True, nogil=True)
def sum_again(member: int, n: int, near: np.ndarray, zero_plus: bool, s: Scratch) -> int:
    """How many of the elements near to zero elect another sign without a member; looks at eight at a time."""
    flipped, x = 0, s.x[member]
    for j in range(n):
        s.mask[j] = abs(s.total[j] - x[j]) <= near[j]
    s.mask[n:] = np.uint8(0)
    eights = s.mask.view(np.uint64)
    for k in range(eights.size):
        if eights[k]:
            for j in range(8 * k, 8 * k + 8):
                if s.mask[j] and elected_without(member, j, zero_plus, s) != s.sign[j]:
                    flipped += 1
    return flipped


@njit(cache=True, nogil=True, inline="always")
def fold(values: np.ndarray) -> None:
    """Add the upper half of a chunk's values to its lower half, until LANES are left."""
    width = CHUNK // 2
    while width >= LANES:
        for j in range(width):
            values[j] += values[width + j]
        width //= 2


@njit(cache=True, nogil=True, inline="always")
def add_shares(n: int, elects: bool, s: Scratch) -> None:
    """Add each agreeing member's |weighted delta| × factor to its lanes, and again where no other member votes.

    A chunk's values are folded to LANES in fp32; those of all chunks add up in float64.
    """
    part, alone = s.spare, s.other
    for j in range(n):
        s.place[j] = np.int32((s.votes[j] == np.int32(1)) | (s.votes[j] == np.int32(65536)))
    for i in range(s.x.shape[0]):
        x = s.x[i]
        if n < CHUNK:
            part[:] = ZERO
            alone[:] = ZERO
        for j in range(n):
            mine = x[j] * s.sign[j]
            mine = s.factor[j] * (mine if elects else abs(mine))
            part[j] = mine if mine > ZERO else ZERO
            alone[j] = part[j] if s.place[j] else ZERO
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
