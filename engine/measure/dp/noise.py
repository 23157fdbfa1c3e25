"""Noise of dp mode: true counts in, noisy counts out, drawn by OpenDP; and what OpenDP says such noise guarantees.

Whole-number noise only (integer Laplace, integer Gaussian: Canonne, Kamath and Steinke 2020, arXiv 2004.00010, sampled
exactly), with fresh entropy of the operating system at every draw: there is no seed, so no draw can be repeated, and
noisy counts that are to be used again must be kept. The stickiness of sticky mode has no place here.

Three of OpenDP's constructors are used: `make_laplace`, `make_gaussian` and `make_zCDP_to_approxDP`. OpenDP keeps all
three behind its feature "contrib" (they carry proofs, but the vetting of proofs is not finished); domains and metrics
need no feature. The feature is switched on, for the whole process, when the first of them is needed.

Speed, one core: 6 to 18 millionths of a second a cell, 10 million cells in one to three minutes.
"""

from __future__ import annotations

import math
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.errors import DataError, InternalError, StoreError
from engine.params import Noise
from engine.schema import Int64Array

if TYPE_CHECKING:
    from opendp.core import Measurement

LARGEST_COUNT = 2**53
"""Counts above are refused: they would not survive as floats after the wall."""
CHUNK = 1 << 20  # OpenDP gives Python lists: 32 MB of them at a time


def noised(counts: Int64Array, noise: Noise | None, scale: float) -> Int64Array:
    """Add independent noise to every count.

    noise: "laplace", "gaussian"; None: nothing is protected, the counts come back as they are.
    scale: Of the noise, in rows: Laplace's b, Gaussian's sigma. 0 where `noise` is None.
    """
    if counts.dtype != np.int64:
        raise InternalError(f"counts must be int64 before noise is added, not {counts.dtype}")
    # Not through np.abs: of -2**63 it is negative.
    if counts.size and (counts.max() > LARGEST_COUNT or counts.min() < -LARGEST_COUNT):
        raise DataError("a cell of a margin holds more rows than 2**53: dp mode cannot measure it")
    if noise is None:
        if scale != 0:
            raise InternalError("a scale was given, but no noise")
        return counts.copy()
    draw = _mechanism(noise, scale)
    flat = np.ascontiguousarray(counts).reshape(-1)
    out = np.empty_like(flat)
    for start in range(0, len(flat), CHUNK):
        out[start : start + CHUNK] = draw(flat[start : start + CHUNK])
    return out.reshape(counts.shape)


def guarantee_of(noise: Noise | None, scale: float, sensitivity: int) -> float:
    """What one release of counts under such noise guarantees, as OpenDP's own privacy map says (rounded up).

    sensitivity: Most that one entity can change the counts by: their L1 distance for Laplace noise, L2 for
        Gaussian.

    Returns: Laplace: epsilon. Gaussian: rho (zCDP). None: infinite.
    """
    if sensitivity < 1:
        raise InternalError("one entity adds at least one row: the sensitivity must be 1 or more")
    if noise is None:
        return math.inf
    mechanism: Any = _mechanism(noise, scale)
    return float(mechanism.map(int(sensitivity)))


@lru_cache(maxsize=1024)
def epsilon_by_moments(rho: float, delta: float) -> float:
    """Smallest epsilon that OpenDP grants a rho-zCDP release at a delta (rounded up)."""
    if rho == 0:
        return 0.0
    if delta == 0 or math.isinf(rho):
        return math.inf
    # A mechanism of at least this rho stands for it: what holds for more holds for less.
    scale = math.sqrt(1 / (2 * rho))
    while guarantee_of("gaussian", scale, 1) < rho:
        scale = math.nextafter(scale, 0)
    converted: Any = _opendp().c.make_zCDP_to_approxDP(_mechanism("gaussian", scale))
    return float(converted.map(1).epsilon(delta))


@lru_cache(maxsize=1024)
def variance_of(noise: Noise | None, scale: float) -> float:
    """Variance of the noise of one count, in rows squared.

    Exact for integer Laplace: 2a / (1 - a)**2 with a = exp(-1 / scale). For integer Gaussian summed over its
    probabilities where it is narrow; from a sigma of 10 on it is sigma**2 to the last digit.
    """
    if noise is None:
        return 0.0
    if noise == "laplace":
        # a / (1 - a)**2 = 1 / (4 sinh(1 / 2 scale)**2), which loses no digits for wide noise.
        half = 0.5 / scale
        return 0.5 / math.sinh(half) ** 2 if half < 300 else 0.0
    if scale >= 10:
        return scale**2
    k = np.arange(-400, 401, dtype=np.float64)
    weights = np.exp(-((k / scale) ** 2) / 2)
    return float((weights * k**2).sum() / weights.sum())


def _mechanism(noise: Noise, scale: float) -> Measurement:
    """OpenDP's mechanism over whole-number vectors."""
    if not (math.isfinite(scale) and scale > 0):
        raise InternalError("the scale of noise must be finite and above 0")
    dp = _opendp()
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    if noise == "laplace":
        mechanism: Measurement = dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=scale)
    else:
        mechanism = dp.m.make_gaussian(domain, dp.l2_distance(T="i64"), scale=scale)
    return mechanism


@cache
def _opendp() -> Any:
    """The package, with the one feature that we need."""
    try:
        import opendp.prelude as dp
    except ImportError as error:
        raise StoreError("mode dp needs opendp: pip install 'tablepack[dp]'") from error
    dp.enable_features("contrib")
    return dp
