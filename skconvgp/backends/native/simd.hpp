// Vectors of the instruction set that this file is compiled for: arithmetic by the
// compiler's vector extensions, and the few operations that these lack.
//
// No compiled function may be shared between instruction sets, as the linker could keep
// one that the processor cannot run. All functions are therefore static and inline, in
// the namespace of their instruction set, and use nothing of the standard library.
#pragma once

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#if defined(__SANITIZE_ADDRESS__)  // its checks make one large function too slow
#define SKCONVGP_INLINE static inline
#define SKCONVGP_INLINE_MEMBER inline
#define SKCONVGP_INLINE_LAMBDA
#else
#define SKCONVGP_INLINE static inline __attribute__((always_inline))
#define SKCONVGP_INLINE_MEMBER inline __attribute__((always_inline))
#define SKCONVGP_INLINE_LAMBDA __attribute__((always_inline))
#endif

namespace skconvgp {
namespace SKCONVGP_ISA {

#if defined(__AVX512F__)
constexpr int VECTOR_BYTES = 64;
#elif defined(__AVX2__)
constexpr int VECTOR_BYTES = 32;
#else
constexpr int VECTOR_BYTES = 16;
#endif

typedef float FloatV __attribute__((vector_size(VECTOR_BYTES)));
typedef double DoubleV __attribute__((vector_size(VECTOR_BYTES)));
typedef int FloatBits __attribute__((vector_size(VECTOR_BYTES)));
typedef long long DoubleBits __attribute__((vector_size(VECTOR_BYTES)));

template <class T>
struct Simd;

template <>
struct Simd<float> {
    typedef FloatV V;
    static constexpr int LANES = VECTOR_BYTES / 4;
};

template <>
struct Simd<double> {
    typedef DoubleV V;
    static constexpr int LANES = VECTOR_BYTES / 8;
};

#if defined(__AVX512F__)
SKCONVGP_INLINE FloatV set1(float x) { return (FloatV)_mm512_set1_ps(x); }
SKCONVGP_INLINE DoubleV set1(double x) { return (DoubleV)_mm512_set1_pd(x); }
SKCONVGP_INLINE FloatV fma(FloatV a, FloatV b, FloatV c) {
    return (FloatV)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
}
SKCONVGP_INLINE DoubleV fma(DoubleV a, DoubleV b, DoubleV c) {
    return (DoubleV)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
}
SKCONVGP_INLINE FloatV root(FloatV a) { return (FloatV)_mm512_sqrt_ps((__m512)a); }
SKCONVGP_INLINE DoubleV root(DoubleV a) { return (DoubleV)_mm512_sqrt_pd((__m512d)a); }
SKCONVGP_INLINE FloatV max(FloatV a, FloatV b) {
    return (FloatV)_mm512_max_ps((__m512)a, (__m512)b);
}
SKCONVGP_INLINE void stream(FloatV a, float* to) { _mm512_stream_ps(to, (__m512)a); }
SKCONVGP_INLINE DoubleV max(DoubleV a, DoubleV b) {
    return (DoubleV)_mm512_max_pd((__m512d)a, (__m512d)b);
}
// 1 / sqrt(a) with a relative error below 2^-14, infinite for 0.
constexpr bool HAS_INVERSE_ROOT = true;
SKCONVGP_INLINE FloatV inverse_root(FloatV a) {
    return (FloatV)_mm512_rsqrt14_ps((__m512)a);
}
SKCONVGP_INLINE DoubleV inverse_root(DoubleV a) {
    return (DoubleV)_mm512_rsqrt14_pd((__m512d)a);
}
#elif defined(__AVX2__) && defined(__FMA__)
SKCONVGP_INLINE FloatV set1(float x) { return (FloatV)_mm256_set1_ps(x); }
SKCONVGP_INLINE DoubleV set1(double x) { return (DoubleV)_mm256_set1_pd(x); }
SKCONVGP_INLINE FloatV fma(FloatV a, FloatV b, FloatV c) {
    return (FloatV)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}
SKCONVGP_INLINE DoubleV fma(DoubleV a, DoubleV b, DoubleV c) {
    return (DoubleV)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
}
SKCONVGP_INLINE FloatV root(FloatV a) { return (FloatV)_mm256_sqrt_ps((__m256)a); }
SKCONVGP_INLINE DoubleV root(DoubleV a) { return (DoubleV)_mm256_sqrt_pd((__m256d)a); }
SKCONVGP_INLINE FloatV max(FloatV a, FloatV b) {
    return (FloatV)_mm256_max_ps((__m256)a, (__m256)b);
}
SKCONVGP_INLINE void stream(FloatV a, float* to) { _mm256_stream_ps(to, (__m256)a); }
SKCONVGP_INLINE DoubleV max(DoubleV a, DoubleV b) {
    return (DoubleV)_mm256_max_pd((__m256d)a, (__m256d)b);
}
#elif defined(__SSE2__)
SKCONVGP_INLINE FloatV set1(float x) { return (FloatV)_mm_set1_ps(x); }
SKCONVGP_INLINE DoubleV set1(double x) { return (DoubleV)_mm_set1_pd(x); }
SKCONVGP_INLINE FloatV fma(FloatV a, FloatV b, FloatV c) { return a * b + c; }
SKCONVGP_INLINE DoubleV fma(DoubleV a, DoubleV b, DoubleV c) { return a * b + c; }
SKCONVGP_INLINE FloatV root(FloatV a) { return (FloatV)_mm_sqrt_ps((__m128)a); }
SKCONVGP_INLINE DoubleV root(DoubleV a) { return (DoubleV)_mm_sqrt_pd((__m128d)a); }
SKCONVGP_INLINE FloatV max(FloatV a, FloatV b) {
    return (FloatV)_mm_max_ps((__m128)a, (__m128)b);
}
SKCONVGP_INLINE void stream(FloatV a, float* to) { _mm_stream_ps(to, (__m128)a); }
SKCONVGP_INLINE DoubleV max(DoubleV a, DoubleV b) {
    return (DoubleV)_mm_max_pd((__m128d)a, (__m128d)b);
}
#elif defined(__aarch64__)
SKCONVGP_INLINE FloatV set1(float x) { return (FloatV)vdupq_n_f32(x); }
SKCONVGP_INLINE DoubleV set1(double x) { return (DoubleV)vdupq_n_f64(x); }
SKCONVGP_INLINE FloatV fma(FloatV a, FloatV b, FloatV c) {
    return (FloatV)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}
SKCONVGP_INLINE DoubleV fma(DoubleV a, DoubleV b, DoubleV c) {
    return (DoubleV)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b);
}
SKCONVGP_INLINE FloatV root(FloatV a) { return (FloatV)vsqrtq_f32((float32x4_t)a); }
SKCONVGP_INLINE DoubleV root(DoubleV a) { return (DoubleV)vsqrtq_f64((float64x2_t)a); }
SKCONVGP_INLINE FloatV max(FloatV a, FloatV b) {
    return (FloatV)vmaxq_f32((float32x4_t)a, (float32x4_t)b);
}
SKCONVGP_INLINE DoubleV max(DoubleV a, DoubleV b) {
    return (DoubleV)vmaxq_f64((float64x2_t)a, (float64x2_t)b);
}
#else
SKCONVGP_INLINE FloatV set1(float x) { return FloatV{x, x, x, x}; }
SKCONVGP_INLINE DoubleV set1(double x) { return DoubleV{x, x}; }
SKCONVGP_INLINE FloatV fma(FloatV a, FloatV b, FloatV c) { return a * b + c; }
SKCONVGP_INLINE DoubleV fma(DoubleV a, DoubleV b, DoubleV c) { return a * b + c; }
template <class V>
SKCONVGP_INLINE V root(V a) {
    for (int i = 0; i < int(sizeof(V) / sizeof(a[0])); ++i)
        a[i] = sizeof(a[0]) == 4 ? __builtin_sqrtf(a[i]) : __builtin_sqrt(a[i]);
    return a;
}
template <class V>
SKCONVGP_INLINE V max(V a, V b) {
    return a > b ? a : b;
}
#endif

#if !defined(__AVX512F__)
constexpr bool HAS_INVERSE_ROOT = false;
template <class V>
SKCONVGP_INLINE V inverse_root(V a) {
    return (V{} + 1) / root(a);
}
#endif

// For code that reads either numbers or vectors of them.
SKCONVGP_INLINE FloatV set1(FloatV a) { return a; }
SKCONVGP_INLINE DoubleV set1(DoubleV a) { return a; }

#if defined(__SSE2__)
// After `stream`, which goes past the cache: what follows sees what was written.
SKCONVGP_INLINE void end_streams() { _mm_sfence(); }
#else
SKCONVGP_INLINE void stream(FloatV a, float* to) { __builtin_memcpy(to, &a, sizeof a); }
SKCONVGP_INLINE void end_streams() {}
#endif

// Numbers of two vectors in turn: of their first halves, and of their second halves.
#if defined(__clang__)
#define SKCONVGP_CHOOSE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SKCONVGP_CHOOSE(a, b, ...) __builtin_shuffle(a, b, FloatBits{__VA_ARGS__})
#endif
SKCONVGP_INLINE FloatV mix_first(FloatV a, FloatV b) {
#if defined(__AVX512F__)
    return SKCONVGP_CHOOSE(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7,
                           23);
#elif defined(__AVX2__)
    return SKCONVGP_CHOOSE(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
#else
    return SKCONVGP_CHOOSE(a, b, 0, 4, 1, 5);
#endif
}
SKCONVGP_INLINE FloatV mix_second(FloatV a, FloatV b) {
#if defined(__AVX512F__)
    return SKCONVGP_CHOOSE(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30,
                           15, 31);
#elif defined(__AVX2__)
    return SKCONVGP_CHOOSE(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
#else
    return SKCONVGP_CHOOSE(a, b, 2, 6, 3, 7);
#endif
}

// The sum of all numbers of a vector.
SKCONVGP_INLINE float total(FloatV a) {
#if defined(__AVX512F__)
    return _mm512_reduce_add_ps((__m512)a);
#else
    float sum = a[0];
    for (int l = 1; l < Simd<float>::LANES; ++l) sum += a[l];
    return sum;
#endif
}

SKCONVGP_INLINE FloatV magnitude(FloatV a) {
    return (FloatV)((FloatBits)a & 0x7fffffff);
}
SKCONVGP_INLINE DoubleV magnitude(DoubleV a) {
    return (DoubleV)((DoubleBits)a & 0x7fffffffffffffffLL);
}

// The number a, which must not be negative, with the sign of b.
SKCONVGP_INLINE FloatV with_sign(FloatV a, FloatV b) {
    return (FloatV)((FloatBits)a | ((FloatBits)b & int(0x80000000u)));
}
SKCONVGP_INLINE DoubleV with_sign(DoubleV a, DoubleV b) {
    return (DoubleV)((DoubleBits)a |
                     ((DoubleBits)b & (long long)(0x8000000000000000ull)));
}

}  // namespace SKCONVGP_ISA
}  // namespace skconvgp
