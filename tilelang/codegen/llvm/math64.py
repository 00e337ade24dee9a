# SPDX-License-Identifier: Apache-2.0
"""Mathematical functions of float64 vectors, as LLVM functions that we write.

In: a function's name and a lane count. Out: what `math.py` gives for float32, of doubles. Errors in
units in the last place of the float64 result, as the tests measure them:

    exp exp2 log log2 log10 sin cos                                                        1 ULP
    exp10 pow log1p rsqrt cosh asin acos                                                   2 ULP
    sigmoid tanh sinh tan atan atan2 erf                                                   3 ULP

Angles from 2**20 on are reduced by the C library, behind a branch that is hardly ever taken.
Polynomials are interpolations at Chebyshev points in 60 digits, of the form and on the interval
that stand beside them; their own error is below 2**-56.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .math import (
    _INF,
    _abs,
    _clamp,
    _finite_only,
    _fma,
    _like,
    _log_edges,
    _nan,
    _poly,
    _pow_edges,
    _rsqrt,
    _sqrt,
)
from .remainder import fmod

if TYPE_CHECKING:
    from collections.abc import Callable

    from .writer import Value

# e**r = 1 + r + r*r*P(r), |r| <= ln(2)/2
_EXP = (
    0.5, 0.1666666666666667, 0.04166666666666667, 0.008333333333326136, 0.0013888888888883748,
    0.00019841269874820627, 2.4801587325547743e-05, 2.7557255400206422e-06, 2.75572736431103e-07,
    2.5105217004720745e-08, 2.0914686968086876e-09,
)  # fmt: skip
# ln((1+s)/(1-s)) = 2*s + s**3*P(s*s), |s| <= 0.1716; and with 2/3 + s*s*Q(s*s) for P
_LOG = (
    0.6666666666666666, 0.4000000000000088, 0.28571428570801954, 0.22222222392089008,
    0.18181795600060793, 0.15386241881938595, 0.13268714792348096, 0.1308723619665962,
)  # fmt: skip
_LOG_FIFTH = (
    0.4, 0.2857142857142937, 0.22222222221654733, 0.1818181833565416, 0.15384594934597917,
    0.13334806212100603, 0.11706195689881364, 0.11723603622905411,
)  # fmt: skip
# sin x = x + x**3*P(x*x), |x| <= pi/4;  cos x = 1 - x*x/2 + x**4*P(x*x)
_SIN = (
    -0.16666666666666666, 0.008333333333330948, -0.00019841269836756774, 2.7557316101617874e-06,
    -2.505113165023518e-08, 1.5918115263265974e-10,
)  # fmt: skip
_COS = (
    0.041666666666666664, -0.0013888888888887398, 2.480158729876456e-05, -2.7557317271145144e-07,
    2.087614614655861e-09, -1.1382623647474604e-11,
)  # fmt: skip
# atan x = x + x**3*P(x*x), |x| <= tan(pi/8)
_ATAN = (
    -0.3333333333333333, 0.19999999999995516, -0.14285714284665682, 0.11111111015187018,
    -0.0909090457530649, 0.07692183125376892, -0.06664510525508936, 0.05858140904866328,
    -0.050854078345894844, 0.03923044778479309, -0.019175404711104935,
)  # fmt: skip
# asin x = x + x**3*P(x*x), |x| <= 1/2
_ASIN = (
    0.16666666666666669, 0.0749999999999843, 0.04464285714635991, 0.030381944138170334,
    0.022372172957091412, 0.0173523923576202, 0.013971218548752051, 0.011479121292946488,
    0.010323189996124416, 0.005455850831324314, 0.017405496291324245, -0.014859264309819778,
    0.028762997617254003,
)  # fmt: skip
# erf x = x*2/sqrt(pi) + x**3*P(x*x), |x| <= 1;  1 - erf x = e**(-x*x) * P((x-2)/(x+2)) to x = 6
_ERF_0 = 1.1283791670955126
_ERF = (
    -0.3761263890318375, 0.11283791670954388, -0.026866170644835378, 0.005223977620813342,
    -0.0008548326651491142, 0.00012055315509827725, -1.4925137231361603e-05, 1.6452392414414235e-06,
    -1.624658795725963e-07, 1.3884625209147687e-08, -8.101869549660952e-10,
)  # fmt: skip
_ERFC = (
    0.25539567631050575, -0.4271858474139584, 0.24165819424246646, -0.07897858101573213,
    0.003732892404327764, 0.006997461739200444, -0.0008471432509203844, -0.000981977026567889,
    4.355560219515472e-05, 0.00017436116545392264, 2.7525480361206068e-05, -2.7579864674305787e-05,
    -1.396807230177146e-05, 1.392621183618803e-06, 3.789215643758464e-06, 1.1780775215625583e-06,
    -5.322696855655786e-07, -4.215301054238321e-07,
)  # fmt: skip

# High parts have 42 bits (times an exponent they are exact) or 21 (times 21 bits), or they are the
# rounded constant.
_LN2 = (0.6931471805598903, 5.497923018708371e-14)
_LN2_ROUNDED = 0.6931471805599453
_LOG10_2 = (0.30102999566383914, 1.42050232272661e-13)
_LN10 = (2.302585092994046, -2.1707562233822494e-16)
_LOG2E_21 = (1.4426946640014648, 3.768874985636099e-07)
_LOG10E_21 = (0.4342944622039795, 1.9699272335463627e-08)
_LOG2E = (1.4426950408889634, 2.0355273740931033e-17)
_TWO_THIRDS = (0.6666666666666666, 3.700743415417188e-17)
_PIO2 = (1.5707963267948966, 6.123233995736766e-17)
_PIO4 = (0.7853981633974483, 3.061616997868383e-17)
_PIO2_33 = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21)  # 33 + 33 + 53 bits
_TAN_PIO8, _TAN_3PIO8 = 0.41421356237309503, 2.414213562373095
_ROUND = 6755399441055744.0  # 1.5 * 2**52: adding it rounds to an integer, then in the low bits
_ROUND_BITS = 0x4338000000000000
_HUGE = float(1 << 20)
_LEAST_NORMAL = 2.2250738585072014e-308


def _split(x: Value, scale: float) -> tuple[Value, Value]:
    """n = round(x * scale) as a float and as an integer (of a NaN: some integer)."""
    shifted = _fma(x, scale, _ROUND)
    return shifted - _ROUND, shifted.bitcast("i64") - _ROUND_BITS


def _scale(x: Value, whole: Value, n: Value) -> Value:
    """x * 2**n, |n| <= 2000: in two steps, as `math._scale`."""
    at_once = x.fn.scaled(x, whole)
    if at_once is not None:
        return at_once
    first = n.ashr(1)
    power = ((first + 1023) << 52).bitcast("double")
    return x * power * ((n - first + 1023) << 52).bitcast("double")


def _top(x: Value) -> Value:
    """The upper 21 bits of a number."""
    return (x.bitcast("i64") & -(1 << 32)).bitcast("double")


def _product(a: Value, b: Value) -> tuple[Value, Value]:
    """a * b as a rounded product and its error, exact."""
    p = a * b
    if a.fn.module.features & {"fma", "avx512f", "neon"}:
        return p, a.fn.intrinsic("fma", a, b, -p)

    def halves(x: Value) -> tuple[Value, Value]:
        big = x * 134217729.0  # 2**27 + 1 (Dekker)
        high = big - (big - x)
        return high, x - high

    (ah, al), (bh, bl) = halves(a), halves(b)
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


# ---------------------------------------------------------------------------------- exponentials


def _tail(r: Value) -> Value:
    """e**r - 1 for |r| <= 0.35."""
    return _fma(r * r, _poly(r, _EXP), r)


def _reduced(x: Value) -> tuple[Value, Value, Value]:
    """x = n*ln(2) + r: (n as a float, as an integer, r)."""
    whole, n = _split(x, 1 / _LN2_ROUNDED)
    r = _fma(whole, -_LN2[1], _fma(whole, -_LN2[0], x))
    return whole, n, r


def _exp_shifted(x: Value, shift: int) -> Value:
    """e**x * 2**shift."""
    x = _clamp(x, -760.0, 712.0)
    whole, n, r = _reduced(x)
    return _scale(_tail(r) + 1.0, whole + float(shift) if shift else whole, n + shift)


def _exp(x: Value) -> Value:
    return _exp_shifted(x, 0)


def _exp2(x: Value) -> Value:
    x = _clamp(x, -1100.0, 1030.0)
    whole, n = _split(x, 1.0)
    return _scale(_tail((x - whole) * _LN2_ROUNDED) + 1.0, whole, n)


def _exp10(x: Value) -> Value:
    x = _clamp(x, -330.0, 310.0)
    whole, n = _split(x, 1 / (_LOG10_2[0] + _LOG10_2[1]))
    r = _fma(whole, -_LOG10_2[1], _fma(whole, -_LOG10_2[0], x))
    return _scale(_tail(_fma(r, _LN10[0], r * _LN10[1])) + 1.0, whole, n)


def _expm1(x: Value) -> Value:
    """e**x - 1 for 0 <= x <= 700."""
    whole, n, r = _reduced(x)
    power = _scale(x._same(1.0), whole, n)
    return _fma(power, _tail(r), power - 1.0)


def _sigmoid(x: Value) -> Value:
    z = _exp(-_abs(x))
    return x.cmp("olt", 0.0).select(z, 1.0) / (z + 1.0)


def _tanh(x: Value) -> Value:
    a = _clamp(_abs(x), 0.0, 22.0)
    e = _expm1(a + a)
    return _like(e / (e + 2.0), x)


def _sinh(x: Value) -> Value:
    a = _abs(x)
    e = _expm1(_clamp(a, 0.0, 1.0))
    small = (e + e / (e + 1.0)) * 0.5
    half = _exp_shifted(a, -1)
    return _like(a.cmp("olt", 1.0).select(small, half - 0.25 / half), x)


def _cosh(x: Value) -> Value:
    half = _exp_shifted(_abs(x), -1)
    return half + 0.25 / half


# ---------------------------------------------------------------------------------- logarithms


def _mantissa(x: Value) -> tuple[Value, Value]:
    """x = 2**e * (1+f), 1+f in [sqrt(1/2), sqrt(2)), for positive finite x: (e as a float, f)."""
    tiny = x.cmp("olt", _LEAST_NORMAL)
    bits = tiny.select(x * 2.0**54, x).bitcast("i64")
    exponent = (bits - 0x3FE6A09E667F3BCD).ashr(52)
    one_plus_f = (bits - (exponent << 52)).bitcast("double")
    e = exponent.convert("trunc", "i32").convert("sitofp", "double")
    return e - tiny.select(x._same(54.0), x._same(0.0)), one_plus_f - 1.0


def _log_parts(f: Value) -> tuple[Value, Value]:
    """ln(1+f) = f - (f*f/2 - rest): (f*f/2, rest)."""
    s = f / (f + 2.0)
    square = s * s
    half = f * f * 0.5
    return half, s * _fma(square, _poly(square, _LOG), half)


def _log_finite(x: Value) -> Value:
    e, f = _mantissa(x)
    half, rest = _log_parts(f)
    return _fma(e, _LN2[0], f - (half - _fma(e, _LN2[1], rest)))


def _log(x: Value) -> Value:
    return _log_edges(x, _log_finite(x))


def _log_base(x: Value, factor: tuple[float, float], exponent: tuple[float, float]) -> Value:
    """ln(x) * factor; `exponent` is what one power of two gives."""
    e, f = _mantissa(x)
    half, rest = _log_parts(f)
    high = _top(f - half)
    low = (f - high) - half + rest
    y = high * factor[0]
    tail = (low + high) * factor[1] + low * factor[0] + e * exponent[1]
    whole = e * exponent[0]
    total = whole + y
    return _log_edges(x, ((whole - total) + y + tail) + total)


def _log2(x: Value) -> Value:
    return _log_base(x, _LOG2E_21, (1.0, 0.0))


def _log10(x: Value) -> Value:
    return _log_base(x, _LOG10E_21, _LOG10_2)


def _log1p(x: Value) -> Value:
    u = x + 1.0
    lost = u.cmp("olt", _INF).select((x - (u - 1.0)) / u, 0.0)
    y = _log_finite(u) + lost
    y = x.cmp("oeq", _INF).select(_INF, y)
    y = u.cmp("oeq", 0.0).select(-_INF, y)
    y = x.cmp("ult", -1.0).select(_nan(x), y)
    return _abs(x).cmp("olt", 2.0**-54).select(x, y)


def _log2_pair(a: Value) -> tuple[Value, Value]:
    """log2 of a positive number as a sum of two, to 2**-64 of its size."""
    e, f = _mantissa(a)
    d = f + 2.0
    d_low = f - (d - 2.0)
    inverse = 1.0 / d
    s = f * inverse
    p, p_low = _product(s, d)
    s_low = (((f - p) - p_low) - s * d_low) * inverse
    u, u_low = _product(s, s)
    u_low = u_low + s * s_low * 2.0
    q = u * _poly(u, _LOG_FIFTH)
    c = q + _TWO_THIRDS[0]
    c_low = (_TWO_THIRDS[0] - c) + q + _TWO_THIRDS[1]
    cube, cube_low = _product(s, u)
    cube_low = cube_low + s * u_low + s_low * u
    t, t_low = _product(cube, c)
    t_low = t_low + cube * c_low + cube_low * c
    twice = s + s
    ln = twice + t
    ln_low = ((twice - ln) + t) + (s_low + s_low + t_low)
    w, w_low = _product(ln, ln._same(_LOG2E[0]))
    w_low = w_low + ln * _LOG2E[1] + ln_low * _LOG2E[0]
    z = e + w
    return z, ((e - z) + w) + w_low


def _pow(x: Value, y: Value) -> Value:
    """2**(y*log2|x|) with a logarithm of twice the precision, then the many special cases."""
    a = _abs(x)
    high, low = _log2_pair(a)
    limited = _clamp(y, -(2.0**66), 2.0**66)  # beyond it every power is 0, 1 or infinite
    z, z_low = _product(limited, high)
    inside = _abs(z).cmp("olt", 1100.0)
    z_low = inside.select(_fma(limited, low, z_low), 0.0)
    z = _clamp(z, -1100.0, 1100.0)
    whole, n = _split(z, 1.0)
    r = (z - whole) + z_low
    return _pow_edges(x, y, a, _scale(_tail(r * _LN2_ROUNDED) + 1.0, whole, n))


# ---------------------------------------------------------------------------------- circle


def _reduce(x: Value) -> tuple[Value, Value, Value]:
    """x - n*pi/2 in [-pi/4, pi/4] as a sum of two, and n mod 4, for |x| < 2**20."""
    shifted = _fma(x, 2 / _PIO2[0] / 2, _ROUND)
    n = shifted - _ROUND
    first = x - n * _PIO2_33[0]  # exact: 20 + 33 bits
    product = n * _PIO2_33[1]
    t = first - product
    back = first - t
    lost = (first - (t + back)) + (back - product)
    rest = n * _PIO2_33[2] - lost
    r = t - rest
    return r, (t - r) - rest, shifted.bitcast("i64")


def _sin_poly(r: Value, low: Value) -> Value:
    square = r * r
    cube = square * r
    tail = _fma(square, _poly(square, _SIN[1:]) * cube, -low * square * 0.5)
    return r + ((tail + low) + cube * _SIN[0])


def _cos_poly(r: Value, low: Value) -> Value:
    square = r * r
    half = square * 0.5
    w = 1.0 - half
    return w + (((1.0 - w) - half) + (square * square * _poly(square, _COS) - r * low))


def _by_library(name: str, x: Value, y: Value) -> Value:
    """`y`, except for the huge angles."""
    fn = x.fn
    huge = _abs(x).cmp("oge", _HUGE)

    def with_huge_ones() -> tuple[Value]:
        lanes = [fn.call(name, "double", 1, [x.lane(k)]) for k in range(x.lanes)]
        return (huge.select(fn.build_vector(lanes), y),)

    (out,) = fn.unless(fn.any_lane(huge) ^ True, (y,), with_huge_ones)
    return out


def _sin_or_cos(x: Value, turn: int) -> Value:
    r, low, quadrant = _reduce(x)
    q = quadrant + turn
    y = (q & 1).cmp("ne", 0).select(_cos_poly(r, low), _sin_poly(r, low))
    sign = (q & 2) << 62
    return (y.bitcast("i64") ^ sign).bitcast("double")


def _sin(x: Value) -> Value:
    y = _by_library("sin", x, _sin_or_cos(x, 0))
    return x.cmp("oeq", 0.0).select(x, _finite_only(x, y))


def _cos(x: Value) -> Value:
    return _finite_only(x, _by_library("cos", x, _sin_or_cos(x, 1)))


def _tan(x: Value) -> Value:
    r, low, quadrant = _reduce(x)
    s, c = _sin_poly(r, low), _cos_poly(r, low)
    odd = (quadrant & 1).cmp("ne", 0)
    y = odd.select(-c, s) / odd.select(s, c)
    return x.cmp("oeq", 0.0).select(x, _finite_only(x, _by_library("tan", x, y)))


def _atan_positive(a: Value) -> Value:
    middle, far = a.cmp("ogt", _TAN_PIO8), a.cmp("ogt", _TAN_3PIO8)
    top = far.select(-1.0, middle.select(a - 1.0, a))
    bottom = far.select(a, middle.select(a + 1.0, 1.0))
    t = top / bottom
    square = t * t
    r = _fma(t * square, _poly(square, _ATAN), t)
    base = far.select(a._same(_PIO2[0]), middle.select(a._same(_PIO4[0]), a._same(0.0)))
    low = far.select(a._same(_PIO2[1]), middle.select(a._same(_PIO4[1]), a._same(0.0)))
    return base + (r + low)


def _atan(x: Value) -> Value:
    return _like(_atan_positive(_abs(x)), x)


def _atan2(y: Value, x: Value) -> Value:
    a, b = _abs(x), _abs(y)
    steep = b.cmp("ogt", a)
    low, high = steep.select(a, b), steep.select(b, a)
    # 0/0 means 0 and inf/inf means 1: only the signs count there.
    t = high.cmp("oeq", 0.0).select(0.0, low.cmp("oeq", _INF).select(1.0, low / high))
    r = _atan_positive(t)
    r = steep.select(_PIO2[0] - (r - _PIO2[1]), r)
    left = x.bitcast("i64").cmp("slt", 0)
    r = _like(left.select(2 * _PIO2[0] - (r - 2 * _PIO2[1]), r), y)
    return x.cmp("uno", y).select(_nan(x), r)


def _root(a: Value) -> tuple[Value, Value]:
    """sqrt((1 - a)/2) as a sum of two."""
    square = (1.0 - a) * 0.5
    root = _sqrt(square)
    high = _top(root)
    total = root + high
    low = total.cmp("oeq", 0.0).select(0.0, (square - high * high) / total)
    return high, low


def _asin_rest(t: Value, square: Value) -> Value:
    """asin(t) - t, |t| <= 1/2."""
    return t * square * _poly(square, _ASIN)


def _asin(x: Value) -> Value:
    a = _abs(x)
    large = a.cmp("ogt", 0.5)
    high, low = _root(a)
    t = large.select(high + low, a)
    rest = _asin_rest(t, large.select((1.0 - a) * 0.5, a * a))
    outer = (_PIO2[0] - (high + high)) - ((low + rest) * 2.0 - _PIO2[1])
    return _like(large.select(outer, a + rest), x)


def _acos(x: Value) -> Value:
    a = _abs(x)
    large = a.cmp("ogt", 0.5)
    high, low = _root(a)
    t = large.select(high + low, x)
    rest = _asin_rest(t, large.select((1.0 - a) * 0.5, a * a))
    near = (high + (low + rest)) * 2.0
    outer = x.cmp("olt", 0.0).select(2 * _PIO2[0] - (near - 2 * _PIO2[1]), near)
    return large.select(outer, _PIO2[0] - (x - (_PIO2[1] - rest)))


# ---------------------------------------------------------------------------------- the rest


def _erf(x: Value) -> Value:
    a = _abs(x)
    square = a * a
    small = _fma(a, _ERF_0, a * square * _poly(square, _ERF))
    t = _clamp(a, 1.0, 6.0)
    large = 1.0 - _exp(-(t * t)) * _poly((t - 2.0) / (t + 2.0), _ERFC)
    return _like(a.cmp("olt", 1.0).select(small, large), x)


UNARY: dict[str, Callable[[Value], Value]] = {
    "exp": _exp, "exp2": _exp2, "exp10": _exp10, "log": _log, "log2": _log2, "log10": _log10,
    "log1p": _log1p, "rsqrt": _rsqrt, "rcp": lambda x: 1.0 / x, "sigmoid": _sigmoid, "tanh": _tanh,
    "sin": _sin, "cos": _cos, "tan": _tan, "sinh": _sinh, "cosh": _cosh, "asin": _asin,
    "acos": _acos, "atan": _atan, "erf": _erf,
}  # fmt: skip
BINARY: dict[str, Callable[[Value, Value], Value]] = {
    "pow": _pow,
    "atan2": _atan2,
    "fmod": fmod,
}
