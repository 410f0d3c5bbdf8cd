// Expectations of activations for a vector of pairs, with their derivatives.
//
// Maps are in units in which a piecewise linear activation keeps the variance: with
// c = c(x, x'), s = sqrt(c(x, x)), r = 1 / s, q = s s', rho = c / q and u = 1 - |rho|,
//     out = max(c, mu c) + lambda q u^(3/2) P2(u),
//     lambda = (1 - slope)^2 / (1 + slope^2), mu = 2 slope / (1 + slope^2),
//     d out / d c = 1 - lambda w W(u), or, for c < 0, mu + lambda w W(u),
//     w = sqrt(u (2 - u)).
// ../warp/coefficients.hpp has the polynomials, make_coefficients.py their formulas.
#pragma once

#include "../warp/coefficients.hpp"
#include "program.hpp"
#include "simd.hpp"

namespace skconvgp {
namespace SKCONVGP_ISA {

// How roots of values that are evaluated together are computed: by the processor, or,
// if they are MIXED, some of them by steps of Newton. Which ones depends on their place
// in the row.
enum Roots { EXACT, MIXED };
template <Roots ROOTS>
SKCONVGP_INLINE constexpr bool is_by_steps(int j) {
    return ROOTS == MIXED && j % 2 == 1;
}

// The values of a pair of images for one activation: for each position the pair (s, r),
// then for each tangent ds / s; for erf, e of each position, then de. The first image
// has numbers, or vectors of them where each lane has another one.
template <class T, class One = T>
struct ImageTable {
    typedef typename Simd<T>::V V;
    static constexpr Roots ROOTS = HAS_INVERSE_ROOT ? MIXED : EXACT;  // allowed ones
    const One* one;
    const V* two;
    int positions, begin_one, begin_two;
    SKCONVGP_INLINE_MEMBER V s1(int p) const { return set1(one[2 * p]); }
    SKCONVGP_INLINE_MEMBER V r1(int p) const { return set1(one[2 * p + 1]); }
    SKCONVGP_INLINE_MEMBER V s2(int p) const { return two[2 * p]; }
    SKCONVGP_INLINE_MEMBER V r2(int p) const { return two[2 * p + 1]; }
    SKCONVGP_INLINE_MEMBER V e1(int p) const { return set1(one[p]); }
    SKCONVGP_INLINE_MEMBER V e2(int p) const { return two[p]; }
    // The table of tangent t follows n values for each position.
    // Whether both images are one, and so are their positions.
    bool is_one() const { return sizeof(One) != sizeof(T) && begin_one == begin_two; }
    SKCONVGP_INLINE_MEMBER ImageTable skip(int n, int t) const {
        const int start = (n + t) * positions;
        return {one + start, two + start, positions, begin_one, begin_two};
    }
    // From position p of the rectangle on where both images are.
    SKCONVGP_INLINE_MEMBER ImageTable at(int p, int n) const {
        return {one + n * (begin_one + p), two + n * (begin_two + p), positions, 0, 0};
    }
};

// The same for maps of one position, whose rows are rows of samples.
template <class T>
struct SampleTable {
    typedef typename Simd<T>::V V;
    static constexpr Roots ROOTS = EXACT;  // a place in a row is one in a tile
    const T* one;
    const V* two;
    ptrdiff_t stride;
    SKCONVGP_INLINE_MEMBER V s1(int p) const { return set1(one[p * stride]); }
    SKCONVGP_INLINE_MEMBER V r1(int p) const { return set1(one[p * stride + 1]); }
    SKCONVGP_INLINE_MEMBER V s2(int) const { return two[0]; }
    SKCONVGP_INLINE_MEMBER V r2(int) const { return two[1]; }
    SKCONVGP_INLINE_MEMBER V e1(int p) const { return set1(one[p * stride]); }
    SKCONVGP_INLINE_MEMBER V e2(int) const { return two[0]; }
    bool is_one() const { return false; }
    SKCONVGP_INLINE_MEMBER SampleTable skip(int n, int t) const {
        return {one + n + t, two + n + t, stride};
    }
    SKCONVGP_INLINE_MEMBER SampleTable at(int p, int) const {
        return {one + p * stride, two, stride};
    }
};

template <class T, bool POSITIVE>
struct Fits;
#define SKCONVGP_FITS(TYPE, POSITIVE, VALUE, ANGLE)                                    \
    template <>                                                                        \
    struct Fits<TYPE, POSITIVE> {                                                      \
        static constexpr auto& value = coefficients::VALUE;                            \
        static constexpr auto& angle = coefficients::ANGLE;                            \
    };
SKCONVGP_FITS(float, true, relu_positive_float, angle_float)
SKCONVGP_FITS(float, false, relu_float, angle_float)
SKCONVGP_FITS(double, true, relu_positive_double, angle_double)
SKCONVGP_FITS(double, false, relu_double, angle_double)
#undef SKCONVGP_FITS

template <class T>
struct ArcsineFit;
template <>
struct ArcsineFit<float> {
    static constexpr auto& fit = coefficients::arcsine_float;
};
template <>
struct ArcsineFit<double> {
    static constexpr auto& fit = coefficients::arcsine_double;
};

// A polynomial, lowest power first, times a factor, in registers.
template <class T, int N>
struct Polynomial {
    typedef typename Simd<T>::V V;
    V terms[N];
    SKCONVGP_INLINE_MEMBER Polynomial(const double (&given)[N], double factor) {
        for (int i = 0; i < N; ++i) terms[i] = set1(T(given[i] * factor));
    }
    SKCONVGP_INLINE_MEMBER V operator()(V u) const {
        V sum = terms[N - 1];
#pragma GCC unroll 16
        for (int i = N - 2; i >= 0; --i) sum = fma(sum, u, terms[i]);
        return sum;
    }
};

template <class T, int N>
SKCONVGP_INLINE Polynomial<T, N> polynomial(const double (&given)[N], double factor) {
    return Polynomial<T, N>(given, factor);
}

// d sqrt(u) without the unit for roots, which some processors block for longer with a
// vector than all the rest takes: a step of Newton from 1 / sqrt(u), and in double
// precision the same series up to its third power. For u > 0.
SKCONVGP_INLINE FloatV times_root(FloatV d, FloatV u) {
    const FloatV y = inverse_root(u), near = u * y, scaled = d * near;
    const FloatV rest = fma(-near, y, set1(1.0f));
    return fma(scaled * rest, set1(0.5f), scaled);
}
SKCONVGP_INLINE DoubleV times_root(DoubleV d, DoubleV u) {
    const DoubleV y = inverse_root(u), near = u * y, scaled = d * near;
    const DoubleV rest = fma(-near, y, set1(1.0));
    const DoubleV series = fma(fma(rest, set1(0.3125), set1(0.375)), rest, set1(0.5));
    return fma(scaled * rest, series, scaled);
}

template <class T, bool POSITIVE, class Table, Roots ROOTS = EXACT>
struct LeakyValue {
    typedef typename Simd<T>::V V;
    // Stands for 0, which has no inverse root: the factor of this root is 0 there, or a
    // rounding error.
    static constexpr double LEAST = ROOTS == MIXED ? 1e-30 : 0.0;
    const V* row;
    Table table;
    decltype(polynomial<T>(Fits<T, POSITIVE>::value, 1.0)) fit;
    V mu;
    SKCONVGP_INLINE_MEMBER LeakyValue(const Op& op, const V* row, Table table)
        : row(row), table(table), fit(Fits<T, POSITIVE>::value, op.lambda),
          mu(set1(T(op.mu))) {}
    // Compute the value for u = 0, d = q - |c|, and u.
    SKCONVGP_INLINE_MEMBER void distances(int p, V& kept, V& d, V& u) const {
        // Running sums may leave a negative rounding error where c should be 0. NaN is
        // kept: if one operand is NaN, max returns the second one.
        const V c = row[p];
        kept = POSITIVE ? max(V{}, c) : max(c, c * mu);
        d = fma(table.s1(p), table.s2(p), POSITIVE ? -kept : -magnitude(c));
        u = max(set1(T(LEAST)), d * (table.r1(p) * table.r2(p)));
    }
    SKCONVGP_INLINE_MEMBER V operator()(int p) const {
        V kept, d, u;
        distances(p, kept, d, u);
        return fma(d * root(u), fit(u), kept);
    }
};

// Write f(p), ..., f(p + N - 1).
template <int N, class F, class V>
SKCONVGP_INLINE void evaluate(const F& f, int p, V* out) {
#pragma GCC unroll 8
    for (int j = 0; j < N; ++j) out[j] = f(p + j);
}

// Several values together, step by step: while one waits for its root, others proceed.
template <int N, class T, bool POSITIVE, class Table, Roots ROOTS>
SKCONVGP_INLINE void evaluate(const LeakyValue<T, POSITIVE, Table, ROOTS>& f, int p,
                              typename Simd<T>::V* out) {
    typedef typename Simd<T>::V V;
    constexpr int TERMS = sizeof(f.fit.terms) / sizeof(V);
    V d[N], u[N], sum[N];
#pragma GCC unroll 8
    for (int j = 0; j < N; ++j) f.distances(p + j, out[j], d[j], u[j]);
#pragma GCC unroll 8
    for (int j = 0; j < N; ++j)
        sum[j] = fma(f.fit.terms[TERMS - 1], u[j], f.fit.terms[TERMS - 2]);
#pragma GCC unroll 16
    for (int i = TERMS - 3; i >= 0; --i)
#pragma GCC unroll 8
        for (int j = 0; j < N; ++j) sum[j] = fma(sum[j], u[j], f.fit.terms[i]);
#pragma GCC unroll 8
    for (int j = 0; j < N; ++j)
        d[j] = is_by_steps<ROOTS>(j) ? times_root(d[j], u[j]) : d[j] * root(u[j]);
#pragma GCC unroll 8
    for (int j = 0; j < N; ++j) out[j] = fma(d[j], sum[j], out[j]);
}

constexpr double PI = 3.14159265358979323846;

// Values of two maps.
template <class V>
struct Two {
    V one, two;
    SKCONVGP_INLINE_MEMBER Two operator-(const Two& other) const {
        return {one - other.one, two - other.two};
    }
    SKCONVGP_INLINE_MEMBER void operator+=(const Two& other) {
        one += other.one;
        two += other.two;
    }
    SKCONVGP_INLINE_MEMBER void operator-=(const Two& other) {
        one -= other.one;
        two -= other.two;
    }
};

// Uses of the slopes of an activation. With theta the angle between the two vectors,
// the slope by c is 1 - lambda theta / pi, or mu + lambda theta / pi for c < 0, and the
// slope by log q is lambda q sin(theta) / pi.

// Slopes are written to memory, for derivatives that are computed later.
template <class T>
struct LeakySlopes {
    typedef typename Simd<T>::V V;
    typedef V Result;
    static constexpr int AT_ONCE = 4;  // values that registers suffice for
    V *by_c, *by_q;
    template <int N>
    SKCONVGP_INLINE_MEMBER void put(int p, const V* values, const V* found_by_c,
                                    const V* found_by_q, V* out) const {
#pragma GCC unroll 8
        for (int j = 0; j < N; ++j) {
            by_c[p + j] = found_by_c[j];
            by_q[p + j] = found_by_q[j];
            out[j] = values[j];
        }
    }
};

// One derivative is computed together with the value.
template <class T, class Table>
struct WithTangent {
    typedef typename Simd<T>::V V;
    typedef Two<V> Result;
    static constexpr int AT_ONCE = 4;
    Table table;
    const V* row;
    SKCONVGP_INLINE_MEMBER V tangent(int p, V by_c, V by_q) const {
        return fma(by_q, table.e1(p) + table.e2(p), by_c * row[p]);
    }
    template <int N>
    SKCONVGP_INLINE_MEMBER void put(int p, const V* values, const V* by_c,
                                    const V* by_q, Result* out) const {
#pragma GCC unroll 8
        for (int j = 0; j < N; ++j)
            out[j] = {values[j], tangent(p + j, by_c[j], by_q[j])};
    }
};

// Two derivatives are computed with the value; the second is written to memory.
template <class T, class Table>
struct WithTangents {
    typedef typename Simd<T>::V V;
    typedef Two<V> Result;
    static constexpr int AT_ONCE = 3;
    WithTangent<T, Table> first, second;
    V* written;
    template <int N>
    SKCONVGP_INLINE_MEMBER void put(int p, const V* values, const V* by_c,
                                    const V* by_q, Result* out) const {
#pragma GCC unroll 8
        for (int j = 0; j < N; ++j)
            written[p + j] = second.tangent(p + j, by_c[j], by_q[j]);
        first.template put<N>(p, values, by_c, by_q, out);
    }
};

// The tangent kernel, or what it is without the covariance, times the slope by the
// covariance.
template <class T>
struct KernelSlope {
    typedef typename Simd<T>::V V;
    const V *covariance, *rest;
    V joins;  // 1, or 0 if the map does not lack the covariance
    SKCONVGP_INLINE_MEMBER V operator()(int p, V by_c) const {
        return by_c * fma(joins, covariance[p], rest[p]);
    }
};

// It is computed together with the value.
template <class T>
struct WithKernel {
    typedef typename Simd<T>::V V;
    typedef Two<V> Result;
    static constexpr int AT_ONCE = 4;
    KernelSlope<T> kernel;
    template <int N>
    SKCONVGP_INLINE_MEMBER void put(int p, const V* values, const V* by_c, const V*,
                                    Result* out) const {
#pragma GCC unroll 8
        for (int j = 0; j < N; ++j) out[j] = {values[j], kernel(p + j, by_c[j])};
    }
};

// The same, written to memory.
template <class T>
struct KernelAside {
    typedef typename Simd<T>::V V;
    typedef V Result;
    static constexpr int AT_ONCE = 4;
    KernelSlope<T> kernel;
    V* written;
    template <int N>
    SKCONVGP_INLINE_MEMBER void put(int p, const V* values, const V* by_c, const V*,
                                    Result* out) const {
#pragma GCC unroll 8
        for (int j = 0; j < N; ++j) {
            written[p + j] = kernel(p + j, by_c[j]);
            out[j] = values[j];
        }
    }
};

// The value with its slopes. It is homogeneous in c and q, and so equals c times the
// slope by c plus the slope by log q.
template <class T, bool POSITIVE, class Table, class Slopes>
struct LeakyJoint {
    typedef typename Simd<T>::V V;
    typedef typename Slopes::Result Result;
    LeakyValue<T, POSITIVE, Table> value;
    decltype(polynomial<T>(Fits<T, POSITIVE>::angle, 1.0)) angle;
    V once, twice;  // u (twice - once u) is the square of lambda sin(theta) / pi
    Slopes slopes;
    SKCONVGP_INLINE_MEMBER LeakyJoint(const Op& op, const V* row, Table table,
                                      const Slopes& slopes)
        : value(op, row, table), angle(Fits<T, POSITIVE>::angle, PI),
          once(set1(T(op.lambda / PI * op.lambda / PI))), twice(once + once),
          slopes(slopes) {}
    SKCONVGP_INLINE_MEMBER Result operator()(int p) const {
        Result out;
        together<1>(p, &out);
        return out;
    }
    template <int N>
    SKCONVGP_INLINE_MEMBER void together(int p, Result* out) const {
        constexpr int TERMS = sizeof(angle.terms) / sizeof(V);
        V c[N], by_q[N], u[N], by_c[N], values[N];
#pragma GCC unroll 8
        for (int j = 0; j < N; ++j) {
            V d;
            value.distances(p + j, c[j], d, u[j]);
            // Read now: the row may be overwritten by the output.
            if (!POSITIVE) c[j] = value.row[p + j];
            by_q[j] = d + (POSITIVE ? c[j] : magnitude(c[j]));  // q
            by_c[j] = fma(angle.terms[TERMS - 1], u[j], angle.terms[TERMS - 2]);
        }
#pragma GCC unroll 16
        for (int i = TERMS - 3; i >= 0; --i)
#pragma GCC unroll 8
            for (int j = 0; j < N; ++j) by_c[j] = fma(by_c[j], u[j], angle.terms[i]);
#pragma GCC unroll 8
        for (int j = 0; j < N; ++j) {
            const V sine = root(u[j] * fma(-once, u[j], twice));
            const V turn = by_c[j];
            by_c[j] = fma(-sine, turn, set1(T(1)));
            if (!POSITIVE) by_c[j] = c[j] < V{} ? fma(sine, turn, value.mu) : by_c[j];
            by_q[j] = by_q[j] * sine;
            values[j] = fma(c[j], by_c[j], by_q[j]);
        }
        slopes.template put<N>(p, values, by_c, by_q, out);
    }
};

template <int N, class T, bool POSITIVE, class Table, class Slopes>
SKCONVGP_INLINE void evaluate(const LeakyJoint<T, POSITIVE, Table, Slopes>& f, int p,
                              typename Slopes::Result* out) {
    constexpr int AT_ONCE = Slopes::AT_ONCE, REST = N % AT_ONCE;
#pragma GCC unroll 8
    for (int j = 0; j + AT_ONCE <= N; j += AT_ONCE)
        f.template together<AT_ONCE>(p + j, out + j);
    if (REST) f.template together<(REST ? REST : 1)>(p + N - REST, out + N - REST);
}

template <class T, class Table>
struct LeakyTangent {
    typedef typename Simd<T>::V V;
    const V *row, *by_c, *by_q;
    Table tangent;
    SKCONVGP_INLINE_MEMBER V operator()(int p) const {
        const V log_q = tangent.e1(p) + tangent.e2(p);
        return fma(by_q[p], log_q, by_c[p] * row[p]);
    }
};

// A row times slopes that have been computed already.
template <class V>
struct ScaledRow {
    const V *row, *by_c;
    SKCONVGP_INLINE_MEMBER V operator()(int p) const { return by_c[p] * row[p]; }
};

// A row that has been computed already.
template <class V>
struct RowValue {
    const V* row;
    SKCONVGP_INLINE_MEMBER V operator()(int p) const { return row[p]; }
};

// asin(|t|) for |t| <= 1, with the sign of t.
template <class T, class Fit>
SKCONVGP_INLINE typename Simd<T>::V arcsine(typename Simd<T>::V t, const Fit& fit) {
    typedef typename Simd<T>::V V;
    const V x = magnitude(t), half = set1(T(0.5));
    const auto is_large = x > half;
    const V z = is_large ? max((set1(T(1)) - x) * half, V{}) : x * x;
    const V y = is_large ? root(z) : x;
    const V angle = fma(y * z, fit(z), y);
    const V turned = set1(T(1.5707963267948966)) - (angle + angle);
    return with_sign(is_large ? turned : angle, t);
}

// out = asin(t), t = kappa c e e', e = 1 / sqrt(1 + kappa v).
template <class T, class Table>
struct ErfValue {
    typedef typename Simd<T>::V V;
    const V* row;
    Table table;
    decltype(polynomial<T>(ArcsineFit<T>::fit, 1.0)) fit;
    V kappa;
    SKCONVGP_INLINE_MEMBER ErfValue(const Op& op, const V* row, Table table)
        : row(row), table(table), fit(ArcsineFit<T>::fit, 1.0),
          kappa(set1(T(op.factor[0]))) {}
    SKCONVGP_INLINE_MEMBER V operator()(int p) const {
        const V scale = kappa * (table.e1(p) * table.e2(p));
        return arcsine<T>(row[p] * scale, fit);
    }
};

// Slopes by c, by e e', and by the logarithm of kappa.
template <class T, class Table>
struct ErfSlopes {
    typedef typename Simd<T>::V V;
    const V* row;
    Table table;
    decltype(polynomial<T>(ArcsineFit<T>::fit, 1.0)) fit;
    V kappa;
    V *by_c, *by_e, *by_kappa;
    SKCONVGP_INLINE_MEMBER ErfSlopes(const Op& op, const V* row, Table table, V* by_c,
                                     V* by_e, V* by_kappa)
        : row(row), table(table), fit(ArcsineFit<T>::fit, 1.0),
          kappa(set1(T(op.factor[0]))), by_c(by_c), by_e(by_e), by_kappa(by_kappa) {}
    SKCONVGP_INLINE_MEMBER V operator()(int p) const {
        const V c = row[p];
        const V scale = kappa * (table.e1(p) * table.e2(p));
        const V t = c * scale;
        const V u = max(set1(T(1)) - magnitude(t), set1(T(1e-30)));
        const V slope = set1(T(1)) / root(u * (set1(T(2)) - u));
        by_c[p] = slope * scale;
        by_e[p] = slope * kappa * c;
        by_kappa[p] = slope * t;
        return arcsine<T>(t, fit);
    }
};

template <class T, class Table>
struct ErfTangent {
    typedef typename Simd<T>::V V;
    const V *row, *by_c, *by_e, *by_kappa;
    Table table, tangent;
    V log_kappa;
    SKCONVGP_INLINE_MEMBER V operator()(int p) const {
        const V de = table.e2(p) * tangent.e1(p) + table.e1(p) * tangent.e2(p);
        const V sum = fma(by_e[p], de, by_c[p] * row[p]);
        return fma(by_kappa[p], log_kappa, sum);
    }
};

}  // namespace SKCONVGP_ISA
}  // namespace skconvgp
