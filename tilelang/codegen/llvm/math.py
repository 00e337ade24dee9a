# SPDX-License-Identifier: Apache-2.0
"""Mathematical functions of float32 vectors, as LLVM functions that we write.

In: a function's name and a lane count. Out: an internal LLVM function `@tl.<name>.v<lanes>` of
straight-line vector code: no call of the C library per lane. Errors are in units in the last place
(ULP) of the float32 result against the exact value, as the tests measure them over the whole
range, subnormals included; infinities, NaN, signed zeros and domain errors give what C99 Annex F
says.

    pow                                                                                    1 ULP
    exp exp2 exp10 log log2 log10 log1p rsqrt tanh sin cos sinh cosh acos atan atan2       2 ULP
    sigmoid asin erf                                                                       3 ULP
    tan                                                                                    4 ULP

Polynomials are minimax fits (weighted least squares, reweighted to equal ripple, coefficients
rounded one after another) of the form and on the interval that stand beside them.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

from .remainder import fmod
from .types import bits_of
from .writer import Module, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# Approximate forms of the hardware: ours are vectors already and keep their accuracy.
FAST = {
    "fast_exp": "exp", "fast_exp2": "exp2", "fast_exp10": "exp10", "fast_log": "log",
    "fast_log2": "log2", "fast_log10": "log10", "fast_sin": "sin", "fast_cos": "cos",
    "fast_tan": "tan", "fast_rcp": "rcp",
}  # fmt: skip

# e**r = 1 + r + r*r*P(r), |r| <= ln(2)/2
_EXP = (
    0.4999999403953552,
    0.16666516661643982,
    0.041668280959129333,
    0.008369248360395432,
    0.0013820742024108768,
)
# 2**r = 1 + r*P(r), |r| <= 1/2
_EXP2 = (
    0.6931471824645996, 0.24022647738456726, 0.05550358071923256, 0.009618503041565418,
    0.0013391890097409487, 0.00015329234884120524,
)  # fmt: skip
# ln(1+f) = f - f*f/2 + f**3*P(f), sqrt(1/2) <= 1+f <= sqrt(2)
_LOG = (
    0.3333331048488617, -0.2500000298023224, 0.20002268254756927, -0.16668491065502167,
    0.14216743409633636, -0.12394621223211288, 0.11898868530988693, -0.11749262362718582,
    0.06813090294599533,
)  # fmt: skip
# tanh x = x + x**3*P(x*x), |x| <= 0.56
_TANH = (
    -0.3333331346511841,
    0.13332436978816986,
    -0.053835757076740265,
    0.021000375971198082,
    -0.006169613916426897,
)
# sin x = x + x**3*P(x*x), |x| <= pi/4;  cos x = 1 - x*x/2 + x**4*P(x*x)
_SIN = (-0.1666666716337204, 0.008333378471434116, -0.00019852534751407802, 2.8257925350771984e-06)
_COS = (0.04166664555668831, -0.001388729433529079, 2.4429415134363808e-05)
# erf x = x*(2/sqrt(pi) rounded) + x*P(x*x), |x| <= 1;  ln(1 - erf x) = x*P(x), 1 <= x <= 4
_ERF_0 = 1.128379225730896
_ERF = (
    -5.99985412463866e-08, -0.3761262595653534, 0.11283586174249649, -0.026853838935494423,
    0.005188357084989548, -0.0008010309538803995, 7.853885472286493e-05,
)  # fmt: skip
_ERFC = (
    -1.1286859512329102, -0.6350017189979553, -0.1064804345369339, 0.023968813940882683,
    -0.0037389027420431376, 0.00034623005194589496, -1.3545144611271098e-05,
)  # fmt: skip
# sinh x = x + x**3*P(x*x), |x| <= 1
_SINH = (0.1666666716337204, 0.00833331048488617, 0.00019842895562760532, 2.7822131869470468e-06)
# atan x = x + x**3*P(x*x), |x| <= 1
_ATAN = (
    -0.33333298563957214, 0.1999853104352951, -0.14264051616191864, 0.10951172560453415,
    -0.08400458097457886, 0.05790604278445244, -0.031126288697123528, 0.010886868461966515,
    -0.0017874144250527024,
)  # fmt: skip
# asin x = x + x**3*P(x*x), |x| <= 1/2
_ASIN = (
    0.16666659712791443, 0.07500521838665009, 0.04451337456703186, 0.031839095056056976,
    0.014314810745418072, 0.03769691661000252,
)  # fmt: skip
# In float64: log2((1+s)/(1-s)) = s*P(s*s), |s| <= 0.1725;  2**r = 1 + r*P(r), |r| <= 1/2
_LOG2_D = (
    2.8853900817779263, 0.9617966939253871, 0.5770780169781186, 0.41219843062383543,
    0.32061492111979906, 0.261479883344361, 0.24259040222464165,
)  # fmt: skip
_EXP2_D = (
    0.6931471805598783, 0.240226506957074, 0.05550410866874101, 0.009618129185669655,
    0.0013333557589551206, 0.0001540343726010394, 1.5253002433726131e-05, 1.3259195263568653e-06,
    1.0147392688953175e-07,
)  # fmt: skip

_LN2_HIGH, _LN2_LOW = 0.693115234375, 3.194618329871446e-05  # 12 bits: n * high is exact
_LOG10_2_HIGH, _LOG10_2_LOW = 0.301025390625, 4.605039066518657e-06
_LOG2E_HIGH, _LOG2E_LOW = 1.4426950216293335, 1.925963033500011e-08
_LOG10E_HIGH, _LOG10E_LOW = 0.4342944920063019, -1.0103049952192578e-08
_PIO2_HIGH, _PIO2_LOW = 1.5707963705062866, -4.371138828673793e-08
# pi/2 in three parts for the float64 reduction: 25 bits each, so that n * part is exact for n <
# 2**28 without a fused multiply-add, and the rest.
_PIO2_D = (1.5707963109016418, 1.5893254712295857e-08, 6.123233995736766e-17)
_ROUND = 12582912.0  # 1.5 * 2**23: adding it rounds to an integer, which is then in the low bits
_ROUND_BITS = 0x4B400000
_ROUND_D = 6755399441055744.0  # the same in float64
_HUGE = 28  # from 2**28 on, angles are reduced by table
# 2/pi with 320 fractional bits
_TWO_OVER_PI = int(
    "a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561b7246e3a424dd2e0"
    , 16,
)  # fmt: skip
_INF = math.inf


def _poly(x: Value, coefficients: Sequence[float]) -> Value:
    """Horner's scheme; multiply-adds are fused where the CPU can."""
    out = x.fn.const(coefficients[-1], x.elem, x.lanes)
    for c in reversed(coefficients[:-1]):
        out = _fma(out, x, c)
    return out


def _fma(a: Value, b: Value | float, c: Value | float) -> Value:
    return a.fn.intrinsic("fmuladd", a, a._same(b), a._same(c))


def _abs(x: Value) -> Value:
    return x.fn.intrinsic("fabs", x)


def _sqrt(x: Value) -> Value:
    return x.fn.intrinsic("sqrt", x)


def _like(x: Value, sign: Value) -> Value:
    return x.fn.intrinsic("copysign", x, sign)


def _clamp(x: Value, low: float, high: float) -> Value:
    """NaN stays."""
    x = x.cmp("ogt", high).select(high, x)
    return x.cmp("olt", low).select(low, x)


def _split(x: Value, scale: float) -> tuple[Value, Value]:
    """n = round(x * scale) as a float and as an integer (of a NaN: some integer)."""
    shifted = _fma(x, scale, _ROUND)
    return shifted - _ROUND, shifted.bitcast("i32") - _ROUND_BITS


def _scale(x: Value, whole: Value, n: Value) -> Value:
    """x * 2**n, |n| <= 252, n as a float and as an integer: in two steps so that subnormal results
    are rounded once and 2**128 is no infinity."""
    at_once = x.fn.scaled(x, whole)
    if at_once is not None:
        return at_once
    first = n.ashr(1)
    second = n - first
    power = ((first + 127) << 23).bitcast("float")
    return x * power * ((second + 127) << 23).bitcast("float")


# ---------------------------------------------------------------------------------- exponentials


def _exp_shifted(x: Value, shift: int) -> Value:
    """e**x * 2**shift."""
    x = _clamp(x, -110.0, 95.0)
    whole, n = _split(x, 1 / math.log(2))
    r = _fma(whole, -_LN2_LOW, _fma(whole, -_LN2_HIGH, x))
    y = _fma(r * r, _poly(r, _EXP), r) + 1.0
    return _scale(y, whole + float(shift) if shift else whole, n + shift)


def _exp(x: Value) -> Value:
    return _exp_shifted(x, 0)


def _exp2(x: Value) -> Value:
    x = _clamp(x, -160.0, 130.0)
    whole, n = _split(x, 1.0)
    r = x - whole
    return _scale(_fma(r, _poly(r, _EXP2), 1.0), whole, n)


def _exp10(x: Value) -> Value:
    x = _clamp(x, -48.0, 40.0)
    whole, n = _split(x, 1 / math.log10(2))
    r = _fma(whole, -_LOG10_2_LOW, _fma(whole, -_LOG10_2_HIGH, x))
    # ln(10) in two parts: its rounding error alone would be a third of an ULP.
    r = _fma(r, 2.302585124969482, r * -3.198604e-08)
    y = _fma(r * r, _poly(r, _EXP), r) + 1.0
    return _scale(y, whole, n)


def _sigmoid(x: Value) -> Value:
    """1/(1+z) or z/(1+z) with z = e**-|x|: neither overflows nor loses small results."""
    z = _exp(-_abs(x))
    return x.cmp("olt", 0.0).select(z, 1.0) / (z + 1.0)


def _tanh(x: Value) -> Value:
    a = _abs(x)
    square = a * a
    small = _fma(a * square, _poly(square, _TANH), a)
    e = _exp(a + a)
    large = 1.0 - 2.0 / (e + 1.0)
    return _like(a.cmp("olt", 0.55).select(small, large), x)


def _sinh(x: Value) -> Value:
    a = _abs(x)
    square = x * x
    small = _fma(x * square, _poly(square, _SINH), x)
    e = _exp_shifted(a, -1)  # e**a / 2 does not overflow before the result does
    return a.cmp("olt", 1.0).select(small, _like(e - 0.25 / e, x))


def _cosh(x: Value) -> Value:
    e = _exp_shifted(_abs(x), -1)
    return e + 0.25 / e


# ---------------------------------------------------------------------------------- logarithms


def _mantissa(x: Value) -> tuple[Value, Value]:
    """x = 2**e * (1+f), 1+f in [sqrt(1/2), sqrt(2)), for positive finite x: (e as a float, f)."""
    tiny = x.cmp("olt", 1.1754943508222875e-38)
    bits = tiny.select(x * 33554432.0, x).bitcast("i32")
    # Subtracting sqrt(1/2)'s bits moves the step of the exponent to sqrt(2).
    shifted = bits - 0x3F3504F3
    exponent = shifted.ashr(23)
    one_plus_f = (bits - (exponent << 23)).bitcast("float")
    e = exponent.convert("sitofp", "float") - tiny.select(x._same(25.0), x._same(0.0))
    return e, one_plus_f - 1.0


def _log_tail(f: Value) -> Value:
    """ln(1+f) - f."""
    square = f * f
    return _fma(square, -0.5, square * f * _poly(f, _LOG))


def _log_edges(x: Value, y: Value) -> Value:
    """log(0) = -inf, log(inf) = inf, log of a negative number or NaN = NaN."""
    y = x.cmp("oeq", _INF).select(_INF, y)
    y = x.cmp("oeq", 0.0).select(-_INF, y)
    return x.cmp("ult", 0.0).select(_nan(x), y)


def _nan(x: Value) -> Value:
    return x.fn.const(math.nan, x.elem, x.lanes)


def _log_finite(x: Value) -> Value:
    e, f = _mantissa(x)
    return _fma(e, _LN2_HIGH, f + _fma(e, _LN2_LOW, _log_tail(f)))


def _log(x: Value) -> Value:
    return _log_edges(x, _log_finite(x))


def _log2(x: Value) -> Value:
    e, f = _mantissa(x)
    low = _fma(_log_tail(f), _LOG2E_HIGH, f * _LOG2E_LOW)
    return _log_edges(x, _fma(f, _LOG2E_HIGH, low) + e)


def _log10(x: Value) -> Value:
    e, f = _mantissa(x)
    low = _fma(e, _LOG10_2_LOW, _fma(_log_tail(f), _LOG10E_HIGH, f * _LOG10E_LOW))
    return _log_edges(x, _fma(e, _LOG10_2_HIGH, _fma(f, _LOG10E_HIGH, low)))


def _log1p(x: Value) -> Value:
    u = x + 1.0
    lost = (x - (u - 1.0)) / u  # what rounding 1 + x lost
    y = _log_finite(u) + lost
    y = x.cmp("oeq", _INF).select(_INF, y)
    y = u.cmp("oeq", 0.0).select(-_INF, y)
    y = x.cmp("ult", -1.0).select(_nan(x), y)
    return x.cmp("oeq", 0.0).select(x, y)


def _rsqrt(x: Value) -> Value:
    return 1.0 / _sqrt(x)


def _rcp(x: Value) -> Value:
    return 1.0 / x


# ---------------------------------------------------------------------------------- circle


def _reduce(x: Value) -> tuple[Value, Value]:
    """x - n*pi/2 in [-pi/4, pi/4], and n mod 4: in float64, which is exact enough up to 2**28.
    Whether any lane is larger is a branch that is hardly ever taken."""
    fn = x.fn
    wide = x.convert("fpext", "double")
    shifted = _fma(wide, 2 / math.pi, _ROUND_D)
    n = shifted - _ROUND_D
    r = wide
    for part in _PIO2_D:
        r = _fma(n, -part, r)
    near = r.convert("fptrunc", "float")
    quadrant = shifted.bitcast("i64").convert("trunc", "i32")
    huge = _abs(x).cmp("oge", float(1 << _HUGE))

    def with_huge_ones() -> tuple[Value, Value]:
        far, far_quadrant = _reduce_huge(x)
        return huge.select(far, near), huge.select(far_quadrant, quadrant)

    r, q = fn.unless(fn.any_lane(huge) ^ True, (near, quadrant), with_huge_ones)
    return r, q


def _reduce_huge(x: Value) -> tuple[Value, Value]:
    """x = m * 2**k with a 24-bit m: a table has 2**k * 2/pi modulo 4, in a first part so short that
    its product with m is exact, and the rest."""
    fn = x.fn
    bits = x.bitcast("i32")
    exponent = bits.lshr(23) & 0xFF
    low = 127 + _HUGE
    row = exponent.cmp("ult", low).select(0, exponent.cmp("ugt", 254).select(0, exponent - low))
    m = ((bits & 0x7FFFFF) | 0x800000).convert("sitofp", "double")
    m = x.cmp("olt", 0.0).select(-m, m)
    first, rest = _two_over_pi()
    turns = m * fn.lookup("tl.two_over_pi.first", first, row)
    turns = turns - fn.intrinsic("roundeven", turns * 0.25) * 4.0
    small = m * fn.lookup("tl.two_over_pi.rest", rest, row)
    n = fn.intrinsic("roundeven", turns + small)
    r = ((turns - n) + small) * (math.pi / 2)
    return r.convert("fptrunc", "float"), n.convert("fptosi", "i32")


@functools.cache
def _two_over_pi() -> tuple[tuple[float, ...], tuple[float, ...]]:
    """For each k of a float32 of at least 2**_HUGE: 2**k * 2/pi mod 4, as 26 fractional bits
    and the rest."""
    first, rest = [], []
    for exponent in range(_HUGE, 128):
        scaled = (_TWO_OVER_PI << (exponent - 23)) & ((4 << 320) - 1)
        head = scaled >> (320 - 26)
        first.append(head / 2.0**26)
        rest.append((scaled - (head << (320 - 26))) / 2.0**320)
    return tuple(first), tuple(rest)


def _sin_poly(r: Value) -> Value:
    square = r * r
    return _fma(r * square, _poly(square, _SIN), r)


def _cos_poly(r: Value) -> Value:
    square = r * r
    return _fma(square * square, _poly(square, _COS), _fma(square, -0.5, 1.0))


def _sin_or_cos(x: Value, turn: int) -> Value:
    r, quadrant = _reduce(x)
    q = quadrant + turn
    y = (q & 1).cmp("ne", 0).select(_cos_poly(r), _sin_poly(r))
    sign = (q & 2) << 30
    return _finite_only(x, (y.bitcast("i32") ^ sign).bitcast("float"))


def _finite_only(x: Value, y: Value) -> Value:
    return _abs(x).cmp("ult", _INF).select(y, _nan(x))


def _sin(x: Value) -> Value:
    return x.cmp("oeq", 0.0).select(x, _sin_or_cos(x, 0))


def _cos(x: Value) -> Value:
    return _sin_or_cos(x, 1)


def _tan(x: Value) -> Value:
    r, quadrant = _reduce(x)
    s, c = _sin_poly(r), _cos_poly(r)
    odd = (quadrant & 1).cmp("ne", 0)
    y = odd.select(-c, s) / odd.select(s, c)
    return x.cmp("oeq", 0.0).select(x, _finite_only(x, y))


def _atan_unit(t: Value) -> Value:
    square = t * t
    return _fma(t * square, _poly(square, _ATAN), t)


def _atan(x: Value) -> Value:
    a = _abs(x)
    far = a.cmp("ogt", 1.0)
    r = _atan_unit(far.select(1.0 / a, a))
    return _like(far.select(_PIO2_HIGH - (r - _PIO2_LOW), r), x)


def _asin_unit(t: Value) -> Value:
    """asin of |t| <= 1/2."""
    square = t * t
    return _fma(t * square, _poly(square, _ASIN), t)


def _asin(x: Value) -> Value:
    a = _abs(x)
    large = a.cmp("ogt", 0.5)
    root = _sqrt((1.0 - a) * 0.5)
    r = _asin_unit(large.select(root, a))
    return _like(large.select(_PIO2_HIGH - (r + r - _PIO2_LOW), r), x)


def _acos(x: Value) -> Value:
    a = _abs(x)
    large = a.cmp("ogt", 0.5)
    root = _sqrt((1.0 - a) * 0.5)
    r = _asin_unit(large.select(root, x))
    twice = r + r
    outer = x.cmp("olt", 0.0).select(2 * _PIO2_HIGH - (twice - 2 * _PIO2_LOW), twice)
    return large.select(outer, _PIO2_HIGH - (r - _PIO2_LOW))


def _atan2(y: Value, x: Value) -> Value:
    a, b = _abs(x), _abs(y)
    steep = b.cmp("ogt", a)
    low, high = steep.select(a, b), steep.select(b, a)
    # 0/0 means 0 and inf/inf means 1: only the signs count there.
    t = high.cmp("oeq", 0.0).select(0.0, low.cmp("oeq", _INF).select(1.0, low / high))
    r = _atan_unit(t)
    r = steep.select(_PIO2_HIGH - (r - _PIO2_LOW), r)
    left = x.bitcast("i32").cmp("slt", 0)
    r = _like(left.select(2 * _PIO2_HIGH - (r - 2 * _PIO2_LOW), r), y)
    return x.cmp("uno", y).select(_nan(x), r)


# ---------------------------------------------------------------------------------- the rest


def _erf(x: Value) -> Value:
    a = _abs(x)
    small = _fma(a, _ERF_0, a * _poly(a * a, _ERF))
    t = _clamp(a, 0.0, 4.0)
    large = 1.0 - _exp(t * _poly(t, _ERFC))
    return _like(a.cmp("olt", 1.0).select(small, large), x)


def _pow(x: Value, y: Value) -> Value:
    """2**(y*log2|x|) in float64, then the many special cases."""
    a = _abs(x)
    e, f = _mantissa(a)
    m = f.convert("fpext", "double")
    s = m / (m + 2.0)
    log2 = _fma(s, _poly(s * s, _LOG2_D), e.convert("fpext", "double"))
    z = _clamp(log2 * y.convert("fpext", "double"), -200.0, 200.0)
    shifted = z + _ROUND_D
    r = z - (shifted - _ROUND_D)
    fraction = _fma(r, _poly(r, _EXP2_D), 1.0)
    exponent = shifted.bitcast("i64") + 1023
    power = fraction * (exponent << 52).bitcast("double")
    out = power.convert("fptrunc", "float")
    return _pow_edges(x, y, a, out)


def _pow_edges(x: Value, y: Value, a: Value, out: Value) -> Value:
    """C99 F.9.4.4."""
    size = _abs(y)
    whole = x.fn.intrinsic("trunc", y).cmp("oeq", y)
    half = y * 0.5
    # From the first size on at which all numbers are even, trunc(half) is half.
    odd = whole & x.fn.intrinsic("trunc", half).cmp("one", half)
    negative = x.bitcast(f"i{bits_of(x.elem)}").cmp("slt", 0)
    falling = y.cmp("olt", 0.0)
    # |x| of 0 or infinity: 0 or infinity, by the sign of y
    out = a.cmp("oeq", 0.0).select(falling.select(x._same(_INF), x._same(0.0)), out)
    out = a.cmp("oeq", _INF).select(falling.select(x._same(0.0), x._same(_INF)), out)
    shrinks = a.cmp("olt", 1.0) ^ falling
    infinite = shrinks.select(x._same(0.0), x._same(_INF))
    out = size.cmp("oeq", _INF).select(a.cmp("oeq", 1.0).select(1.0, infinite), out)
    out = (negative & odd).select(-out, out)
    wrong = negative & whole.invert() & a.cmp("one", 0.0) & a.cmp("one", _INF)
    out = wrong.select(_nan(x), out)
    out = x.cmp("uno", y).select(_nan(x), out)
    return (x.cmp("oeq", 1.0) | y.cmp("oeq", 0.0)).select(1.0, out)


_UNARY: dict[str, Callable[[Value], Value]] = {
    "exp": _exp, "exp2": _exp2, "exp10": _exp10, "log": _log, "log2": _log2, "log10": _log10,
    "log1p": _log1p, "rsqrt": _rsqrt, "rcp": _rcp, "sigmoid": _sigmoid, "tanh": _tanh, "sin": _sin,
    "cos": _cos, "tan": _tan, "sinh": _sinh, "cosh": _cosh, "asin": _asin, "acos": _acos,
    "atan": _atan, "erf": _erf,
}  # fmt: skip
_BINARY: dict[str, Callable[[Value, Value], Value]] = {
    "pow": _pow,
    "atan2": _atan2,
    "fmod": fmod,
}
FLOAT_FUNCTIONS = tuple(n for n in _UNARY if n != "rcp")


def define(module: Module, name: str, elem: str, lanes: int) -> str:
    """Makes sure that the module has the function; returns its name."""
    symbol = f"tl.{name}.{'v' if elem == 'float' else 'd'}{lanes}"
    module.define(symbol, lambda: _build(module, symbol, name, elem, lanes))
    return symbol


def _build(module: Module, symbol: str, name: str, elem: str, lanes: int) -> str:
    from . import math64  # built of the parts above; late, to break the cycle

    fn = module.new_function()
    x, y = fn.argument("x", elem, lanes), fn.argument("y", elem, lanes)
    unary, binary = (_UNARY, _BINARY) if elem == "float" else (math64.UNARY, math64.BINARY)
    if name in binary:
        return fn.internal(symbol, [x, y], binary[name](x, y))
    return fn.internal(symbol, [x], unary[name](x))
