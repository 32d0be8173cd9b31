"""Arrow columns from plain values, laid out as Arrow does, so that pandas need not be imported to write a report.

`pyarrow.array` imports pandas, where it is installed, to ask whether it was given a Series: 0.2 s of every merge.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa


def column(values: Sequence[Any], kind: "pa.DataType") -> "pa.Array":
    """The values, None where there is none, as an array of `kind`: integers, floats, strings, or lists of numbers."""
    import pyarrow as pa

    if pa.types.is_list(kind):
        return pa.ListArray.from_arrays(_offsets([len(one) for one in values]), _flat(values, kind.value_type))
    present = np.array([one is not None for one in values], np.bool_)
    bits = None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little").tobytes())
    if pa.types.is_string(kind):
        encoded = [(one or "").encode() for one in values]
        ends = _offsets([len(one) for one in encoded]).buffers()[1]
        return pa.Array.from_buffers(kind, len(values), [bits, ends, pa.py_buffer(b"".join(encoded))])
    filled = np.array([0 if one is None else one for one in values], kind.to_pandas_dtype())
    return pa.Array.from_buffers(kind, len(values), [bits, pa.py_buffer(filled.tobytes())])


def _flat(values: Sequence[Sequence[Any]], kind: "pa.DataType") -> "pa.Array":
    return column([one for row in values for one in row], kind)


def _offsets(lengths: Sequence[int]) -> "pa.Array":
    import pyarrow as pa

    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.Array.from_buffers(pa.int32(), len(ends), [None, pa.py_buffer(ends.tobytes())])
