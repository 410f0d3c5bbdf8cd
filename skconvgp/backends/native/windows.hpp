// Sums over the windows of a convolution.
#pragma once

#include "activations.hpp"

namespace skconvgp {
namespace SKCONVGP_ISA {

constexpr int BLOCK = 4;  // values that are evaluated together

// Memory of running sums over windows: the incoming row, after as many zeros as the
// window is wide; the rows of sums along the columns that lie under the window; and the
// sums before the first output is complete.
template <class V>
struct BoxMemory {
    V* incoming;
    V* ring;
    V* first;
    const V* zeros;
};

// Rows that running sums read and write. After `shifted`, they are indexed by the
// column of the last value in a window.
template <class V>
struct BoxRows {
    V* slot;          // sums along this row
    const V* old;     // sums along the row that leaves the windows
    V* now;           // sums over windows
    const V* before;  // sums over windows one row up
    SKCONVGP_INLINE_MEMBER void put(int p, V sum) const {
        const V change = sum - old[p];
        slot[p] = sum;
        now[p] = before[p] + change;
    }
    SKCONVGP_INLINE_MEMBER BoxRows shifted(int lead) const {
        return {slot - lead, old - lead, now - lead, before - lead};
    }
};

template <class V>
struct BoxRows<Two<V>> {
    BoxRows<V> one, two;
    SKCONVGP_INLINE_MEMBER void put(int p, const Two<V>& sum) const {
        one.put(p, sum.one);
        two.put(p, sum.two);
    }
};

// Running sums along a row, with the values under the window in registers.
template <int WINDOW, class V, class F>
SKCONVGP_INLINE void sum_along(const Axis& axis, const F& f, const BoxRows<V>& rows) {
    constexpr int HALF = WINDOW / 2;
    // Values of two maps need twice the registers, so that fewer are evaluated first.
    constexpr int HALVED = sizeof(V) > VECTOR_BYTES ? HALF : WINDOW - HALF;
    constexpr int FIRST = WINDOW < 5 ? WINDOW : HALVED;
    constexpr int SECOND = WINDOW - FIRST;
    const int width = axis.size, lead = axis.lead(), steps = width + axis.tail();
    V seen[WINDOW] = {}, sum = {};
    int p = 0;
    const auto whole = [&](int start) SKCONVGP_INLINE_LAMBDA {
        V values[WINDOW];
        evaluate<FIRST>(f, p, values);
#pragma GCC unroll 8
        for (int j = 0; j < FIRST; ++j) {
            sum += values[j] - seen[j];
            seen[j] = values[j];
            if (j >= start) rows.put(p + j, sum);
        }
        if (SECOND == 0) return;
        evaluate<(SECOND ? SECOND : 1)>(f, p + FIRST, values + FIRST);
#pragma GCC unroll 8
        for (int j = FIRST; j < WINDOW; ++j) {
            sum += values[j] - seen[j];
            seen[j] = values[j];
            if (j >= start) rows.put(p + j, sum);
        }
    };
    if (width >= WINDOW && lead == HALF) {
        whole(HALF);
        for (p = WINDOW; p + WINDOW <= width; p += WINDOW) whole(0);
        if (p == width && steps == width + HALF) {
#pragma GCC unroll 8
            for (int j = 0; j < HALF; ++j) {
                sum -= seen[j];
                rows.put(p + j, sum);
            }
            return;
        }
    }
    for (; p < steps; p += WINDOW) {
#pragma GCC unroll 8
        for (int j = 0; j < WINDOW; ++j) {
            if (p + j >= steps) break;
            const V value = p + j < width ? f(p + j) : V{};
            sum += value - seen[j];
            seen[j] = value;
            if (p + j >= lead) rows.put(p + j, sum);
        }
    }
}

// The same for windows of any width, with the values in memory, preceded by zeros.
template <class V, class F>
SKCONVGP_INLINE void sum_along_any(const Axis& axis, const F& f, const BoxRows<V>& rows,
                                   V* incoming) {
    const int width = axis.size, lead = axis.lead(), tail = axis.tail();
    const V* const leaving = incoming - axis.window;
    V sum = {};
    int p = 0;
    for (; p < (lead < width ? lead : width); ++p) {
        const V value = f(p);
        sum += value - leaving[p];
        incoming[p] = value;
    }
    for (; p < lead; ++p) sum -= leaving[p];
    for (; p + BLOCK <= width; p += BLOCK) {
        V values[BLOCK];
        evaluate<BLOCK>(f, p, values);
#pragma GCC unroll 8
        for (int j = 0; j < BLOCK; ++j) {
            sum += values[j] - leaving[p + j];
            incoming[p + j] = values[j];
            rows.put(p + j, sum);
        }
    }
    for (; p < width; ++p) {
        const V value = f(p);
        sum += value - leaving[p];
        incoming[p] = value;
        rows.put(p, sum);
    }
    for (; p < width + tail; ++p) {
        sum -= leaving[p];
        rows.put(p, sum);
    }
}

// Whether the values under a window fit into registers.
SKCONVGP_INLINE bool is_short(const Axis& axis) {
    return axis.window == 7 || axis.window == 5 || axis.window == 3;
}

template <class V, class F>
SKCONVGP_INLINE void sum_along_short(const Axis& axis, const F& f,
                                     const BoxRows<V>& rows) {
    if (axis.window == 7)
        sum_along<7>(axis, f, rows);
    else if (axis.window == 5)
        sum_along<5>(axis, f, rows);
    else
        sum_along<3>(axis, f, rows);
}

// The rows that running sums of row number `row` read and write. The leaving value is
// subtracted from the entering one first, so that each sum waits for one addition only.
template <class V>
SKCONVGP_INLINE BoxRows<V> begin_row(const Op& op, int row, V bias,
                                     const BoxMemory<V>& memory, V* out) {
    const int outputs = op.cols.outputs, window = op.rows.window;
    V* const slot = memory.ring + (row % window) * outputs;
    const V* const old = row < window ? memory.zeros : slot;
    const int target = row - op.rows.lead();
    V* now = memory.first;
    const V* before = memory.first;
    if (row == 0)
        for (int p = 0; p < outputs; ++p) memory.first[p] = bias;
    if (target >= 0) {
        now = out + target * outputs;
        if (target > 0) before = now - outputs;
    }
    return {slot, old, now, before};
}

// Add row number `row` of a map, whose value in column p is f(p), to the sums over
// windows, and write the row of sums that it completes.
//
// The output may be the same map that f reads, because each value is read before it is
// overwritten.
template <class V, class F>
SKCONVGP_INLINE void box_row(const Op& op, int row, const F& f, V bias,
                             const BoxMemory<V>& memory, V* out) {
    const BoxRows<V> rows = begin_row(op, row, bias, memory, out);
    if (row >= op.rows.size) {
        for (int p = 0; p < op.cols.outputs; ++p)
            rows.now[p] = rows.before[p] - rows.old[p];
    } else if (is_short(op.cols)) {
        sum_along_short(op.cols, f, rows.shifted(op.cols.lead()));
    } else {
        sum_along_any(op.cols, f, rows.shifted(op.cols.lead()), memory.incoming);
    }
}

// The inputs of an output, without those outside the map at either end. A displaced map
// may be smaller than the one that the list was made for.
struct Taps {
    const int* at;
    int n;
    Taps(const Axis& axis, int output)
        : at(axis.taps + size_t(output) * axis.window), n(axis.window) {
        for (; n > 0 && *at < 0; --n) ++at;
        for (; n > 0 && (at[n - 1] < 0 || at[n - 1] >= axis.size); --n) continue;
    }
};

// Write sums over n taps, for BLOCK outputs at a time, which share the loads of taps.
// Output i reads in[at[k] * tap_step + i * step] and is out[i * out_step].
template <class V>
SKCONVGP_INLINE void tap_sums(const Taps& taps, const V* in, ptrdiff_t tap_step,
                              ptrdiff_t step, V bias, int n, V* out,
                              ptrdiff_t out_step) {
    int i = 0;
    for (; i + BLOCK <= n; i += BLOCK) {
        V sum[BLOCK] = {};
        for (int k = 0; k < taps.n; ++k) {
            const V* from = in + taps.at[k] * tap_step + i * step;
#pragma GCC unroll 8
            for (int j = 0; j < BLOCK; ++j) sum[j] += from[j * step];
        }
#pragma GCC unroll 8
        for (int j = 0; j < BLOCK; ++j) out[(i + j) * out_step] = sum[j] + bias;
    }
    for (; i < n; ++i) {
        V sum = {};
        for (int k = 0; k < taps.n; ++k) sum += in[taps.at[k] * tap_step + i * step];
        out[i * out_step] = sum + bias;
    }
}

// Direct sums over any windows. `rows_done` has space for the map after its rows are
// summed.
template <class V>
SKCONVGP_INLINE void window_sums(const Op& op, const V* in, V bias, V* rows_done,
                                 V* out) {
    const int width = op.cols.size, outputs = op.cols.outputs;
    for (int j = 0; j < outputs; ++j)
        tap_sums(Taps(op.cols, j), in, 1, width, V{}, op.rows.size, rows_done + j,
                 outputs);
    for (int i = 0; i < op.rows.outputs; ++i)
        tap_sums(Taps(op.rows, i), rows_done, outputs, 1, bias, outputs,
                 out + i * outputs, 1);
}

}  // namespace SKCONVGP_ISA
}  // namespace skconvgp
