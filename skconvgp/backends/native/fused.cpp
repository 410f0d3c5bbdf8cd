// Covariances of tiles of pairs and responses of patches, compiled once for
// each instruction set.
#include "images.hpp"
#include "pairs.hpp"
#include "patches.hpp"
#include "scattering.hpp"

namespace skconvgp {
namespace SKCONVGP_ISA {
namespace {

// Tables and input of one sample against the group, on maps of images.
template <class T, class One = T>
struct ImageSource {
    typedef typename Simd<T>::V V;
    const Pairs<T>& pairs;
    const One* one;
    const V* inputs;  // of this sample, if written before
    const V* input(const Op& op, int first, int n, V* out) const {
        if (inputs) return inputs + first;
        pairs.input_row(op, one, first, n, out);
        return out;
    }
    ImageTable<T, One> table(const Op& op) const {
        return {one + op.table, pairs.group + op.table, op.plane, op.begin_one,
                op.begin_two};
    }
};

// The same for a row of samples, whose maps have one position each.
template <class T>
struct SampleSource {
    typedef typename Simd<T>::V V;
    const Pairs<T>& pairs;
    const T* one;
    ptrdiff_t stride;
    SampleTable<T> table(const Op& op) const {
        return {one + op.table, pairs.group + op.table, stride};
    }
    // Inner products over op.flag values. The order of a pair's sum does not
    // depend on its neighbours: chunks are summed, and join the total one after
    // the other.
    const V* input(const Op& op, int, int n, V* out) const {
        for (int i = 0; i < n; i += DOT_ROWS) {
            const int rows = n - i < DOT_ROWS ? n - i : DOT_ROWS;
            const T* from[DOT_ROWS];
            V total[DOT_ROWS] = {};
            for (int r = 0; r < DOT_ROWS; ++r)
                from[r] = one + (i + (r < rows ? r : rows - 1)) * stride;
            for (int k = 0; k < op.flag; k += DOT_CHUNK) {
                const int stop = k + DOT_CHUNK < op.flag ? k + DOT_CHUNK : op.flag;
                V sum[DOT_ROWS] = {};
                for (int c = k; c < stop; ++c)
#pragma GCC unroll 8
                    for (int r = 0; r < DOT_ROWS; ++r)
                        sum[r] = fma(set1(from[r][c]), pairs.group[c], sum[r]);
#pragma GCC unroll 8
                for (int r = 0; r < DOT_ROWS; ++r) total[r] += sum[r];
            }
            for (int r = 0; r < rows; ++r) out[i + r] = total[r];
        }
        return out;
    }
};

// Add one row of a map to windows, or to the sum over positions.
template <class T, class F>
SKCONVGP_INLINE void end_row(const Pairs<T>& pairs, const Op& end, int map, int i,
                             const F& value) {
    if (end.kind == BOX)
        box_row(end, i, value, set1(T(end.additive[map])), pairs.box(map),
                pairs.at(end.reg, map));
    else if (i < end.rows.size && end.kind == AVERAGE)
        pairs.add_pairs(end, map, i, value);
    else if (i < end.rows.size && end.kind == POOL)
        pairs.pool_row(end, map, i, value);
    else if (i < end.rows.size)
        pairs.add_row(map, end.cols.size, value);
}

// Prepare for the operation that ends a stage and reads `maps` maps. A
// derivative that begins with its constant is the same at all positions.
template <class T>
void begin_end(const Pairs<T>& pairs, const Op& end, int maps) {
    if (end.kind == SUM) pairs.clear_sums();
    if (end.kind != BOX && end.kind != CONV) return;
    for (int m = maps; m < end.maps; ++m) {
        const auto value = set1(T(end.additive[m]));
        const int n = end.rows.outputs * end.cols.outputs;
        for (int p = 0; p < n; ++p) pairs.at(end.reg, m)[p] = value;
    }
}

// Complete the windows that reach beyond the last row.
template <class T>
void last_rows(const Pairs<T>& pairs, const Op& end, int maps) {
    typedef typename Simd<T>::V V;
    if (end.kind != BOX) return;
    for (int m = 0; m < maps; ++m)
        for (int i = end.rows.size; i < end.rows.size + end.rows.tail(); ++i)
            end_row(pairs, end, m, i, RowValue<V>{nullptr});
}

// Prefetch a row of the tables that the next sample reads in the same stage.
// They are many short streams, which the processor's own prefetcher does not
// recognise.
template <class T>
SKCONVGP_INLINE void prefetch_row(const T* tables, int row, int n) {
    constexpr int LINE = 64 / sizeof(T);
    for (int p = 0; p < n; p += LINE) __builtin_prefetch(tables + row * n + p, 0, 2);
}

constexpr int MANY_TANGENTS = 3;  // from so many on, one is computed after the other
template <int N>
struct Constant {
    static constexpr int VALUE = N;
};

// A row of the value together with one or two derivatives.
template <bool POSITIVE, int TANGENTS, class T>
SKCONVGP_INLINE void joint_row(const Pairs<T>& pairs, const Op& leaky, const Op& end,
                               int i, const ImageTable<T>& base,
                               const typename Simd<T>::V* const* rows) {
    typedef typename Simd<T>::V V;
    const int place = i * leaky.pitch, lead = end.cols.lead();
    const auto target = [&](int m) SKCONVGP_INLINE_LAMBDA {
        const V bias = set1(T(end.additive[m]));
        return begin_row(end, i, bias, pairs.box(m), pairs.at(end.reg, m))
            .shifted(lead);
    };
    const BoxRows<Two<V>> targets{target(0), target(1)};
    const auto tangent = pairs.with_tangent(1, place, base, rows);
    if constexpr (TANGENTS == 1) {
        sum_along_short(
            end.cols,
            pairs.template leaky_joint<POSITIVE>(leaky, place, base, rows[0], tangent),
            targets);
    } else {
        const WithTangents<T, ImageTable<T>> both{
            tangent, pairs.with_tangent(2, place, base, rows), pairs.row};
        sum_along_short(
            end.cols,
            pairs.template leaky_joint<POSITIVE>(leaky, place, base, rows[0], both),
            targets);
        end_row(pairs, end, 2, i, RowValue<V>{pairs.row});
    }
}

// An activation between windows, with one loop for a row. Each kind is a
// separate function, since compilers optimise these better.
template <class T, bool POSITIVE, int TANGENTS, Roots ROOTS>
__attribute__((noinline)) void leaky_stage(const Pairs<T>& pairs, const Op* op,
                                           const T* one, const T* next) {
    typedef typename Simd<T>::V V;
    const Op &load = op[0], &leaky = op[1], &end = op[2];
    const ImageTable<T> base = ImageSource<T>{pairs, one, nullptr}.table(leaky);
    const V* rows[1 + MAX_TANGENTS];
    for (int i = 0; i < end.rows.size; ++i) {
        const int first = i * end.cols.size, place = i * leaky.pitch;
        if (next) prefetch_row(next + leaky.table, i, (1 + leaky.maps) * end.cols.size);
        for (int m = 0; m < leaky.maps; ++m) rows[m] = pairs.at(load.reg, m) + first;
        if constexpr (TANGENTS == 0) {
            typedef LeakyValue<T, POSITIVE, ImageTable<T>, ROOTS> Value;
            end_row(pairs, end, 0, i, Value(leaky, rows[0], base.at(place, 2)));
        } else if constexpr (TANGENTS < MANY_TANGENTS) {
            joint_row<POSITIVE, TANGENTS>(pairs, leaky, end, i, base, rows);
        } else {
            end_row(pairs, end, 0, i,
                    pairs.template leaky_joint<POSITIVE>(leaky, place, base, rows[0],
                                                         pairs.slopes()));
            for (int m = 1; m < leaky.maps; ++m)
                end_row(pairs, end, m, i, pairs.leaky_tangent(m, place, base, rows[m]));
        }
    }
    last_rows(pairs, end, leaky.maps);
}

// Call `use` with three constants: whether the map is positive, how many derivatives
// are computed together with the value, and how roots are computed without derivatives.
template <Roots ALLOWED, class Use>
void with_kind(const Op& leaky, const Op& end, bool mixes_roots, const Use& use) {
    const bool joins = end.kind == BOX && is_short(end.cols);
    const auto with_tangents = [&](auto positive) {
        constexpr Constant<EXACT> exact;
        if (leaky.maps == 1 && mixes_roots)
            use(positive, Constant<0>{}, Constant<ALLOWED>{});
        else if (leaky.maps == 1)
            use(positive, Constant<0>{}, exact);
        else if (leaky.maps == 2 && joins)
            use(positive, Constant<1>{}, exact);
        else if (leaky.maps == 3 && joins)
            use(positive, Constant<2>{}, exact);
        else
            use(positive, Constant<MANY_TANGENTS>{}, exact);
    };
    leaky.flag ? with_tangents(Constant<1>{}) : with_tangents(Constant<0>{});
}

// The same with a tangent kernel. If it joins, its map lacks the covariance, which is
// added to it.
template <class T, bool POSITIVE>
__attribute__((noinline)) void kernel_stage(const Pairs<T>& pairs, const Op& load,
                                            const Op& leaky, const Op& end, bool joins,
                                            const T* one) {
    typedef typename Simd<T>::V V;
    const ImageTable<T> base = ImageSource<T>{pairs, one, nullptr}.table(leaky);
    const bool joint = end.kind == BOX && is_short(end.cols);
    for (int i = 0; i < end.rows.size; ++i) {
        const int first = i * end.cols.size, place = i * leaky.pitch;
        const V* const covariance = pairs.at(load.reg, 0) + first;
        const V* const rest = pairs.stored(load, 1, first);
        const KernelSlope<T> kernel{covariance, rest, set1(T(joins))};
        if (joint) {
            const auto target = [&](int m) SKCONVGP_INLINE_LAMBDA {
                const V bias = set1(T(end.additive[m]));
                return begin_row(end, i, bias, pairs.box(m), pairs.at(end.reg, m))
                    .shifted(end.cols.lead());
            };
            const BoxRows<Two<V>> targets{target(0), target(1)};
            sum_along_short(end.cols,
                            pairs.template leaky_joint<POSITIVE>(
                                leaky, place, base, covariance, WithKernel<T>{kernel}),
                            targets);
        } else {
            end_row(
                pairs, end, 0, i,
                pairs.template leaky_joint<POSITIVE>(
                    leaky, place, base, covariance, KernelAside<T>{kernel, pairs.row}));
            end_row(pairs, end, 1, i, RowValue<V>{pairs.row});
        }
    }
    last_rows(pairs, end, 2);
}

// Run a stage of a tangent kernel: a map, perhaps JOIN, an activation, and the end.
template <class T>
bool run_kernel(const Pairs<T>& pairs, const Op* op, const T* one) {
    const bool joins = op[1].kind == JOIN;
    const Op &leaky = op[1 + joins], &end = op[2 + joins];
    if (op[0].kind != LOAD || leaky.kind != LEAKY || leaky.maps != 2) return false;
    if (end.kind != BOX && end.kind != SUM && end.kind != AVERAGE && end.kind != POOL)
        return false;
    begin_end(pairs, end, 2);
    const auto run = [&](auto positive) {
        kernel_stage<T, positive.VALUE>(pairs, op[0], leaky, end, joins, one);
    };
    leaky.flag ? run(Constant<1>{}) : run(Constant<0>{});
    if (end.kind == SUM) pairs.store_sums(end);
    return true;
}

// Run a stage of one of the forms that convolutional networks consist of;
// return false for others.
template <class T>
bool run_fused(const Pairs<T>& pairs, const Op* op, const T* one, const T* next) {
    const int channels = op[0].flag;
    const bool is_input =
        op[0].kind == INPUT && (channels == 1 || (channels == 3 && op[0].roots == 3));
    if (pairs.program.is_ntk && !is_input) return run_kernel(pairs, op, one);
    if (!is_input && (op[0].kind != LOAD || op[1].kind != LEAKY)) return false;
    const Op& end = op[is_input ? 1 : 2];
    if (end.kind != BOX && end.kind != SUM && end.kind != AVERAGE && end.kind != POOL)
        return false;
    begin_end(pairs, end, is_input ? 1 : op[1].maps);
    if (is_input) {
        for (int i = 0; i < end.rows.size; ++i) {
            const T* first = one + (op->begin_one + i * op->pitch) * channels;
            const auto* second =
                pairs.group + (op->begin_two + i * op->pitch) * channels;
            if (channels == 1)
                end_row(pairs, end, 0, i, InputValue<T, 1>{first, second});
            else
                end_row(pairs, end, 0, i, InputValue<T, 3>{first, second});
        }
        last_rows(pairs, end, 1);
    } else {
        with_kind<ImageTable<T>::ROOTS>(
            op[1], end, pairs.program.mixes_roots,
            [&](auto positive, auto tangents, auto roots) {
                leaky_stage<T, positive.VALUE, tangents.VALUE, Roots(roots.VALUE)>(
                    pairs, op, one, next);
            });
    }
    if (end.kind == SUM) pairs.store_sums(end);
    return true;
}

// Run any stage: its rows one after the other, each consumed by the last
// operation.
template <class T, class Source>
void run_stage(const Pairs<T>& pairs, const Op* op, const Source& source) {
    typedef typename Simd<T>::V V;
    const Op* end = op;
    while (!ends_stage(end->kind)) ++end;
    const int width = end->cols.size, height = end->rows.size;
    const int maps = end == op ? 0 : end[-1].maps;
    const V* rows[1 + MAX_TANGENTS];
    begin_end(pairs, *end, maps);
    for (int i = 0; i < height; ++i) {
        pairs.make_row(op, width, i * width, i * op->pitch, source, rows);
        for (int m = 0; m < maps; ++m) {
            if (end->kind == CONV) {
                V* whole = pairs.whole + size_t(m) * pairs.positions + i * width;
                for (int p = 0; p < width; ++p) whole[p] = rows[m][p];
            } else if (end->kind == RESULT) {
                if (!end->flag) pairs.set_sums(m, rows[m]);
            } else if (end->kind != END) {
                end_row(pairs, *end, m, i, RowValue<V>{rows[m]});
            }
        }
    }
    last_rows(pairs, *end, maps);
    for (int m = 0; m < maps && end->kind == CONV; ++m)
        window_sums(*end, pairs.whole + size_t(m) * pairs.positions,
                    set1(T(end->additive[m])), pairs.rows_done, pairs.at(end->reg, m));
    if (end->kind == SUM) pairs.store_sums(*end);
}

// Move an axis of a map by a displacement: the rectangle of positions where
// both images are is like a smaller image. Return its first position.
int move_axis(const Axis& from, int by, Axis& to) {
    to.size = from.size - distance(by);
    if (from.taps) to.outputs = from.outputs - distance(by) / from.stride;
    if (from.pairs)
        to.pairs =
            from.pairs + ptrdiff_t(by + from.size - 1) * from.size + larger(0, -by);
    return larger(0, -by);
}

// Write the operations of a segment on maps whose last one is displaced by
// (down, across).
void move_ops(const Program& program, const Segment& segment, int down, int across,
              Op* moved) {
    int y = 0, x = 0;  // displacement of the map of the stage
    for (int k = segment.begin; k < segment.end; ++k) {
        const Op& op = program.ops[k];
        Op& to = moved[k];
        if (!op.rows.window) y = down * op.rows.stride, x = across * op.cols.stride;
        const int top = move_axis(op.rows, y, to.rows);
        const int left = move_axis(op.cols, x, to.cols);
        to.begin_one = top * op.pitch + left;
        to.begin_two = (top + y) * op.pitch + left + x;
    }
    Op& end = moved[segment.end - 1];
    end.segment = &segment;
    end.down = down;
    end.across = across;
    end.repeats = segment.is_half && down > 0 ? 2 : 1;
}

// Run a segment for n displacements, stage by stage. Each has a `Pairs` of its own, and
// they add to sums in their order.
template <class T, class One>
void run_segment(const Pairs<T>* pairs, int n, const One* one, const Segment& segment) {
    const Op* op = pairs[0].moved + segment.begin;
    const Op* const end = pairs[0].moved + segment.end;
    for (; op < end; ++op) {
        for (int i = 0; i < n; ++i) {
            const Op* own = pairs[i].moved + (op - pairs[0].moved);
            bool is_done = false;
            if constexpr (sizeof(One) == sizeof(T))
                is_done = run_fused(pairs[i], own, one, (const T*)nullptr);
            if (!is_done)
                run_stage(pairs[i], own, ImageSource<T, One>{pairs[i], one, nullptr});
        }
        while (!ends_stage(op->kind)) ++op;
    }
}

// Run a segment for a row of displacements, then the next segments for the rows
// that are complete behind its pool. `done` has the number of these for each
// segment.
template <class T, class One>
void run_row(const Pairs<T>* pairs, int n_pairs, const One* one,
             const Segment* segments, int number, int row, int last, int* done) {
    const Program& program = pairs[0].program;
    const Segment& segment = segments[number];
    const int down = segment.rows.at[row];
    for (int col = 0; col < segment.cols.n; col += n_pairs) {
        const int left = segment.cols.n - col, n = left < n_pairs ? left : n_pairs;
        for (int i = 0; i < n; ++i) {
            if (number > 0) pairs[i].take_level(segments[number - 1], row, col + i);
            move_ops(program, segment, down, segment.cols.at[col + i], pairs[i].moved);
        }
        run_segment(pairs, n, one, segment);
    }
    if (number == last) return;
    const Axis& windows = program.ops[segment.end - 1].rows;
    for (int& next = done[number]; next < segment.down.n; ++next) {
        const int behind = segment.down.at[next];
        const bool is_last = row + 1 == segment.rows.n;
        if (!is_last && behind * windows.stride + windows.reach() > down) return;
        run_row(pairs, n_pairs, one, segments, number + 1, next, last, done);
    }
}

// Run the segments up to a last one for all displacements, `n_pairs` at a time. Their
// maps and sums are added up in the same order for any number.
template <class T, class One>
void run_displacements(const Pairs<T>* pairs, int n_pairs, const One* one,
                       const Segment* segments, int last) {
    int done[MAX_SEGMENTS] = {};
    pairs[0].clear_sums();
    for (int row = 0; row < segments[0].rows.n; ++row)
        run_row(pairs, n_pairs, one, segments, 0, row, last, done);
}

// The same for each image with itself, one in each lane.
void run_self(const Pairs<double>& pairs, int last) {
    const Program& program = pairs.program;
    run_displacements(&pairs, 1, pairs.group, program.self + last * program.n_segments,
                      last);
}

template <class T>
bool are_equal(const T* one, const T* two, int n) {
    for (int i = 0; i < n; ++i)
        if (one[i] != two[i]) return false;
    return true;
}

// Write the results of a group: pairs.sums has the last map in double
// precision. The covariance of equal samples is their variance, exactly.
template <class T>
void write_results(const Pairs<T>& pairs, const Op& op, const Tile<T>& tile, int i,
                   int first) {
    const int lanes = Pairs<T>::LANES, n_maps = pairs.n_maps;
    double* out = tile.out + (ptrdiff_t(i) * tile.n_two + first) * n_maps;
    const double* diag = tile.diag_one + ptrdiff_t(i) * n_maps;
    for (int l = 0; l < lanes && first + l < tile.n_two; ++l) {
        const ptrdiff_t j = first + l;
        double* own = out + l * n_maps;
        if (diag[0] == tile.diag_two[j * n_maps] &&
            are_equal(tile.one + i * tile.stride_one, tile.two + j * tile.stride_two,
                      pairs.program.n_pixels)) {
            for (int m = 0; m < n_maps; ++m) own[m] = diag[m];
            continue;
        }
        const double value = pairs.sums[l];
        for (int m = 0; m < n_maps; ++m) {
            own[m] = op.additive[m];
            if (m < op.loaded) own[m] += op.factor[0] * pairs.sums[m * lanes + l];
            if (m > 0) own[m] += op.factor[m] * value;
        }
    }
}

// Each stage is computed for several samples before the next stage, if they gain by
// reading the same tables of the group.
template <class T>
void run_images(const Pairs<T>* pairs, const Tile<T>& tile, int first, int n_one) {
    const Program& program = pairs[0].program;
    const int displaced = program.n_displaced;
    const int n_pairs = pairs[0].n_together(), together = displaced ? 1 : n_pairs;
    for (int i = 0; i < n_one; i += together) {
        const int n = n_one - i < together ? n_one - i : together;
        const int begun = i % INPUT_ROWS;
        const bool has_inputs = program.n_channels > 1 && !displaced;
        if (has_inputs && begun == 0)
            pairs[0].write_inputs(tile.one + i * tile.stride_one, tile.stride_one,
                                  n_one - i);
        const T* first_one = tile.one + i * tile.stride_one;
        if (displaced) {
            run_displacements(pairs, n_pairs, first_one, program.segments,
                              program.n_segments - 1);
            pairs[0].store_sums(program.ops[displaced - 1]);
        }
        for (const Op* op = program.ops + displaced; op < program.ops + program.n_ops;
             ++op) {
            for (int k = 0; k < n; ++k) {
                const T* one = first_one + k * tile.stride_one;
                const T* next = i + k + 1 < n_one ? one + tile.stride_one : one;
                const size_t of_sample = size_t(begun + k) * pairs[k].input_size();
                const ImageSource<T> source{
                    pairs[k], one, has_inputs ? pairs[0].inputs + of_sample : nullptr};
                if (!run_fused(pairs[k], op, one, next))
                    run_stage(pairs[k], op, source);
            }
            while (!ends_stage(op->kind)) ++op;
        }
        for (int k = 0; k < n; ++k)
            write_results(pairs[k], program.ops[program.n_ops - 1], tile, i + k, first);
    }
}

template <class T>
void run_samples(const Pairs<T>& pairs, const Tile<T>& tile, int first, int n_one) {
    typedef typename Simd<T>::V V;
    const Op& result = pairs.program.ops[pairs.program.n_ops - 1];
    const V* rows[1 + MAX_TANGENTS];
    for (int i = 0; i < n_one; i += ROW_OF_SAMPLES) {
        const int n = n_one - i < ROW_OF_SAMPLES ? n_one - i : ROW_OF_SAMPLES;
        const SampleSource<T> source{pairs, tile.one + i * tile.stride_one,
                                     tile.stride_one};
        pairs.make_row(pairs.program.ops, n, 0, 0, source, rows);
        for (int p = 0; p < n; ++p) {
            for (int m = 0; m < result.loaded; ++m) pairs.set_sums(m, rows[m] + p);
            write_results(pairs, result, tile, i + p, first);
        }
    }
}

template <class T>
void cross(const Program& program, const Tile<T>& tile, void* workspace) {
    Arena arena{(char*)workspace, 0};
    const Pairs<T> shared(program, arena);
    const Pairs<T> pairs[TOGETHER] = {
        shared, {shared, arena}, {shared, arena}, {shared, arena}};
    for (int first = 0; first < tile.n_two; first += Pairs<T>::LANES) {
        const int last = first + Pairs<T>::LANES;
        const int n_one = tile.upper && last < tile.n_one ? last : tile.n_one;
        pairs[0].load_group(tile, first);
        if (program.is_vector)
            run_samples(pairs[0], tile, first, n_one);
        else
            run_images(pairs, tile, first, n_one);
    }
}

template <class T>
size_t cross_bytes(const Program& program) {
    Arena arena{nullptr, 0};
    const Pairs<T> pairs(program, arena);
    for (int k = 1; k < TOGETHER; ++k) Pairs<T>(pairs, arena);
    return arena.used;
}

template <class T>
void prepare_all(const Variances& variances, const Images<T>& images) {
    for (int first = 0; first < images.n; first += Variances::LANES)
        variances.run(images, first);
}

// The same program, with standard deviations and their inverses in tables. Those of
// the GPU have no inverses; the covariances of an image with itself need them.
Program with_inverses(const Program& program, Arena& arena) {
    Program wide = program;
    Op* const ops = arena.take<Op>(program.n_ops);
    if (arena.start) wide.ops = ops;
    wide.n_values += program.n_values - program.n_pixels;
    for (int k = 0; arena.start && k < program.n_ops; ++k) {
        ops[k] = program.ops[k];
        if (ops[k].kind == LEAKY && ops[k].roots == 2) return program;
        if (ops[k].kind == LEAKY) ops[k].roots = 2;
        if (ops[k].kind == LEAKY || ops[k].kind == ERF)
            ops[k].table += ops[k].table - program.n_pixels;
    }
    return wide;
}

template <class T>
void prepare(const Program& program, const Images<T>& images, void* workspace) {
    Arena arena{(char*)workspace, 0};
    if (program.n_displaced) {
        const Program wide = with_inverses(program, arena);
        const Pairs<double> self(wide, arena);
        prepare_all(Variances(program, arena, &self, run_self), images);
    } else {
        prepare_all(Variances(program, arena, nullptr, run_self), images);
    }
}

size_t prepare_bytes(const Program& program) {
    Arena arena{nullptr, 0};
    if (program.n_displaced) {
        const Program wide = with_inverses(program, arena);
        Pairs<double>(wide, arena);
    }
    Variances(program, arena, nullptr, run_self);
    return arena.used;
}

}  // namespace

#define SKCONVGP_TEXT(word) #word
#define SKCONVGP_NAME(word) SKCONVGP_TEXT(word)

extern const Api api;
const Api api = {SKCONVGP_NAME(SKCONVGP_ISA),
                 2,
                 0,
                 0,
                 cross_bytes<float>,
                 cross_bytes<double>,
                 prepare_bytes,
                 cross<float>,
                 cross<double>,
                 prepare<float>,
                 prepare<double>,
                 patches_bytes,
                 respond_to_patches,
                 scattering_bytes,
                 scatter,
                 false};

}  // namespace SKCONVGP_ISA
}  // namespace skconvgp
