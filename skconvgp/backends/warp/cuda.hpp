// A network whose operations are compile-time constants, run by the warps of a GPU.
// skconvgp/backends/_cuda_source.py writes them before this file, as the struct Code.
#pragma once

#include "displaced.hpp"

namespace skconvgp {
namespace warp {

// Threads of a block: its warps compute neighbouring pairs, which share tables.
constexpr int THREADS = WARPS_DOWN * WARPS_ACROSS * LANES;
// Consecutive blocks cover a band of so many rows of blocks, column by column, so that
// the tables of the band stay in cache.
constexpr int BAND = 16;

template <class V>
struct Registers {
    static constexpr int n_maps = Code::n_maps, n_rows = Code::n_rows;
    static constexpr int n_window = Code::n_window, n_levels = Code::n_levels;
    static constexpr bool is_displaced = Code::n_passes > 0, is_ntk = Code::is_ntk;
    static constexpr int PAIRS = Code::PX * Code::PY, WIDTH = PAIRS * Code::PARTS;
    // Apart: arrays whose places are not known to the compiler cannot be in registers,
    // nor anything that is an object with them.
    V *registers, *whole, *levels;
    V row[n_maps * WIDTH];
    V sum[n_maps * WIDTH];
    V ring[n_maps * n_window * WIDTH];
    Lanes<double> totals[n_maps * PAIRS];
    V under[is_displaced ? Code::n_streamed * n_maps * n_window * WIDTH : 1];
    V pooled[n_maps * WIDTH];
    Lanes<int> places[Code::n_pool_window * Code::PARTS];
    bool joined[Code::n_pool_window * Code::PARTS];
};

template <int K, int LAST, class W>
SKCONVGP_WARP void change_row(const W& warp, int i) {
    if constexpr (K < LAST) {
        constexpr Op op = Code::ops[K];
        warp.change(op, i);
        change_row<K + 1, LAST>(warp, i);
    }
}

SKCONVGP_WARP constexpr int end_of_stage(int first) {
    while (!ends_stage(Code::ops[first].kind)) ++first;
    return first;
}

template <int FIRST, int STOP, class W>
SKCONVGP_WARP void run_stages(W& warp) {
    if constexpr (FIRST < STOP) {
        constexpr int LAST = end_of_stage(FIRST);
        constexpr Op op = Code::ops[LAST], before = Code::ops[LAST > 0 ? LAST - 1 : 0];
        warp.stage(op, before, FIRST == LAST,
                   [&](int i) { change_row<FIRST, LAST>(warp, i); });
        run_stages<LAST + 1, STOP>(warp);
    }
}

// Run all segments; a segment repeats its stages for one layer after the other.
template <int S, class W>
SKCONVGP_WARP void run_segments(W& warp) {
    if constexpr (S < Code::n_segments) {
        constexpr Segment segment = Code::segments[S];
#pragma unroll 1
        for (int i = 0; i < segment.times; ++i) {
            warp.table_shift = i * segment.table_step;
            warp.constant_shift = i * segment.n_ops * 2 * Code::n_maps;
            run_stages<segment.first, segment.first + segment.n_ops>(warp);
        }
        run_segments<S + 1>(warp);
    }
}

// ---- averages over positions: operations run for one displacement after the other

// Let each stage from operation FIRST on take the row that the one before has
// completed. After `t` rows of the first stage, stage number STAGE is `lag` rows
// behind.
template <int K, int FIRST, int STOP, int STAGE, int LAG, class W>
SKCONVGP_WARP void stream_row(W& warp, int t) {
    if constexpr (FIRST < STOP) {
        constexpr int LAST = end_of_stage(FIRST);
        constexpr Op op = Code::ops[LAST], before = Code::ops[LAST - 1];
        constexpr Passes passes = Code::passes[K];
        constexpr bool IS_LAST = LAST + 1 == STOP;
        const int less = warp.rows_less(), i = t - LAG;
        if (i >= 0 && i < op.rows.size - less) {
            change_row<FIRST + (STAGE > 0), LAST>(warp, i);
            warp.take(passes, op, before, STAGE, i, !IS_LAST);
        } else if (i >= 0 && i < steps_of(op) - less) {
            warp.take_zeros(op, before, STAGE, i, !IS_LAST);
        }
        stream_row<K, LAST + 1, STOP, STAGE + 1,
                   LAG + (op.kind == BOX ? op.rows.lead() : 0)>(warp, t);
    }
}

template <int K, int FIRST, int STOP, class W>
SKCONVGP_WARP void stream(W& warp) {
    constexpr Op first = Code::ops[FIRST];
    constexpr int STEPS = steps_of_stream(Code::ops, FIRST, STOP);
    warp.begin_stage(first);
    warp.clear_under(Code::n_streamed);
    const int steps = STEPS - warp.rows_less();
#pragma unroll 1
    for (int t = 0; t < steps; ++t) {
        warp.moved.row = t;
        stream_row<K, FIRST, STOP, 0, 0>(warp, t);
        warp.next_row(first.cols.size);
    }
    constexpr Op op = Code::ops[STOP - 1], before = Code::ops[STOP - 2];
    if constexpr (op.kind == CONV) {
        warp.begin_derivatives(op, before.maps);
        warp.add_windows(op, before.maps);
    }
}

// The same with a map in memory between a stage and the next one.
template <int K, int FIRST, int STOP, class W>
SKCONVGP_WARP void run_maps(W& warp) {
    if constexpr (FIRST < STOP) {
        constexpr int LAST = end_of_stage(FIRST);
        stream<K, FIRST, LAST + 1>(warp);
        run_maps<K, LAST + 1, STOP>(warp);
    }
}

// Run the operations of Code::passes[K] for a row of displacements, and then those
// behind their pool for the rows of displacements that are complete. `done` has their
// numbers.
template <int K, class W>
SKCONVGP_WARP void run_passes(W& warp, int row, int* done) {
    constexpr Passes passes = Code::passes[K];
    constexpr int LAST = passes.end - 1, FIRST = passes.begin;
    constexpr Op last = Code::ops[LAST], first = Code::ops[FIRST];
#pragma unroll 1
    for (int col = 0; col < passes.n_cols; ++col) {
        warp.begin(passes, last, row, col);
        if constexpr (K > 0) {
            constexpr Passes before = Code::passes[K - 1];
            constexpr Op pool = Code::ops[before.end - 1];
            const int behind = warp.row_of(passes, row) * first.rows.stride;
            warp.take_level(before, pool, behind, col);
        }
        if constexpr (are_streamed(Code::ops, FIRST, passes.end))
            stream<K, FIRST, passes.end>(warp);
        else
            run_maps<K, FIRST, passes.end>(warp);
    }
    if constexpr (K + 1 < Code::n_passes) {
        constexpr Passes next = Code::passes[K + 1];
        constexpr Op begin = Code::ops[next.begin];
        while (done[K] < next.n_rows &&
               warp.is_complete(passes, last,
                                warp.row_of(next, done[K]) * begin.rows.stride, row))
            run_passes<K + 1>(warp, done[K]++, done);
    }
}

template <class W>
SKCONVGP_WARP void run_displaced(W& warp) {
    if constexpr (Code::n_passes > 0) {
        constexpr Passes first = Code::passes[0];
        constexpr int STOP = Code::passes[Code::n_passes - 1].end;
        constexpr Op average = Code::ops[STOP - 1];
        int done[Code::n_passes] = {};
        warp.clear();
#pragma unroll 1
        for (int row = 0; row < first.n_rows; ++row) run_passes<0>(warp, row, done);
        warp.end();
        warp.end_average(average);
        run_stages<STOP, Code::n_ops>(warp);
    }
}

template <class T>
SKCONVGP_WARP void cross(const Tile<T>& tile, bool is_upper) {
    constexpr int DOWN = WARPS_DOWN * Code::PX, ACROSS = WARPS_ACROSS * Code::PY;
    const int blocks_down = (tile.n_one + DOWN - 1) / DOWN;
    const int blocks_across = (tile.n_two + ACROSS - 1) / ACROSS;
    const int band = blockIdx.x / (BAND * blocks_across);
    const int left = blocks_down - band * BAND, height = left < BAND ? left : BAND;
    const int place = blockIdx.x - band * BAND * blocks_across;
    const int number = threadIdx.x / LANES;
    const int i =
        (band * BAND + place % height) * DOWN + number / WARPS_ACROSS * Code::PX;
    const int j = place / height * ACROSS + number % WARPS_ACROSS * Code::PY;
    if (i >= tile.n_one || j >= tile.n_two) return;
    if (is_upper && j + Code::PY <= i) return;
    typedef Registers<Lanes<T>> Memory;
    constexpr int ROWS = Memory::n_maps * Memory::n_rows * Memory::WIDTH;
    alignas(16) Lanes<T> registers[Code::n_registers * ROWS];
    Lanes<T> whole[Code::has_windows ? ROWS : 1];
    // Aligned, so that the numbers of four pairs are read at once.
    alignas(16) Lanes<T> levels[Code::n_levels ? Code::n_levels : 1];
    Memory memory;
    memory.registers = registers;
    memory.whole = whole;
    memory.levels = levels;
    constexpr Op result = Code::ops[Code::n_ops - 1];
    if constexpr (Code::n_passes > 0) {
        Displaced<T, Memory, Code::PX, Code::PY, Code::PARTS> warp(memory);
        warp.place(tile, i, j);
        run_displaced(warp);
        warp.write_results(result, tile, i, j);
    } else {
        Warp<T, Memory, Code::PX, Code::PY, Code::PARTS> warp(memory);
        warp.place(tile, i, j);
        run_segments<0>(warp);
        warp.write_results(result, tile, i, j);
    }
}

}  // namespace warp
}  // namespace skconvgp

extern "C" __global__ void __launch_bounds__(skconvgp::warp::THREADS)
    skconvgp_cross(const Number* one, const Number* two, const double* diag_one,
                   const double* diag_two, const Number* constants,
                   const double* result, double* out, const float* weights, int n_one,
                   int n_two, int n_values, int n_pixels, int is_upper) {
    using namespace skconvgp::warp;
    cross(Tile<Number>{one, two, n_values, n_values, diag_one, diag_two, constants,
                       result, n_one, n_two, n_pixels, out, skconvgp_lists, weights},
          is_upper != 0);
}
