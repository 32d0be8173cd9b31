"""The compiled inner loops: threshold histograms, the fused merge of a block, and rounding figures.

Takes raw tensor bytes as numpy arrays and writes into arrays given by the caller; allocates only
scratch. fp32 arithmetic in member order, no fused multiply-add, so results do not depend on threads
or block size. Importing this module imports numba. Knows nothing about files or plans.
"""

# One module on purpose: numba's cache does not notice a change in a function imported from elsewhere.

import numpy as np
from numba import njit

BF16, F16, F32 = 0, 1, 2
TIES, TASK_ARITHMETIC, LINEAR = 0, 1, 2

CHUNK = 1024
"""Elements worked on at a time, so that scratch stays in the first caches; divides SUB_BLOCK."""
SUB_BLOCK = 65536
"""Elements behind each float64 partial sum, whatever the block size."""
BINS = 24
LOWEST_BIN = -12
"""The histogram counts |δ| in half ulps: bin i holds [2^(i-12), 2^(i-11)), first and last are open."""
SUMS = 5
"""Partial sums of a sub-block: (m−b)², (r−m)², (m−b)(r−b), (r−b)², b²; r is bf16(m)."""

CHANGED_0, SOLO, CHANGED_2, UNANIMOUS, CONTESTED, ZERO_SUM, SMALL_DIVISOR, CHANGED, LOST, OVERFLOW = range(10)
COUNTS = 10

SIGN_OFF = np.uint32(0x7FFFFFFF)
EXPONENT = np.uint32(0x7F800000)
HIGH_BITS, LOW_BITS = 16, 15
LOW_MASK = np.uint32((1 << LOW_BITS) - 1)
SPARE, SPARES = np.uint32(1 << LOW_BITS), 64
SMALL = np.float32(0.01)
"""A divisor below this share of the agreeing members' Σ|w| is counted as small."""

half_bits = np.arange(65536, dtype=np.uint16)
with np.errstate(invalid="ignore"):
    HALF_TO_FLOAT = half_bits.view(np.float16).astype(np.float32).view(np.uint32)
"""fp32 bit pattern of every fp16 bit pattern."""


@njit(cache=True, nogil=True, inline="always")
def load(raw16, raw32, code, row, start, n, table, bits):
    """Put elements start … start+n of a row, widened to fp32 bit patterns, in `bits`."""
    if code == F32:
        wide = raw32[row, start : start + n]
        for j in range(n):
            bits[j] = wide[j]
        return
    narrow = raw16[row, start : start + n]
    if code == BF16:
        for j in range(n):
            bits[j] = np.uint32(narrow[j]) << np.uint32(16)
    else:
        for j in range(n):
            bits[j] = table[narrow[j]]


@njit(cache=True, nogil=True)
def count_high(raw16, raw32, codes, n, table, counts, bad):
    """Add |δ| of each member to a histogram over the upper 16 of its 31 magnitude bits.

    `codes` has the base's dtype code first; `counts` is int64 (members, 2**16); `bad` int64
    (members + 1,) counts non-finite values, the base's first.
    """
    base = np.empty(CHUNK, np.uint32)
    value = np.empty(CHUNK, np.uint32)
    base_f, value_f = base.view(np.float32), value.view(np.float32)
    delta = np.empty(CHUNK, np.float32)
    bits = delta.view(np.uint32)
    for start in range(0, n, CHUNK):
        size = min(CHUNK, n - start)
        load(raw16, raw32, codes[0], 0, start, size, table, base)
        bad[0] += count_bad(base, size)
        for i in range(codes.size - 1):
            load(raw16, raw32, codes[i + 1], i + 1, start, size, table, value)
            bad[i + 1] += count_bad(value, size)
            for j in range(size):
                delta[j] = value_f[j] - base_f[j]
            row = counts[i]
            for j in range(size):
                row[(bits[j] & SIGN_OFF) >> np.uint32(LOW_BITS)] += 1


@njit(cache=True, nogil=True)
def count_low(raw16, raw32, codes, n, table, high, counts):
    """As `count_high` over the lower 15 bits, for magnitudes whose upper bits are `high[member]`.

    `counts` is int64 (members, 2**15 + SPARES), where all other magnitudes go to the spare bins: that is
    quicker than a branch. A member with `high` = -1 is left out.
    """
    place = np.empty(CHUNK, np.uint32)
    base = np.empty(CHUNK, np.uint32)
    value = np.empty(CHUNK, np.uint32)
    base_f, value_f = base.view(np.float32), value.view(np.float32)
    delta = np.empty(CHUNK, np.float32)
    bits = delta.view(np.uint32)
    for start in range(0, n, CHUNK):
        size = min(CHUNK, n - start)
        load(raw16, raw32, codes[0], 0, start, size, table, base)
        for i in range(codes.size - 1):
            if high[i] < 0:
                continue
            load(raw16, raw32, codes[i + 1], i + 1, start, size, table, value)
            for j in range(size):
                delta[j] = value_f[j] - base_f[j]
            wanted = np.uint32(high[i])
            for j in range(size):
                magnitude = bits[j] & SIGN_OFF
                inside = (magnitude >> np.uint32(LOW_BITS)) == wanted
                place[j] = (magnitude & LOW_MASK) if inside else SPARE + np.uint32(j & (SPARES - 1))
            row = counts[i]
            for j in range(size):
                row[place[j]] += 1


@njit(cache=True, nogil=True)
def find_tie(raw16, raw32, codes, n, table, member, threshold, wanted):
    """Look for the `wanted`-th element (from 1) of a member whose |δ| has the bits `threshold`.

    Gives (position + 1, 0) when it is in this block, else (-1, elements still wanted).
    """
    base = np.empty(CHUNK, np.uint32)
    value = np.empty(CHUNK, np.uint32)
    base_f, value_f = base.view(np.float32), value.view(np.float32)
    delta = np.empty(CHUNK, np.float32)
    bits = delta.view(np.uint32)
    for start in range(0, n, CHUNK):
        size = min(CHUNK, n - start)
        load(raw16, raw32, codes[0], 0, start, size, table, base)
        load(raw16, raw32, codes[member + 1], member + 1, start, size, table, value)
        found = 0
        for j in range(size):
            delta[j] = value_f[j] - base_f[j]
        for j in range(size):
            found += (bits[j] & SIGN_OFF) == threshold
        if found < wanted:
            wanted -= found
            continue
        for j in range(size):
            wanted -= (bits[j] & SIGN_OFF) == threshold
            if wanted == 0:
                return start + j + 1, 0
    return -1, wanted


@njit(cache=True, nogil=True, inline="always")
def count_bad(bits, n):
    """How many of n fp32 bit patterns are NaN or infinite."""
    bad = 0
    for j in range(n):
        bad += (bits[j] & EXPONENT) == EXPONENT
    return bad


@njit(cache=True, nogil=True, inline="always")
def trim(delta, bits, n, threshold, kept_before):
    """Zero the deltas below the threshold; those at it are kept below position `kept_before`.

    Gives how many non-zero deltas were zeroed.
    """
    trimmed = 0
    if kept_before <= 0 or kept_before >= n:
        lowest = threshold if kept_before >= n else threshold + np.uint32(1)
        for j in range(n):
            magnitude = bits[j] & SIGN_OFF
            gone = magnitude < lowest
            trimmed += gone and magnitude != 0
            delta[j] = np.float32(0.0) if gone else delta[j]
        return trimmed
    for j in range(n):
        magnitude = bits[j] & SIGN_OFF
        if magnitude < threshold or (magnitude == threshold and j >= kept_before):
            trimmed += magnitude != 0
            delta[j] = np.float32(0.0)
    return trimmed


@njit(cache=True, nogil=True, inline="always")
def vote(x, n, total, positive, negative):
    """Add one member's weighted deltas to the sum and to the two counts of signs."""
    for j in range(n):
        total[j] += x[j]
        positive[j] += np.int32(x[j] > np.float32(0.0))
        negative[j] += np.int32(x[j] < np.float32(0.0))


@njit(cache=True, nogil=True, inline="always")
def elect(x, weights, n, total, mixed, divisor, absolute, guard):
    """Sum each element's deltas, weights and (where `guard`) |weights| over the agreeing members."""
    zero = np.float32(0.0)
    for j in range(n):
        mixed[j] = zero
        divisor[j] = zero
        absolute[j] = zero
    for i in range(weights.size):
        weight = weights[i]
        for j in range(n):
            agrees = (x[i, j] > zero) if total[j] >= zero else (x[i, j] < zero)
            mixed[j] += x[i, j] if agrees else zero
            divisor[j] += weight if agrees else zero
        if guard:
            size = abs(weight)
            for j in range(n):
                agrees = (x[i, j] > zero) if total[j] >= zero else (x[i, j] < zero)
                absolute[j] += size if agrees else zero


@njit(cache=True, nogil=True, inline="always")
def count_small(divisor, absolute, n):
    """How many divisors are small against the agreeing members' Σ|w|."""
    small = 0
    for j in range(n):
        small += abs(divisor[j]) < SMALL * absolute[j]
    return small


@njit(cache=True, nogil=True, inline="always")
def count_election(n, total, positive, negative, counts):
    """Tally how many members voted on each element, and how."""
    nobody = solo = unanimous = contested = zero_sum = 0
    for j in range(n):
        voters = positive[j] + negative[j]
        both = (positive[j] != 0) & (negative[j] != 0)
        nobody += voters == 0
        solo += voters == 1
        contested += both
        unanimous += (voters > 1) & (not both)
        zero_sum += (voters > 0) & (total[j] == np.float32(0.0))
    counts[CHANGED_0] += nobody
    counts[SOLO] += solo
    counts[CHANGED_2] += n - nobody - solo
    counts[UNANIMOUS] += unanimous
    counts[CONTESTED] += contested
    counts[ZERO_SUM] += zero_sum


@njit(cache=True, nogil=True, inline="always")
def round_bits(bits):
    """Bit pattern, still 32 wide, of the bf16 nearest to a finite fp32, ties to even."""
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    return (bits + np.uint32(0x7FFF) + odd) & np.uint32(0xFFFF0000)


@njit(cache=True, nogil=True, inline="always")
def count_rounding(base, merged, n, scratch, lanes, counts, histogram):
    """Add one chunk's rounding figures: what casting `merged` (fp32 bits) to bf16 loses against `base`.

    `lanes` is float64 (SUMS, CHUNK): each lane sums its own elements, so the order is fixed.
    `scratch` is uint32 (2, CHUNK); `histogram` int64 (4, BINS + 1), the last bin for what did not change.
    """
    base_f, merged_f = base.view(np.float32), merged.view(np.float32)
    base_r, merged_r = scratch[0], scratch[1]
    base_rf, merged_rf = base_r.view(np.float32), merged_r.view(np.float32)
    for j in range(n):
        base_r[j] = round_bits(base[j])
        merged_r[j] = round_bits(merged[j])
    changed = lost = 0
    for j in range(n):
        moved = merged_f[j] != base_f[j]
        changed += moved
        lost += moved & (merged_rf[j] == base_rf[j])
    counts[CHANGED] += changed
    counts[LOST] += lost
    for j in range(n):
        b, m, r = np.float64(base_f[j]), np.float64(merged_f[j]), np.float64(merged_rf[j])
        step = r - np.float64(base_rf[j])
        lanes[0, j] += (m - b) * (m - b)
        lanes[1, j] += (r - m) * (r - m)
        lanes[2, j] += (m - b) * step
        lanes[3, j] += step * step
        lanes[4, j] += b * b
    if changed:
        count_steps(base, base_f, merged_f, n, base_r.view(np.int32), histogram)


@njit(cache=True, nogil=True, inline="always")
def count_steps(base, base_f, merged_f, n, place, histogram):
    """Add |m − b| to the histogram in half ulps of b: a bin is a difference of two exponents.

    Half a bf16 ulp of b is 2^(e−8), with e = −126 for zero and subnormals; fp64 holds m − b with its
    exponent in place, subnormals included.
    """
    for j in range(n):
        field = max(np.int32((base[j] & EXPONENT) >> np.uint32(23)), np.int32(1))
        place[j] = field - np.int32(127) - np.int32(8) + np.int32(LOWEST_BIN)
    delta = np.empty(CHUNK, np.float64)
    words = delta.view(np.int64)
    for j in range(n):
        delta[j] = np.float64(merged_f[j]) - np.float64(base_f[j])
    for j in range(n):
        exponent = np.int32((words[j] >> 52) & 2047) - np.int32(1023)
        inside = min(max(exponent - place[j], np.int32(0)), np.int32(BINS - 1))
        place[j] = inside if merged_f[j] != base_f[j] else np.int32(BINS)
    for j in range(n):
        histogram[j & 3, place[j]] += 1


@njit(cache=True, nogil=True)
def close_sub_block(lanes, sums):
    """Reduce the lanes in order to one float64 each, and clear them."""
    for s in range(SUMS):
        total = 0.0
        for j in range(CHUNK):
            total += lanes[s, j]
            lanes[s, j] = 0.0
        sums[s] = total


@njit(cache=True, nogil=True)
def merge_block(raw16, raw32, codes, n, table, method, weights, divide_by, scale, thresholds, cutoffs,
                out, counts, bad, changed, trimmed, sums, histogram):  # fmt: skip
    """Trim, elect, merge, scale, add the base and count, over one block of one tensor.

    `codes`: dtype code of each row, the base's first. `method`: TIES, TASK_ARITHMETIC or LINEAR (whose
    row 0 is a reference that counts only in the figures).
    `divide_by`: 0 for no division; for TIES anything else divides by the agreeing weights; for the others
    it is the divisor. `thresholds` uint32 and `cutoffs` int64 per member: |δ| below the threshold is
    trimmed, at it kept before position `cutoff` of this block. Writes the fp32 result into `out`
    (uint32 bits) and adds to the int64 figures `counts`, `bad`, `changed`, `trimmed`, `histogram` and,
    a row a sub-block, to the float64 `sums`.
    """
    members = weights.size
    one = np.float32(1.0)
    base = np.empty(CHUNK, np.uint32)
    value = np.empty(CHUNK, np.uint32)
    merged = np.empty(CHUNK, np.uint32)
    base_f, value_f, merged_f = base.view(np.float32), value.view(np.float32), merged.view(np.float32)
    delta = np.empty(CHUNK, np.float32)
    delta_bits = delta.view(np.uint32)
    x = np.empty((members, CHUNK), np.float32)
    total, mixed = np.empty(CHUNK, np.float32), np.empty(CHUNK, np.float32)
    divisor, absolute = np.empty(CHUNK, np.float32), np.empty(CHUNK, np.float32)
    positive, negative = np.empty(CHUNK, np.int32), np.empty(CHUNK, np.int32)
    scratch = np.empty((2, CHUNK), np.uint32)
    lanes = np.zeros((SUMS, CHUNK), np.float64)
    guard = False
    for i in range(members):
        guard |= weights[i] < 0
    for start in range(0, n, CHUNK):
        size = min(CHUNK, n - start)
        load(raw16, raw32, codes[0], 0, start, size, table, base)
        bad[0] += count_bad(base, size)
        for j in range(size):
            total[j] = np.float32(0.0)
            mixed[j] = np.float32(0.0)
            positive[j] = 0
            negative[j] = 0
        for i in range(members):
            load(raw16, raw32, codes[i + 1], i + 1, start, size, table, value)
            bad[i + 1] += count_bad(value, size)
            moved = 0
            for j in range(size):
                delta[j] = value_f[j] - base_f[j]
                moved += delta[j] != np.float32(0.0)
            changed[i] += moved
            if thresholds[i] > 0:
                trimmed[i] += trim(delta, delta_bits, size, thresholds[i], cutoffs[i] - start)
            weight = weights[i]
            row = x[i]
            for j in range(size):
                row[j] = delta[j] * weight
            if method == LINEAR:
                for j in range(size):
                    mixed[j] += value_f[j] * weight
            vote(row, size, total, positive, negative)
        count_election(size, total, positive, negative, counts)
        if method == TIES:
            elect(x, weights, size, total, mixed, divisor, absolute, guard)
            if guard:
                counts[SMALL_DIVISOR] += count_small(divisor, absolute, size)
        elif method == TASK_ARITHMETIC:
            for j in range(size):
                mixed[j] = total[j]
        if divide_by != 0:
            if method == TIES:
                for j in range(size):
                    mixed[j] /= divisor[j] if divisor[j] != np.float32(0.0) else one
            else:
                for j in range(size):
                    mixed[j] /= divide_by
        if scale != one:
            for j in range(size):
                mixed[j] *= scale
        if method == LINEAR:
            for j in range(size):
                merged_f[j] = mixed[j]
        else:
            for j in range(size):
                merged_f[j] = base_f[j] + mixed[j]
        counts[OVERFLOW] += count_bad(merged, size)
        count_rounding(base, merged, size, scratch, lanes, counts, histogram)
        for j in range(size):
            out[start + j] = merged[j]
        if (start + size) % SUB_BLOCK == 0 or start + size == n:
            close_sub_block(lanes, sums[start // SUB_BLOCK])


@njit(cache=True, nogil=True)
def round_block(raw16, raw32, codes, n, table, counts, bad, sums, histogram):
    """The rounding figures alone, of row 1 (merged) against row 0 (base); see `merge_block`."""
    base = np.empty(CHUNK, np.uint32)
    merged = np.empty(CHUNK, np.uint32)
    scratch = np.empty((2, CHUNK), np.uint32)
    lanes = np.zeros((SUMS, CHUNK), np.float64)
    for start in range(0, n, CHUNK):
        size = min(CHUNK, n - start)
        load(raw16, raw32, codes[0], 0, start, size, table, base)
        load(raw16, raw32, codes[1], 1, start, size, table, merged)
        bad[0] += count_bad(base, size)
        bad[1] += count_bad(merged, size)
        count_rounding(base, merged, size, scratch, lanes, counts, histogram)
        if (start + size) % SUB_BLOCK == 0 or start + size == n:
            close_sub_block(lanes, sums[start // SUB_BLOCK])


@njit(cache=True, nogil=True)
def narrow_bf16(bits, n, out):
    """Write n finite fp32 bit patterns as bf16, nearest, ties to even; gives how many overflowed."""
    overflowed = 0
    for j in range(n):
        rounded = round_bits(bits[j])
        overflowed += (rounded & EXPONENT) == EXPONENT
        out[j] = np.uint16(rounded >> np.uint32(16))
    return overflowed
