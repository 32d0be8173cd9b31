"""The number formats of weight files, and rounding to them: to the nearest, or at random without bias.

Takes fp32 arrays; gives the values that a file would hold. Formats by their significand and exponent range:
IEEE 754 (fp32, fp16), bfloat16, and the two of OCP's 8-bit specification, all cast plainly, with no scale of their own.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Format:
    """A binary floating-point format with subnormal numbers."""

    name: str
    bits: int
    """Of one number in a file."""
    significand: int
    """Binary digits, the implicit one counted: an ulp of 1 is 2^(1 − significand)."""
    lowest: int
    """Exponent of the smallest normal number."""
    largest: float
    """Largest finite number."""


FORMATS: dict[str, Format] = {
    one.name: one
    for one in (
        Format("fp32", 32, 24, -126, float(np.finfo(np.float32).max)),
        Format("bf16", 16, 8, -126, 3.3895313892515355e38),
        Format("fp16", 16, 11, -14, 65504.0),
        Format("fp8 e4m3", 8, 4, -6, 448.0),
        Format("fp8 e5m2", 8, 3, -14, 57344.0),
    )
}


def ulp_of(values: np.ndarray, form: Format) -> np.ndarray:
    """The step of a format at each finite value: float64, a power of two, that of subnormals at and near zero."""
    _, exponent = np.frexp(np.asarray(values, np.float64))
    exponent = np.where(values == 0, form.lowest, exponent - 1)
    return np.ldexp(1.0, np.maximum(exponent, form.lowest) - (form.significand - 1))


def nearest(values: np.ndarray, form: Format) -> np.ndarray:
    """fp32 values rounded to the nearest of a format, ties to even: float64; infinite where they are too large."""
    if form.name == "fp32":
        return np.asarray(values, np.float64)
    ulp = ulp_of(values, form)
    return _fit(np.rint(values / ulp) * ulp, form)


def stochastic(values: np.ndarray, form: Format, rng: np.random.Generator) -> np.ndarray:
    """fp32 values rounded up or down at random, each as likely as it is near: float64, right on average.

    Infinite where they are too large. Values that the format has stay as they are.
    """
    if form.name == "fp32":
        return np.asarray(values, np.float64)
    ulp = ulp_of(values, form)
    return _fit(np.floor(values / ulp + rng.random(values.shape)) * ulp, form)


def _fit(rounded: np.ndarray, form: Format) -> np.ndarray:
    return np.where(np.abs(rounded) > form.largest, np.copysign(np.inf, rounded), rounded)
