// Fourier transforms of a few numbers, each a vector whose lanes are different images.
//
// A length is split into a power of two P and an odd number Q. As these have no common
// factor, the transform is Q transforms of length P and then P of length Q, of numbers
// in another order and without factors in between (Good 1958, Thomas 1963).
#pragma once

#include "arena.hpp"
#include "scattering_task.hpp"
#include "simd.hpp"

namespace skconvgp {
namespace SKCONVGP_ISA {

struct Complex {
    FloatV r, i;
};

constexpr double PI = 3.14159265358979323846264338327950288;

constexpr double sine_series(double x) {
    double term = x, sum = x;
    for (int k = 1; k < 20; ++k) {
        term *= -x * x / ((2 * k) * (2 * k + 1));
        sum += term;
    }
    return sum;
}

// sin(2 pi k / n)
constexpr double sine(long k, long n) {
    k %= n;
    const bool is_negative = 2 * k > n;
    if (is_negative) k = n - k;
    double x = 2 * PI * double(k) / double(n);
    if (x > PI / 2) x = PI - x;
    return is_negative ? -sine_series(x) : sine_series(x);
}

// The cosines and sines of all multiples of the N-th part of a circle.
template <int N>
struct Circle {
    float cosines[N] = {}, sines[N] = {};
    constexpr Circle() {
        for (int k = 0; k < N; ++k) {
            cosines[k] = float(sine(4 * k + N, 4 * N));
            sines[k] = float(sine(k, N));
        }
    }
};

template <int N>
constexpr Circle<N> circle{};

// The transform of N numbers with real parts r and imaginary parts i, in place. That of
// odd N uses that factors of k and N - k are conjugate.
template <int N>
struct Fourier {
    SKCONVGP_INLINE_MEMBER static void run(FloatV* r, FloatV* i) {
        constexpr int HALF = (N - 1) / 2;
        FloatV sum_r[HALF], sum_i[HALF], difference_r[HALF], difference_i[HALF];
        FloatV total_r = r[0], total_i = i[0];
#pragma GCC unroll 8
        for (int k = 0; k < HALF; ++k) {
            sum_r[k] = r[k + 1] + r[N - 1 - k];
            sum_i[k] = i[k + 1] + i[N - 1 - k];
            difference_r[k] = r[k + 1] - r[N - 1 - k];
            difference_i[k] = i[k + 1] - i[N - 1 - k];
            total_r += sum_r[k];
            total_i += sum_i[k];
        }
        const FloatV first_r = r[0], first_i = i[0];
#pragma GCC unroll 8
        for (int j = 1; j <= HALF; ++j) {
            FloatV even_r = first_r, even_i = first_i, odd_r{}, odd_i{};
#pragma GCC unroll 8
            for (int k = 0; k < HALF; ++k) {
                const FloatV c = set1(circle<N>.cosines[j * (k + 1) % N]);
                const FloatV s = set1(circle<N>.sines[j * (k + 1) % N]);
                even_r = fma(sum_r[k], c, even_r);
                even_i = fma(sum_i[k], c, even_i);
                odd_r = k ? fma(difference_r[k], s, odd_r) : difference_r[k] * s;
                odd_i = k ? fma(difference_i[k], s, odd_i) : difference_i[k] * s;
            }
            r[j] = even_r + odd_i;
            i[j] = even_i - odd_r;
            r[N - j] = even_r - odd_i;
            i[N - j] = even_i + odd_r;
        }
        r[0] = total_r;
        i[0] = total_i;
    }
};

template <>
struct Fourier<1> {
    SKCONVGP_INLINE_MEMBER static void run(FloatV*, FloatV*) {}
};

template <>
struct Fourier<2> {
    SKCONVGP_INLINE_MEMBER static void run(FloatV* r, FloatV* i) {
        const FloatV a = r[0], b = i[0];
        r[0] = a + r[1];
        i[0] = b + i[1];
        r[1] = a - r[1];
        i[1] = b - i[1];
    }
};

template <>
struct Fourier<4> {
    SKCONVGP_INLINE_MEMBER static void run(FloatV* r, FloatV* i) {
        const FloatV a_r = r[0] + r[2], a_i = i[0] + i[2];
        const FloatV b_r = r[0] - r[2], b_i = i[0] - i[2];
        const FloatV c_r = r[1] + r[3], c_i = i[1] + i[3];
        const FloatV d_r = r[1] - r[3], d_i = i[1] - i[3];
        r[0] = a_r + c_r;
        i[0] = a_i + c_i;
        r[1] = b_r + d_i;
        i[1] = b_i - d_r;
        r[2] = a_r - c_r;
        i[2] = a_i - c_i;
        r[3] = b_r - d_i;
        i[3] = b_i + d_r;
    }
};

template <>
struct Fourier<8> {
    SKCONVGP_INLINE_MEMBER static void run(FloatV* r, FloatV* i) {
        FloatV even_r[4] = {r[0], r[2], r[4], r[6]};
        FloatV even_i[4] = {i[0], i[2], i[4], i[6]};
        FloatV odd_r[4] = {r[1], r[3], r[5], r[7]};
        FloatV odd_i[4] = {i[1], i[3], i[5], i[7]};
        Fourier<4>::run(even_r, even_i);
        Fourier<4>::run(odd_r, odd_i);
        const FloatV h = set1(0.70710678118654752440f), minus = FloatV{} - h;
        const FloatV first_r = odd_r[1] + odd_i[1], first_i = odd_i[1] - odd_r[1];
        const FloatV third_r = odd_i[3] - odd_r[3], third_i = odd_r[3] + odd_i[3];
        r[0] = even_r[0] + odd_r[0];
        i[0] = even_i[0] + odd_i[0];
        r[4] = even_r[0] - odd_r[0];
        i[4] = even_i[0] - odd_i[0];
        r[2] = even_r[2] + odd_i[2];
        i[2] = even_i[2] - odd_r[2];
        r[6] = even_r[2] - odd_i[2];
        i[6] = even_i[2] + odd_r[2];
        r[1] = fma(first_r, h, even_r[1]);
        i[1] = fma(first_i, h, even_i[1]);
        r[5] = fma(first_r, minus, even_r[1]);
        i[5] = fma(first_i, minus, even_i[1]);
        r[3] = fma(third_r, h, even_r[3]);
        i[3] = fma(third_i, minus, even_i[3]);
        r[7] = fma(third_r, minus, even_r[3]);
        i[7] = fma(third_i, h, even_i[3]);
    }
};

// The transform of A B numbers by those of A numbers, factors, and those of B numbers
// (Cooley and Tukey 1965).
template <int A, int B>
struct Product {
    SKCONVGP_INLINE_MEMBER static void run(FloatV* r, FloatV* i) {
        constexpr int N = A * B;
        FloatV between_r[N], between_i[N];
        for (int q = 0; q < B; ++q) {
            FloatV own_r[A], own_i[A];
#pragma GCC unroll 16
            for (int p = 0; p < A; ++p) {
                own_r[p] = r[q + B * p];
                own_i[p] = i[q + B * p];
            }
            Fourier<A>::run(own_r, own_i);
#pragma GCC unroll 16
            for (int k = 0; k < A; ++k) {
                const FloatV c = set1(circle<N>.cosines[q * k]);
                const FloatV s = set1(circle<N>.sines[q * k]);
                between_r[k * B + q] = fma(own_i[k], s, own_r[k] * c);
                between_i[k * B + q] = own_i[k] * c - own_r[k] * s;
            }
        }
        for (int k = 0; k < A; ++k) {
            FloatV *const own_r = between_r + k * B, *const own_i = between_i + k * B;
            Fourier<B>::run(own_r, own_i);
#pragma GCC unroll 16
            for (int p = 0; p < B; ++p) {
                r[k + A * p] = own_r[p];
                i[k + A * p] = own_i[p];
            }
        }
    }
};

template <>
struct Fourier<16> : Product<4, 4> {};
template <>
struct Fourier<32> : Product<8, 4> {};
template <>
struct Fourier<64> : Product<8, 8> {};
template <>
struct Fourier<128> : Product<16, 8> {};
template <>
struct Fourier<256> : Product<16, 16> {};

// That of a length that has no code of its own.
static void transform_odd(const FourierLength& length, FloatV* r, FloatV* i) {
    const int n = length.odd, half = (n - 1) / 2;
    FloatV sum_r[LARGEST_ODD / 2], sum_i[LARGEST_ODD / 2];
    FloatV difference_r[LARGEST_ODD / 2], difference_i[LARGEST_ODD / 2];
    const FloatV first_r = r[0], first_i = i[0];
    for (int k = 0; k < half; ++k) {
        sum_r[k] = r[k + 1] + r[n - 1 - k];
        sum_i[k] = i[k + 1] + i[n - 1 - k];
        difference_r[k] = r[k + 1] - r[n - 1 - k];
        difference_i[k] = i[k + 1] - i[n - 1 - k];
        r[0] += sum_r[k];
        i[0] += sum_i[k];
    }
    for (int j = 1; j <= half; ++j) {
        FloatV even_r = first_r, even_i = first_i, odd_r{}, odd_i{};
        for (int k = 0, at = j; k < half; ++k, at = at + j < n ? at + j : at + j - n) {
            const FloatV c = set1(length.cosines[at]), s = set1(length.sines[at]);
            even_r = fma(sum_r[k], c, even_r);
            even_i = fma(sum_i[k], c, even_i);
            odd_r = fma(difference_r[k], s, odd_r);
            odd_i = fma(difference_i[k], s, odd_i);
        }
        r[j] = even_r + odd_i;
        i[j] = even_i - odd_r;
        r[n - j] = even_r - odd_i;
        i[n - j] = even_i + odd_r;
    }
}

template <int P, class Load>
SKCONVGP_INLINE void transform_evens(const FourierLength& length, const Load& load,
                                     Complex* between) {
    for (int q = 0; q < length.odd; ++q) {
        const int* const in = length.in + q * P;
        FloatV r[P], i[P];
#pragma GCC unroll 16
        for (int p = 0; p < P; ++p) load(in[p], r[p], i[p]);
        Fourier<P>::run(r, i);
#pragma GCC unroll 16
        for (int p = 0; p < P; ++p) between[q * P + p] = Complex{r[p], i[p]};
    }
}

template <int Q, class Store>
SKCONVGP_INLINE void transform_odds(const FourierLength& length, const Complex* between,
                                    const Store& store) {
    const int P = length.even;
    for (int p = 0; p < P; ++p) {
        const int* const out = length.out + p * Q;
        FloatV r[Q], i[Q];
#pragma GCC unroll 16
        for (int q = 0; q < Q; ++q) {
            r[q] = between[q * P + p].r;
            i[q] = between[q * P + p].i;
        }
        Fourier<Q>::run(r, i);
#pragma GCC unroll 16
        for (int q = 0; q < Q; ++q) store(out[q], r[q], i[q]);
    }
}

template <class Store>
SKCONVGP_INLINE void transform_any_odds(const FourierLength& length,
                                        const Complex* between, const Store& store) {
    const int P = length.even, Q = length.odd;
    FloatV r[LARGEST_ODD], i[LARGEST_ODD];
    for (int p = 0; p < P; ++p) {
        for (int q = 0; q < Q; ++q) {
            r[q] = between[q * P + p].r;
            i[q] = between[q * P + p].i;
        }
        transform_odd(length, r, i);
        for (int q = 0; q < Q; ++q) store(length.out[p * Q + q], r[q], i[q]);
    }
}

// Where numbers are read and written, known to the compiler.
template <int P, int Q>
struct Order {
    int in[P * Q] = {}, out[P * Q] = {};
    constexpr Order() {
        for (int k = 0; k < P * Q; ++k) {
            in[k] = (k % P * Q + k / P * P) % (P * Q);
            out[k % P * Q + k % Q] = k;
        }
    }
};

template <int P, int Q, class Load, class Store>
SKCONVGP_INLINE void transform_known(const Load& load, const Store& store) {
    static constexpr Order<P, Q> order{};
    FloatV between_r[P * Q], between_i[P * Q];
#pragma GCC unroll 16
    for (int q = 0; q < Q; ++q) {
        FloatV r[P], i[P];
#pragma GCC unroll 16
        for (int p = 0; p < P; ++p) load(order.in[q * P + p], r[p], i[p]);
        Fourier<P>::run(r, i);
#pragma GCC unroll 16
        for (int p = 0; p < P; ++p) {
            between_r[q * P + p] = r[p];
            between_i[q * P + p] = i[p];
        }
    }
#pragma GCC unroll 16
    for (int p = 0; p < P; ++p) {
        FloatV r[Q], i[Q];
#pragma GCC unroll 16
        for (int q = 0; q < Q; ++q) {
            r[q] = between_r[q * P + p];
            i[q] = between_i[q * P + p];
        }
        Fourier<Q>::run(r, i);
#pragma GCC unroll 16
        for (int q = 0; q < Q; ++q) store(order.out[p * Q + q], r[q], i[q]);
    }
}

// The transform of numbers that `load(k, r, i)` reads; `store(k, r, i)` takes the
// result when all numbers have been read.
template <class Load, class Store>
SKCONVGP_INLINE void transform(const FourierLength& length, const Load& load,
                               const Store& store) {
    switch (length.n) {
        case 10:
            return transform_known<2, 5>(load, store);
        case 12:
            return transform_known<4, 3>(load, store);
        case 18:
            return transform_known<2, 9>(load, store);
        case 20:
            return transform_known<4, 5>(load, store);
        case 24:
            return transform_known<8, 3>(load, store);
        case 28:
            return transform_known<4, 7>(load, store);
        case 36:
            return transform_known<4, 9>(load, store);
        case 40:
            return transform_known<8, 5>(load, store);
        case 48:
            return transform_known<16, 3>(load, store);
        case 56:
            return transform_known<8, 7>(load, store);
        default:
            break;
    }
    Complex between[LARGEST_LENGTH];
    switch (length.even) {
        case 2:
            transform_evens<2>(length, load, between);
            break;
        case 4:
            transform_evens<4>(length, load, between);
            break;
        case 8:
            transform_evens<8>(length, load, between);
            break;
        case 16:
            transform_evens<16>(length, load, between);
            break;
        case 32:
            transform_evens<32>(length, load, between);
            break;
        case 64:
            transform_evens<64>(length, load, between);
            break;
        case 128:
            transform_evens<128>(length, load, between);
            break;
        default:
            transform_evens<256>(length, load, between);
            break;
    }
    switch (length.odd) {
        case 1:
            transform_odds<1>(length, between, store);
            break;
        case 3:
            transform_odds<3>(length, between, store);
            break;
        case 5:
            transform_odds<5>(length, between, store);
            break;
        case 7:
            transform_odds<7>(length, between, store);
            break;
        case 9:
            transform_odds<9>(length, between, store);
            break;
        default:
            transform_any_odds(length, between, store);
            break;
    }
}

}  // namespace SKCONVGP_ISA
}  // namespace skconvgp
