// The operations that the 32 lanes of a warp do together. On a GPU each lane is a
// thread with one number; on a CPU an array holds the numbers of all lanes.
#pragma once

#include "opcodes.hpp"

#if defined(__CUDACC__)
#define SKCONVGP_WARP static __device__ __forceinline__
#define SKCONVGP_WARP_MEMBER __device__ __forceinline__
#define SKCONVGP_UNROLL _Pragma("unroll")
#else
#define SKCONVGP_WARP static inline
#define SKCONVGP_WARP_MEMBER inline
#define SKCONVGP_UNROLL
#endif

namespace skconvgp {
namespace warp {

#if defined(__CUDACC__)

template <class T>
using Lanes = T;
constexpr unsigned ALL = 0xffffffffu;

SKCONVGP_WARP int lane() { return threadIdx.x % LANES; }

// A number for each lane, made from the number of the lane.
template <class T, class F>
SKCONVGP_WARP Lanes<T> each_lane(const F& f) {
    return f(lane());
}
// The number of a lane: on a GPU that of the thread itself. Of each type a function: a
// covariance that became an int would be 0.
template <class T>
SKCONVGP_WARP T in_lane(T x, int) {
    return x;
}

template <class T>
SKCONVGP_WARP Lanes<T> splat(T x) {
    return x;
}

// Consecutive numbers, one for each lane; zero from lane n on.
template <class T>
SKCONVGP_WARP Lanes<T> load(const T* from, int n) {
    return lane() < n ? __ldg(from + lane()) : T(0);
}
// Each lane has a pointer of its own.
template <class T>
SKCONVGP_WARP T load_at(const T* from, long long offset) {
    return __ldg(from + offset);
}

SKCONVGP_WARP float fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
SKCONVGP_WARP double fma(double a, double b, double c) { return __fma_rn(a, b, c); }

// Fast instructions of the hardware, whose last digit or two may be wrong.
SKCONVGP_WARP float root(float x) {
    float y;
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
SKCONVGP_WARP float inverse(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
SKCONVGP_WARP double root(double x) { return __dsqrt_rn(x); }
SKCONVGP_WARP double inverse(double x) { return __drcp_rn(x); }

// NaN if one of the two operands is NaN.
#if __CUDA_ARCH__ >= 800
SKCONVGP_WARP float larger(float a, float b) {
    float y;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
    return y;
}
SKCONVGP_WARP float smaller(float a, float b) {
    float y;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
    return y;
}
#else  // the instructions of older GPUs would return the number
SKCONVGP_WARP float larger(float a, float b) { return b > a || b != b ? b : a; }
SKCONVGP_WARP float smaller(float a, float b) { return b < a || b != b ? b : a; }
#endif
SKCONVGP_WARP double larger(double a, double b) { return b > a || b != b ? b : a; }
SKCONVGP_WARP double smaller(double a, double b) { return b < a || b != b ? b : a; }
SKCONVGP_WARP float negative(float x) { return -x; }
SKCONVGP_WARP double negative(double x) { return -x; }
SKCONVGP_WARP float magnitude(float x) { return fabsf(x); }
SKCONVGP_WARP double magnitude(double x) { return fabs(x); }
SKCONVGP_WARP float with_sign(float x, float y) { return copysignf(x, y); }
SKCONVGP_WARP double with_sign(double x, double y) { return copysign(x, y); }

// x in lanes where a < b, y in the others.
template <class T>
SKCONVGP_WARP T where_less(T a, T b, T x, T y) {
    return a < b ? x : y;
}

// Lane l gets the number of lane (l + k) mod 32.
template <class T>
SKCONVGP_WARP T rotated(T x, int k) {
    return k % LANES ? __shfl_sync(ALL, x, lane() + k) : x;
}

// Lane l gets the number of lane l + k, or zero if there is no such lane.
template <class T>
SKCONVGP_WARP T shifted(T x, int k) {
    const T moved = __shfl_sync(ALL, x, lane() + k);
    return unsigned(lane() + k) < LANES ? moved : T(0);
}

// x in the first n lanes, zero in the others.
template <class T>
SKCONVGP_WARP T first_lanes(T x, int n) {
    return n >= LANES || lane() < n ? x : T(0);
}

// One part of a new row, whose column p is column p stride + offset of the given row.
// A row lies in `n_parts` parts of 32 columns. Columns outside of the given row are
// zero or, if it is circular, wrap around.
template <class T>
SKCONVGP_WARP T taken(const T* row, int n_parts, int part, int stride, int offset,
                      int size, bool circular) {
    int column = (LANES * part + lane()) * stride + offset;
    if (circular) column = (column % size + size) % size;
    T found = T(0);
    SKCONVGP_UNROLL
    for (int j = 0; j < n_parts; ++j) {
        const T here = __shfl_sync(ALL, row[j], column);
        if (column >> 5 == j && column >= 0 && column < size) found = here;
    }
    return found;
}

// Lane l gets the number of lane (l stride + k) mod 32.
template <class T>
SKCONVGP_WARP T spread(T x, int stride, int k) {
    return __shfl_sync(ALL, x, lane() * stride + k);
}
// The number of lane k.
SKCONVGP_WARP int of_lane(int x, int k) { return __shfl_sync(ALL, x, k); }

// Lane l gets the number of lane l + k if that is in its range, which begins with lane
// `first` and ends before lane `stop`; otherwise zero.
template <class T>
SKCONVGP_WARP T within(T x, int k, int first, int stop) {
    const T moved = __shfl_sync(ALL, x, lane() + k);
    const int from = lane() + k;
    return from >= first && from < stop ? moved : T(0);
}

// The numbers at places of an array; zero where `is_there` is negative. The load does
// not depend on it, because a branch would take longer.
template <class T>
SKCONVGP_WARP T pick(const T* from, int is_there, int place) {
    const T found = __ldg(from + (is_there < 0 ? 0 : place));
    return is_there < 0 ? T(0) : found;
}

// Add N numbers to the array of each lane from N (start + place) on; none if the place
// is negative.
template <int N, class T>
SKCONVGP_WARP void add_at(T* array, int start, int place, const T* x) {
    if (place < 0) return;
    T* const to = array + N * (start + place);
    T sum[N];
    SKCONVGP_UNROLL
    for (int e = 0; e < N; ++e) sum[e] = to[e] + x[e];
    SKCONVGP_UNROLL
    for (int e = 0; e < N; ++e) to[e] = sum[e];
}

SKCONVGP_WARP bool are_same(int a, int b) { return __all_sync(ALL, a == b); }

template <class T>
SKCONVGP_WARP double wide(T x) {
    return double(x);
}

// The sum over all lanes; every lane gets it.
SKCONVGP_WARP double total(double x) {
    SKCONVGP_UNROLL
    for (int k = LANES / 2; k; k /= 2) x += __shfl_xor_sync(ALL, x, k);
    return x;
}
SKCONVGP_WARP double first(double x) { return __shfl_sync(ALL, x, 0); }

template <class T>
SKCONVGP_WARP T narrow(double x) {
    return T(x);
}

template <class T>
SKCONVGP_WARP bool are_equal(const T* one, const T* two, int n) {
    for (int i = 0; i < n; i += LANES) {
        const bool same = i + lane() >= n || one[i + lane()] == two[i + lane()];
        if (!__all_sync(ALL, same)) return false;
    }
    return true;
}

// Only the first lane writes.
SKCONVGP_WARP void write(double* to, double x) {
    if (lane() == 0) *to = x;
}

#else

template <class T>
struct Lanes {
    T at[LANES];
};

template <class T, class F>
SKCONVGP_WARP Lanes<T> each_lane(const F& f) {
    Lanes<T> result;
    for (int l = 0; l < LANES; ++l) result.at[l] = f(l);
    return result;
}

template <class T>
SKCONVGP_WARP T in_lane(const Lanes<T>& x, int l) {
    return x.at[l];
}

#define SKCONVGP_OPERATOR(SIGN)                                                        \
    template <class T>                                                                 \
    SKCONVGP_WARP Lanes<T> operator SIGN(const Lanes<T>& a, const Lanes<T>& b) {       \
        return each_lane<T>([&](int l) { return a.at[l] SIGN b.at[l]; });              \
    }
SKCONVGP_OPERATOR(+)
SKCONVGP_OPERATOR(-)
SKCONVGP_OPERATOR(*)
#undef SKCONVGP_OPERATOR

template <class T>
SKCONVGP_WARP Lanes<T> splat(T x) {
    return each_lane<T>([&](int) { return x; });
}
template <class T>
SKCONVGP_WARP Lanes<T> load(const T* from, int n) {
    return each_lane<T>([&](int l) { return l < n ? from[l] : T(0); });
}
template <class T>
SKCONVGP_WARP Lanes<T> load_at(const Lanes<const T*>& from, long long offset) {
    return each_lane<T>([&](int l) { return from.at[l][offset]; });
}
template <class T>
SKCONVGP_WARP Lanes<T> fma(const Lanes<T>& a, const Lanes<T>& b, const Lanes<T>& c) {
    return each_lane<T>([&](int l) { return a.at[l] * b.at[l] + c.at[l]; });
}
template <class T>
SKCONVGP_WARP Lanes<T> root(const Lanes<T>& x) {
    return each_lane<T>([&](int l) { return T(__builtin_sqrt(double(x.at[l]))); });
}
template <class T>
SKCONVGP_WARP Lanes<T> inverse(const Lanes<T>& x) {
    return each_lane<T>([&](int l) { return T(1) / x.at[l]; });
}
template <class T>
SKCONVGP_WARP Lanes<T> larger(const Lanes<T>& a, const Lanes<T>& b) {
    return each_lane<T>([&](int l) {
        return b.at[l] > a.at[l] || b.at[l] != b.at[l] ? b.at[l] : a.at[l];
    });
}
template <class T>
SKCONVGP_WARP Lanes<T> smaller(const Lanes<T>& a, const Lanes<T>& b) {
    return each_lane<T>([&](int l) {
        return b.at[l] < a.at[l] || b.at[l] != b.at[l] ? b.at[l] : a.at[l];
    });
}
template <class T>
SKCONVGP_WARP Lanes<T> negative(const Lanes<T>& x) {
    return each_lane<T>([&](int l) { return -x.at[l]; });
}
template <class T>
SKCONVGP_WARP Lanes<T> magnitude(const Lanes<T>& x) {
    return each_lane<T>([&](int l) { return T(__builtin_fabs(double(x.at[l]))); });
}
template <class T>
SKCONVGP_WARP Lanes<T> with_sign(const Lanes<T>& x, const Lanes<T>& y) {
    return each_lane<T>(
        [&](int l) { return T(__builtin_copysign(double(x.at[l]), double(y.at[l]))); });
}
template <class T>
SKCONVGP_WARP Lanes<T> where_less(const Lanes<T>& a, const Lanes<T>& b,
                                  const Lanes<T>& x, const Lanes<T>& y) {
    return each_lane<T>([&](int l) { return a.at[l] < b.at[l] ? x.at[l] : y.at[l]; });
}
template <class T>
SKCONVGP_WARP Lanes<T> rotated(const Lanes<T>& x, int k) {
    return each_lane<T>([&](int l) { return x.at[(l + k + LANES) % LANES]; });
}
template <class T>
SKCONVGP_WARP Lanes<T> shifted(const Lanes<T>& x, int k) {
    return each_lane<T>(
        [&](int l) { return l + k >= 0 && l + k < LANES ? x.at[l + k] : T(0); });
}
template <class T>
SKCONVGP_WARP Lanes<T> first_lanes(const Lanes<T>& x, int n) {
    return each_lane<T>([&](int l) { return l < n ? x.at[l] : T(0); });
}
template <class T>
SKCONVGP_WARP Lanes<T> taken(const Lanes<T>* row, int n_parts, int part, int stride,
                             int offset, int size, bool circular) {
    return each_lane<T>([&](int l) {
        int column = (LANES * part + l) * stride + offset;
        if (circular) column = (column % size + size) % size;
        const bool is_there = column >= 0 && column < size && column < LANES * n_parts;
        return is_there ? row[column / LANES].at[column % LANES] : T(0);
    });
}
template <class T>
SKCONVGP_WARP Lanes<T> spread(const Lanes<T>& x, int stride, int k) {
    return each_lane<T>([&](int l) { return x.at[(l * stride + k) % LANES]; });
}
SKCONVGP_WARP int of_lane(const Lanes<int>& x, int k) { return x.at[k]; }
template <class T>
SKCONVGP_WARP Lanes<T> within(const Lanes<T>& x, int k, const Lanes<int>& first,
                              const Lanes<int>& stop) {
    return each_lane<T>([&](int l) {
        const int from = l + k;
        return from >= first.at[l] && from < stop.at[l] ? x.at[from] : T(0);
    });
}
template <class T>
SKCONVGP_WARP Lanes<T> pick(const T* from, const Lanes<int>& is_there,
                            const Lanes<int>& place) {
    return each_lane<T>(
        [&](int l) { return is_there.at[l] >= 0 ? from[place.at[l]] : T(0); });
}
template <int N, class T>
SKCONVGP_WARP void add_at(Lanes<T>* array, int start, const Lanes<int>& place,
                          const Lanes<T>* x) {
    for (int l = 0; l < LANES; ++l)
        for (int e = 0; e < N && place.at[l] >= 0; ++e)
            array[N * (start + place.at[l]) + e].at[l] += x[e].at[l];
}
SKCONVGP_WARP bool are_same(const Lanes<int>& a, const Lanes<int>& b) {
    for (int l = 0; l < LANES; ++l)
        if (a.at[l] != b.at[l]) return false;
    return true;
}
template <class T>
SKCONVGP_WARP Lanes<double> wide(const Lanes<T>& x) {
    return each_lane<double>([&](int l) { return double(x.at[l]); });
}
SKCONVGP_WARP Lanes<double> total(Lanes<double> x) {
    for (int k = LANES / 2; k; k /= 2)
        x = each_lane<double>([&](int l) { return x.at[l] + x.at[l ^ k]; });
    return x;
}
SKCONVGP_WARP double first(const Lanes<double>& x) { return x.at[0]; }
template <class T>
SKCONVGP_WARP Lanes<T> narrow(const Lanes<double>& x) {
    return each_lane<T>([&](int l) { return T(x.at[l]); });
}
template <class T>
SKCONVGP_WARP bool are_equal(const T* one, const T* two, int n) {
    for (int i = 0; i < n; ++i)
        if (one[i] != two[i]) return false;
    return true;
}
SKCONVGP_WARP void write(double* to, double x) { *to = x; }

#endif

}  // namespace warp
}  // namespace skconvgp
