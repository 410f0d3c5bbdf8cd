// The arithmetic of the GPU on a CPU, for tests: the same source, with arrays instead
// of the lanes of a warp.
#include "../warp/displaced.hpp"
#include "arena.hpp"
#include "program.hpp"

namespace skconvgp {
namespace baseline {
extern const Api api;
}
namespace SKCONVGP_ISA {
namespace {

int larger(int a, int b) { return a > b ? a : b; }

bool is_wide(const Axis& axis) { return axis.size > warp::LANES; }

// Whether rows of lanes have room for two displacements: all maps are as wide.
bool is_seamed(const Program& program, const Segment& segment) {
    const int width = program.ops[segment.end - 1].cols.size;
    for (int k = segment.begin; k < segment.end; ++k) {
        const Op& op = program.ops[k];
        const bool is_last = k + 1 == segment.end, has_windows = op.cols.window > 0;
        if (is_wide(op.cols) || op.cols.size != width || op.kind == CONV ||
            (has_windows && !is_last && op.cols.outputs != width) ||
            (!has_windows && op.cols.stride != 1))
            return false;
    }
    return true;
}

int modulo(int a, int b) { return (a % b + b) % b; }

// What Passes describes, as _displacements.py writes it for a GPU.
struct Lists {
    int n = 0;
    int* at;
    explicit Lists(int* at) : at(at) {}
    void add(int number) {
        if (at) at[n] = number;
        ++n;
    }
    // Displacements modulo a width, or unchanged if it is 0; ascending, each once.
    int add_modulo(const Displacements& of, int width) {
        if (!width) {
            for (int i = 0; i < of.n; ++i) add(of.at[i]);
            return of.n;
        }
        int found = 0;
        for (int d = 0; d < width; ++d) {
            bool is_there = false;
            for (int i = 0; i < of.n; ++i) is_there |= modulo(of.at[i], width) == d;
            if (is_there) add(d), ++found;
        }
        return found;
    }
};

template <class T>
struct Memory {
    typedef warp::Lanes<T> V;
    int n_maps, n_rows, n_window, n_levels = 0;
    bool is_displaced, is_ntk;
    V *registers, *row, *sum, *ring, *whole;
    V *under = nullptr, *pooled = nullptr, *levels = nullptr;  // of displaced programs
    warp::Lanes<int>* places = nullptr;
    bool* joined = nullptr;
    warp::Lanes<double>* totals;
    warp::Passes* passes = nullptr;
    int* lists = nullptr;
    float* weights = nullptr;

    Memory(const Program& program, int n_pairs, int n_parts, Arena& arena)
        : n_maps(1 + program.n_tangents), n_rows(1), n_window(program.max_window),
          is_displaced(program.n_displaced > 0), is_ntk(program.is_ntk) {
        for (int i = 0; i < program.n_ops; ++i) {
            const Axis& axis = program.ops[i].rows;
            n_rows = larger(n_rows, larger(axis.size, axis.outputs));
        }
        const size_t width = size_t(n_maps) * n_pairs * n_parts;
        registers = arena.take<V>(program.n_registers * width * n_rows);
        row = arena.take<V>(width);
        sum = arena.take<V>(width);
        ring = arena.take<V>(width * n_window);
        whole = arena.take<V>(width * n_rows);
        totals = arena.take<warp::Lanes<double>>(width);
        if (is_displaced) take_displaced(program, n_pairs * n_parts, n_parts, arena);
    }

    void take_displaced(const Program& program, int width, int n_parts, Arena& arena) {
        passes = arena.take<warp::Passes>(program.n_segments);
        write_passes(program, width, Lists(nullptr));
        int pool_window = 1;
        for (int k = 0; k < program.n_displaced; ++k)
            if (program.ops[k].kind == POOL)
                pool_window = larger(pool_window, program.ops[k].cols.window);
        under = arena.take<V>(size_t(program.n_displaced) * n_maps * n_window * width);
        pooled = arena.take<V>(size_t(n_maps) * width);
        levels = arena.take<V>(size_t(n_levels));
        places = arena.take<warp::Lanes<int>>(size_t(pool_window) * n_parts);
        joined = arena.take<bool>(size_t(pool_window) * n_parts);
        const Op& average = program.ops[program.n_displaced - 1];
        const int n_of_rows = (2 * average.rows.size - 1) * average.rows.size;
        const int n_of_cols = (2 * average.cols.size - 1) * average.cols.size;
        lists = arena.take<int>(size_t(write_passes(program, width, Lists(nullptr))));
        weights = arena.take<float>(size_t(n_of_rows) + n_of_cols);
        if (!arena.start) return;
        write_passes(program, width, Lists(lists));
        for (int i = 0; i < n_of_rows; ++i) weights[i] = average.rows.pairs[i];
        for (int i = 0; i < n_of_cols; ++i)
            weights[n_of_rows + i] = average.cols.pairs[i];
    }

    // Return the length of the lists.
    int write_passes(const Program& program, int width, Lists to) {
        n_levels = 0;
        for (int k = 0; k < program.n_segments; ++k) {
            const Segment& segment = program.segments[k];
            const Axis& cols = program.ops[segment.end - 1].cols;
            const bool seamed = is_seamed(program, segment);
            warp::Passes own{segment.begin,  segment.end, segment.rows.n,   0,
                             seamed ? 1 : 0, to.n,        n_levels / width, 0};
            for (int i = 0; i < segment.rows.n; ++i) to.add(segment.rows.at[i]);
            own.n_cols = to.add_modulo(segment.cols, seamed ? cols.size : 0);
            if (k + 1 < program.n_segments) {
                const Op& pool = program.ops[segment.end - 1];
                const Segment& next = program.segments[k + 1];
                const int modulus = is_seamed(program, next) ? pool.cols.outputs : 0;
                own.next_cols = Lists(nullptr).add_modulo(next.cols, modulus);
                for (int d = 1 - pool.rows.outputs; d < pool.rows.outputs; ++d)
                    to.add(segment.down.place(d));
                for (int d = 1 - pool.cols.outputs; d < pool.cols.outputs; ++d)
                    to.add(place_of(segment.across, d, modulus));
                n_levels += 2 * own.next_cols * n_maps * pool.rows.outputs * width;
            }
            if (passes) passes[k] = own;
        }
        return to.n;
    }

    static int place_of(const Displacements& of, int d, int modulus) {
        if (!modulus || of.place(d) < 0) return of.place(d);
        int found = 0;
        for (int smaller = 0; smaller < modulo(d, modulus); ++smaller) {
            bool is_there = false;
            for (int i = 0; i < of.n; ++i)
                is_there |= modulo(of.at[i], modulus) == smaller;
            found += is_there;
        }
        return found;
    }
};

warp::Axis axis_of(const Axis& axis) {
    return {axis.size,   axis.window,   axis.before,
            axis.stride, axis.dilation, axis.outputs};
}

warp::Op op_of(const Program& program, int i) {
    const Op& op = program.ops[i];
    return {op.kind,          op.reg,   op.flag,  axis_of(op.rows), axis_of(op.cols),
            op.rows.circular, op.table, op.roots, op.loaded,        op.maps,
            op.lambda,        op.mu,    i};
}

// The stages of operations `first`, ..., `stop` - 1, one row after the other: each
// stage takes the row that the one before has completed.
template <class W>
void stream(W& warp, const warp::Passes& passes, const warp::Op* ops, int first,
            int stop, int n_stages) {
    warp.begin_stage(ops[first]);
    warp.clear_under(n_stages);
    const int steps = warp::steps_of_stream(ops, first, stop) - warp.rows_less();
    for (int t = 0; t < steps; ++t) {
        int lag = 0, stage = 0;
        warp.moved.row = t;
        for (int k = first; k < stop; ++k, ++stage) {
            const int last = warp::end_of_stage(ops, k), i = t - lag;
            const int less = warp.rows_less();
            const warp::Op& op = ops[last];
            const bool is_last = last + 1 == stop;
            if (i >= 0 && i < op.rows.size - less) {
                for (k += stage > 0; k < last; ++k) warp.change(ops[k], i);
                warp.take(passes, op, ops[last - 1], stage, i, !is_last);
            } else if (i >= 0 && i < warp::steps_of(op) - less) {
                warp.take_zeros(op, ops[last - 1], stage, i, !is_last);
            }
            k = last;
            lag += op.kind == BOX ? op.rows.lead() : 0;
        }
        warp.next_row(ops[first].cols.size);
    }
    const warp::Op &op = ops[stop - 1], &before = ops[stop - 2];
    if (op.kind != CONV) return;
    warp.begin_derivatives(op, before.maps);
    warp.add_windows(op, before.maps);
}

template <class W>
void run_passes(W& warp, const warp::Op* ops, const warp::Passes* passes, int n_passes,
                int k, int row, int* done) {
    const warp::Passes& own = passes[k];
    for (int col = 0; col < own.n_cols; ++col) {
        warp.begin(own, ops[own.end - 1], row, col);
        if (k > 0) {
            const int behind = warp.row_of(own, row) * ops[own.begin].rows.stride;
            warp.take_level(passes[k - 1], ops[own.begin - 1], behind, col);
        }
        if (warp::are_streamed(ops, own.begin, own.end)) {
            stream(warp, own, ops, own.begin, own.end, own.end - own.begin);
            continue;
        }
        for (int first = own.begin, last; first < own.end; first = last + 1) {
            last = warp::end_of_stage(ops, first);
            stream(warp, own, ops, first, last + 1, 1);
        }
    }
    if (k + 1 == n_passes) return;
    const warp::Passes& next = passes[k + 1];
    while (done[k] < next.n_rows) {
        const int behind = warp.row_of(next, done[k]) * ops[next.begin].rows.stride;
        if (!warp.is_complete(own, ops[own.end - 1], behind, row)) return;
        run_passes(warp, ops, passes, n_passes, k + 1, done[k]++, done);
    }
}

template <class W>
void run_displaced(W& warp, const Program& program, const warp::Op* ops,
                   const warp::Passes* passes) {
    int done[MAX_SEGMENTS] = {};
    warp.clear();
    for (int row = 0; row < passes[0].n_rows; ++row)
        run_passes(warp, ops, passes, program.n_segments, 0, row, done);
    warp.end();
    warp.end_average(ops[program.n_displaced - 1]);
}

template <class W>
void run_pair(W& warp, const Program& program, const warp::Op* ops, int start) {
    for (int first = start, last = 0; first < program.n_ops; first = last + 1) {
        for (last = first; !warp::ends_stage(ops[last].kind);) ++last;
        warp.stage(ops[last], ops[last > 0 ? last - 1 : 0], first == last,
                   [&](int row) {
                       for (int k = first; k < last; ++k) warp.change(ops[k], row);
                   });
    }
}

template <class T, int PX, int PY, int PARTS>
void run(const Program& program, warp::Tile<T> tile, bool upper, Arena& arena) {
    Memory<T> memory(program, PX * PY, PARTS, arena);
    warp::Op* ops = arena.take<warp::Op>(program.n_ops);
    if (!arena.start) return;
    for (int i = 0; i < program.n_ops; ++i) ops[i] = op_of(program, i);
    tile.lists = memory.lists;
    tile.weights = memory.weights;
    warp::Displaced<T, Memory<T>, PX, PY, PARTS> warp(memory);
    for (int i = 0; i < tile.n_one; i += PX)
        for (int j = 0; j < tile.n_two; j += PY) {
            if (upper && j + PY <= i) continue;
            warp.place(tile, i, j);
            if (memory.is_displaced) run_displaced(warp, program, ops, memory.passes);
            run_pair(warp, program, ops, program.n_displaced);
            warp.write_results(ops[program.n_ops - 1], tile, i, j);
        }
}

template <class T>
T* take_constants(const Program& program, Arena& arena) {
    const int n_maps = 1 + program.n_tangents;
    T* constants = arena.take<T>(size_t(program.n_ops) * 2 * n_maps);
    if (!arena.start) return constants;
    for (int i = 0; i < program.n_ops; ++i)
        for (int m = 0; m < n_maps; ++m) {
            constants[(2 * i) * n_maps + m] = T(program.ops[i].additive[m]);
            constants[(2 * i + 1) * n_maps + m] = T(program.ops[i].factor[m]);
        }
    return constants;
}

// If the arena only counts bytes, nothing is computed.
template <class T>
void cross_in(const Program& program, const skconvgp::Tile<T>& given, Arena& arena) {
    const int n_maps = 1 + program.n_tangents;
    const Op& last = program.ops[program.n_ops - 1];
    double* result = arena.take<double>(2 * size_t(n_maps));
    const T* constants = take_constants<T>(program, arena);
    for (int m = 0; arena.start && m < n_maps; ++m) {
        result[m] = last.additive[m];
        result[n_maps + m] = last.factor[m];
    }
    const warp::Tile<T> tile{
        given.one,        given.two, given.stride_one, given.stride_two, given.diag_one,
        given.diag_two,   constants, result,           given.n_one,      given.n_two,
        program.n_pixels, given.out, nullptr,          nullptr};
    // As on a GPU, a warp holds fewer pairs if these have more maps.
    const int n_parts = warp::count_parts(program.max_width);
    if (n_parts > 3)
        run<T, 1, 1, 4>(program, tile, given.upper, arena);
    else if (n_parts > 2)
        run<T, 1, 1, 3>(program, tile, given.upper, arena);
    else if (n_maps > 1)
        n_parts > 1 ? run<T, 1, 1, 2>(program, tile, given.upper, arena)
                    : run<T, 1, 1, 1>(program, tile, given.upper, arena);
    else if (sizeof(T) == sizeof(double))
        n_parts > 1 ? run<T, 2, 1, 2>(program, tile, given.upper, arena)
                    : run<T, 2, 1, 1>(program, tile, given.upper, arena);
    else
        n_parts > 1 ? run<T, 2, 2, 2>(program, tile, given.upper, arena)
                    : run<T, 2, 2, 1>(program, tile, given.upper, arena);
}

template <class T>
void cross(const Program& program, const skconvgp::Tile<T>& tile, void* workspace) {
    Arena arena{(char*)workspace, 0};
    cross_in(program, tile, arena);
}

template <class T>
size_t cross_bytes(const Program& program) {
    Arena arena{nullptr, 0};
    cross_in(program, skconvgp::Tile<T>{}, arena);
    return arena.used;
}

size_t prepare_bytes(const Program& program) {
    return baseline::api.prepare_bytes(program);
}
void prepare_float(const Program& program, const Images<float>& images, void* memory) {
    baseline::api.prepare_float(program, images, memory);
}
void prepare_double(const Program& program, const Images<double>& images,
                    void* memory) {
    baseline::api.prepare_double(program, images, memory);
}
size_t patches_bytes(const PatchTask& task) {
    return baseline::api.patches_bytes(task);
}
void respond_to_patches(const PatchTask& task, void* memory) {
    baseline::api.respond_to_patches(task, memory);
}

}  // namespace

extern const Api api;
const Api api = {"lanes",
                 1,
                 warp::LARGEST_WIDTH,
                 warp::LARGEST_WINDOW,
                 cross_bytes<float>,
                 cross_bytes<double>,
                 prepare_bytes,
                 cross<float>,
                 cross<double>,
                 prepare_float,
                 prepare_double,
                 patches_bytes,
                 respond_to_patches,
                 nullptr,
                 nullptr,
                 false};

}  // namespace SKCONVGP_ISA
}  // namespace skconvgp
