// The arithmetic of the GPU on a CPU, for tests: the same source, with arrays instead
// of the lanes of a warp.
#include "../warp/warp.hpp"
#include "arena.hpp"
#include "program.hpp"

namespace skconvgp {
namespace baseline {
extern const Api api;
}
namespace SKCONVGP_ISA {
namespace {

int larger(int a, int b) { return a > b ? a : b; }

template <class T>
struct Memory {
    typedef warp::Lanes<T> V;
    int n_maps, n_rows, n_window;
    V *registers, *row, *sum, *ring, *whole;
    warp::Lanes<double>* totals;

    Memory(const Program& program, int n_pairs, int n_parts, Arena& arena)
        : n_maps(1 + program.n_tangents), n_rows(1), n_window(program.max_window) {
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

template <class T, int PX, int PY, int PARTS>
void run(const Program& program, const warp::Tile<T>& tile, bool upper, Arena& arena) {
    Memory<T> memory(program, PX * PY, PARTS, arena);
    warp::Op* ops = arena.take<warp::Op>(program.n_ops);
    if (!arena.start) return;
    for (int i = 0; i < program.n_ops; ++i) ops[i] = op_of(program, i);
    warp::Warp<T, Memory<T>, PX, PY, PARTS> warp(memory);
    for (int i = 0; i < tile.n_one; i += PX)
        for (int j = 0; j < tile.n_two; j += PY) {
            if (upper && j + PY <= i) continue;
            warp.place(tile, i, j);
            for (int first = 0, last = 0; first < program.n_ops; first = last + 1) {
                for (last = first; !warp::ends_stage(ops[last].kind);) ++last;
                warp.stage(ops[last], ops[last > 0 ? last - 1 : 0], first == last,
                           [&](int row) {
                               for (int k = first; k < last; ++k)
                                   warp.change(ops[k], row);
                           });
            }
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
    const warp::Tile<T> tile{given.one,        given.two,        given.stride_one,
                             given.stride_two, given.diag_one,   given.diag_two,
                             constants,        result,           given.n_one,
                             given.n_two,      program.n_pixels, given.out};
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
                 false};

}  // namespace SKCONVGP_ISA
}  // namespace skconvgp
