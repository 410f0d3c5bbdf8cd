// A network whose operations are compile-time constants, run by the warps of a GPU.
// skconvgp/backends/_cuda_source.py writes them before this file, as the struct Code.
#pragma once

#include "warp.hpp"

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
    static constexpr int n_window = Code::n_window;
    static constexpr int PAIRS = Code::PX * Code::PY, WIDTH = PAIRS * Code::PARTS;
    V registers[Code::n_registers * n_maps * n_rows * WIDTH];
    V row[n_maps * WIDTH];
    V sum[n_maps * WIDTH];
    V ring[n_maps * n_window * WIDTH];
    V whole[Code::has_windows ? n_maps * n_rows * WIDTH : 1];
    Lanes<double> totals[n_maps * PAIRS];
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
    Memory memory;
    Warp<T, Memory, Code::PX, Code::PY, Code::PARTS> warp(memory);
    warp.place(tile, i, j);
    run_segments<0>(warp);
    constexpr Op result = Code::ops[Code::n_ops - 1];
    warp.write_results(result, tile, i, j);
}

}  // namespace warp
}  // namespace skconvgp

extern "C" __global__ void __launch_bounds__(skconvgp::warp::THREADS)
    skconvgp_cross(const Number* one, const Number* two, const double* diag_one,
                   const double* diag_two, const Number* constants,
                   const double* result, double* out, int n_one, int n_two,
                   int n_values, int n_pixels, int is_upper) {
    using namespace skconvgp::warp;
    cross(Tile<Number>{one, two, n_values, n_values, diag_one, diag_two, constants,
                       result, n_one, n_two, n_pixels, out},
          is_upper != 0);
}
