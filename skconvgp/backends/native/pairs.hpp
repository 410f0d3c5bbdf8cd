// Covariances of one sample with a group of others, one of these in each lane.
// All layers of the network are computed on maps that stay in cache.
#pragma once

#include "activations.hpp"
#include "arena.hpp"
#include "windows.hpp"

namespace skconvgp {
namespace SKCONVGP_ISA {

constexpr int TOGETHER = 4;  // samples or displacements whose stages share tables
constexpr size_t LARGE_TABLES = 768 << 10;  // bytes that leave the second cache
constexpr int ROW_OF_SAMPLES = 128;  // samples in a row if maps have one position
constexpr int DOT_ROWS = 8;          // samples whose inner products share loads
constexpr int INPUT_ROWS = 8;        // samples whose input maps share loads
constexpr int SUM_CHUNK = 64;        // positions summed before they join the total
constexpr int DOT_CHUNK = 128;       // terms summed before they join the total

SKCONVGP_INLINE int larger(int a, int b) { return a > b ? a : b; }
SKCONVGP_INLINE int distance(int d) { return d < 0 ? -d : d; }
// Towards minus infinity, where / goes towards 0; b is positive.
SKCONVGP_INLINE int floor_divide(int a, int b) { return (a < 0 ? a - b + 1 : a) / b; }

// The product of pixels of images whose channels lie side by side.
template <class T, int CHANNELS>
struct InputValue {
    const T* one;
    const typename Simd<T>::V* two;
    SKCONVGP_INLINE_MEMBER typename Simd<T>::V operator()(int p) const {
        const T* const from = one + p * CHANNELS;
        typename Simd<T>::V sum = set1(from[0]) * two[p * CHANNELS];
#pragma GCC unroll 4
        for (int c = 1; c < CHANNELS; ++c)
            sum = fma(set1(from[c]), two[p * CHANNELS + c], sum);
        return sum;
    }
};

// Values times numbers of their positions.
template <class T, class F>
struct WeightedValue {
    typedef typename Simd<T>::V V;
    const F& value;
    const float* weights;
    SKCONVGP_INLINE_MEMBER V operator()(int p) const {
        return value(p) * set1(T(weights[p]));
    }
};

template <int N, class T, class F>
SKCONVGP_INLINE void evaluate(const WeightedValue<T, F>& f, int p,
                              typename Simd<T>::V* out) {
    evaluate<N>(f.value, p, out);
#pragma GCC unroll 8
    for (int j = 0; j < N; ++j) out[j] = out[j] * set1(T(f.weights[p + j]));
}

// The sum of values n, ..., m - 1 of a row, in four partial sums. Its order,
// and so its rounding, is the same for every pair.
template <class V, class F>
SKCONVGP_INLINE V sum_part(int n, int m, const F& value) {
    constexpr int PARTS = 4;
    V sum[PARTS] = {};
    int p = n;
    for (; p + PARTS <= m; p += PARTS) {
        V values[PARTS];
        evaluate<PARTS>(value, p, values);
#pragma GCC unroll 4
        for (int k = 0; k < PARTS; ++k) sum[k] += values[k];
    }
    for (; p < m; ++p) sum[0] += value(p);
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

// Memory for one sample against a group. Samples that are computed together
// share all of it but the registers and the sums.
template <class T>
struct Pairs {
    typedef typename Simd<T>::V V;
    static constexpr int LANES = Simd<T>::LANES;

    const Program& program;
    const int n_maps;     // the value and its tangents
    const int positions;  // of the largest map, or samples in a row
    V* group;             // tables of the group, [n_values]
    V* inputs;            // of many channels, [INPUT_ROWS][positions of the input]
    V* whole;             // maps whose windows are summed directly
    V* rows_done;
    V* row;  // [n_maps][width]
    V *by_c, *by_q, *by_kappa;
    V* boxes;  // memory of n_maps box sums
    V* zeros;
    V* registers;             // [n_registers][n_maps][positions]
    double* sums;             // [n_maps][LANES]
    Op* moved;                // operations on the maps of one displacement
    V* pooled;                // rows in front of a pool, [n_maps][width]
    V* levels[MAX_SEGMENTS];  // maps behind a pool, of the rows of displacements
                              // that are not complete: [n_open][columns of
                              // displacements][n_maps][positions]
    int width;
    size_t box_size;

    Pairs(const Program& program, Arena& arena)
        : program(program), n_maps(1 + program.n_tangents),
          positions(program.is_vector ? ROW_OF_SAMPLES : program.max_positions),
          width(program.is_vector ? ROW_OF_SAMPLES : program.max_width) {
        const size_t window = program.max_window;
        box_size = (window + width) + window * width + width;
        group = arena.take<V>(program.n_values);
        const int inputs_of =
            program.n_channels > 1 && !program.n_displaced ? INPUT_ROWS : 0;
        inputs = arena.take<V>(size_t(inputs_of) * input_size());
        whole = arena.take<V>(size_t(n_maps) * positions);
        rows_done = arena.take<V>(positions);
        row = arena.take<V>(n_maps * width);
        by_c = arena.take<V>(width);
        by_q = arena.take<V>(width);
        by_kappa = arena.take<V>(width);
        boxes = arena.take<V>(size_t(n_maps) * box_size);
        zeros = arena.take<V>(width);
        pooled = arena.take<V>(program.n_displaced ? n_maps * width : 0);
        for (int k = 0; k < program.n_segments - 1; ++k)
            levels[k] = arena.take<V>(level_size(k));
        sums = arena.take<double>(n_maps * LANES);
        take_own(arena);
        if (!arena.start) return;
        for (int i = 0; i < width; ++i) zeros[i] = V{};
        for (int k = 0; k < program.n_segments - 1; ++k) clear_level(k);
        for (int m = 0; m < n_maps; ++m)
            for (size_t i = 0; i < window; ++i) boxes[m * box_size + i] = V{};
    }

    // For another sample or displacement that is computed at the same time.
    // Displacements add to the same sums.
    Pairs(const Pairs& other, Arena& arena) : Pairs(other) {
        if (!program.n_displaced) sums = arena.take<double>(n_maps * LANES);
        take_own(arena);
    }

    void take_own(Arena& arena) {
        registers = arena.take<V>(size_t(program.n_registers) * n_maps * positions);
        moved = arena.take<Op>(program.n_displaced);
        if (!arena.start) return;
        for (int k = 0; k < program.n_displaced; ++k) moved[k] = program.ops[k];
    }

    // How many samples or displacements pass through a stage before the next one. They
    // read its tables together, which pays if those of all stages leave the cache.
    // Displaced maps with tangents would leave it themselves.
    int n_together() const {
        const bool has_tangents = program.n_tangents && !program.is_ntk;
        if (has_tangents) return program.n_displaced ? 1 : TOGETHER;
        return program.n_values * sizeof(V) > LARGE_TABLES ? TOGETHER : 1;
    }

    BoxMemory<V> box(int map) const {
        const size_t window = program.max_window;
        V* incoming = boxes + map * box_size + window;
        V* ring = incoming + width;
        return {incoming, ring, ring + window * width, zeros};
    }

    int input_size() const { return program.n_pixels / program.n_channels; }

    V* at(int reg, int map) const {
        return registers + (size_t(reg) * n_maps + map) * positions;
    }

    // Sums over positions are kept in double precision.
    void clear_sums() const {
        for (int i = 0; i < n_maps * LANES; ++i) sums[i] = 0.0;
    }
    template <class F>
    SKCONVGP_INLINE_MEMBER void add_row(int map, int n, const F& value,
                                        double weight = 1.0) const {
        for (int p = 0; p < n; p += SUM_CHUNK) {
            const int stop = p + SUM_CHUNK < n ? p + SUM_CHUNK : n;
            const V sum = sum_part<V>(p, stop, value);
            T lanes[LANES];
            __builtin_memcpy(lanes, &sum, sizeof(V));
            for (int l = 0; l < LANES; ++l) sums[map * LANES + l] += weight * lanes[l];
        }
    }
    // Values behind the pool of a segment.
    int level_positions(int segment) const {
        const Op& pool = program.ops[program.segments[segment].end - 1];
        return pool.rows.outputs * pool.cols.outputs;
    }
    // Rows of displacements behind a pool that one in front of it contributes to.
    int n_open(int segment) const {
        const Axis& rows = program.ops[program.segments[segment].end - 1].rows;
        return 2 * rows.reach() / rows.stride + 1;
    }
    size_t level_size(int segment) const {
        return size_t(n_open(segment)) * program.segments[segment].across.n * n_maps *
               level_positions(segment);
    }
    V* level(int segment, int down, int col, int map) const {
        const int cols = program.segments[segment].across.n, n = n_open(segment);
        const int row = down - floor_divide(down, n) * n;
        const size_t place = (size_t(row) * cols + col) * n_maps + map;
        return levels[segment] + place * level_positions(segment);
    }
    void clear_level(int segment) const {
        for (size_t i = 0; i < level_size(segment); ++i) levels[segment][i] = V{};
    }
    // Move a finished map behind a pool to the register of the pool, and clear its
    // memory for another one.
    void take_level(const Segment& segment, int row, int col) const {
        const Op& pool = program.ops[segment.end - 1];
        const int down = segment.down.at[row], across = segment.across.at[col];
        const int n = (pool.rows.outputs - distance(down)) *
                      (pool.cols.outputs - distance(across));
        for (int m = 0; m < pool.maps; ++m) {
            V* from = level(segment.number, down, col, m);
            V* to = at(pool.reg, m);
            for (int p = 0; p < n; ++p) {
                to[p] = from[p];
                from[p] = V{};
            }
        }
    }
    // The windows of a pool along the rows that have row i of the displaced map:
    // that of the first image, and how many rows further that of the second is.
    struct PooledRow {
        int top, down;
        bool is_wanted;
        bool operator==(const PooledRow& other) const {
            return is_wanted == other.is_wanted && top == other.top &&
                   down == other.down;
        }
    };
    PooledRow pooled_row(const Op& op, int i) const {
        const Axis& rows = op.rows;
        const int y = larger(0, -op.down) + i, partner = y + op.down;
        const int top = y / rows.stride, bottom = partner / rows.stride;
        const auto is_inside = [&](int at, int output) {
            return at - output * rows.stride < rows.window && output < rows.outputs;
        };
        return {top, bottom - top,
                i >= 0 && i < rows.size && is_inside(y, top) &&
                    is_inside(partner, bottom) &&
                    op.segment->down.place(bottom - top) >= 0};
    }
    // Add row i of the displaced map to the windows that have its positions. Where
    // windows lie apart, only one pair of them has a pair of positions, and rows of the
    // same windows are added up before.
    template <class F>
    SKCONVGP_INLINE_MEMBER void pool_row(const Op& op, int map, int i,
                                         const F& value) const {
        V* const sum = pooled + map * width;
        if (!op.rows.is_apart || !op.cols.is_apart) {
            write_row(op.cols.size, value, sum);
            gather_row(op, map, i, sum);
            return;
        }
        const PooledRow at = pooled_row(op, i);
        if (!at.is_wanted) return;
        if (i > 0 && pooled_row(op, i - 1) == at)
            add_to_row(op.cols.size, value, sum);
        else
            write_row(op.cols.size, value, sum);
        if (!(pooled_row(op, i + 1) == at)) pool_columns(op, map, at, sum);
    }
    void pool_columns(const Op& op, int map, const PooledRow& at, const V* sum) const {
        const Segment& segment = *op.segment;
        const int stride = op.cols.stride, window = op.cols.window;
        for (int first = 0, next; first < window; first = next) {
            // Columns first, ..., next - 1 of windows have partners in one window.
            const int across = floor_divide(first + op.across, stride);
            const int left = first + op.across - across * stride;
            next = first + stride - left;
            if (next > window) next = window;
            const int n_columns =
                next - first < window - left ? next - first : window - left;
            const int col = segment.across.place(across);
            if (col < 0) continue;
            const int begin = larger(0, -across);
            const int n = op.cols.outputs - distance(across);
            V* out = level(segment.number, at.down, col, map) +
                     (at.top - larger(0, -at.down)) * n;
            const V* in = sum + begin * stride + first - larger(0, -op.across);
            if (n_columns == 2)
                for (int p = 0; p < n; ++p)
                    out[p] += in[p * stride] + in[p * stride + 1];
            else
                for (int k = 0; k < n_columns; ++k)
                    for (int p = 0; p < n; ++p) out[p] += in[p * stride + k];
        }
    }

    // Add a row to all pairs of windows that have its positions, which may be several.
    void gather_row(const Op& op, int map, int i, const V* row) const {
        const Axis& rows = op.rows;
        const int y = larger(0, -op.down) + i, partner = y + op.down;
        for (int top = rows.first_window(y); top <= rows.last_window(y); ++top)
            for (int bottom = rows.first_window(partner);
                 bottom <= rows.last_window(partner); ++bottom)
                if (rows.has(top, y) && rows.has(bottom, partner) &&
                    op.segment->down.place(bottom - top) >= 0)
                    gather_columns(op, map, top, bottom - top, row);
    }
    // The same along the columns: each column of a window of the first image with each
    // one of a window of the second image that is its partner.
    void gather_columns(const Op& op, int map, int top, int down, const V* row) const {
        const Segment& segment = *op.segment;
        const Axis& cols = op.cols;
        const int left = larger(0, -op.across), right = left + cols.size;
        for (int one = 0; one < cols.window; ++one) {
            for (int two = 0; two < cols.window; ++two) {
                const int apart = op.across + (one - two) * cols.dilation;
                const int across = floor_divide(apart, cols.stride);
                if (across * cols.stride != apart) continue;
                const int col = segment.across.place(across);
                if (col < 0) continue;
                // Windows of the first image whose column is in the row.
                const int begin = larger(0, -across);
                const int n = cols.outputs - distance(across);
                const int at = one * cols.dilation - cols.before;
                const int first = larger(begin, -floor_divide(at - left, cols.stride));
                const int last = floor_divide(right - 1 - at, cols.stride);
                V* out = level(segment.number, down, col, map) +
                         (top - larger(0, -down)) * n - begin;
                for (int p = first; p <= last && p < begin + n; ++p)
                    out[p] += row[p * cols.stride + at - left];
            }
        }
    }

    // Each position counts as often as windows have it and its partner.
    template <class F>
    SKCONVGP_INLINE_MEMBER void add_pairs(const Op& op, int map, int i,
                                          const F& value) const {
        if (op.rows.pairs[i] == 0.0f) return;
        add_row(map, op.cols.size, WeightedValue<T, F>{value, op.cols.pairs},
                double(op.rows.pairs[i]) * op.repeats);
    }
    void set_sums(int map, const V* value) const {
        for (int l = 0; l < LANES; ++l) sums[map * LANES + l] = ((const T*)value)[l];
    }
    void store_sums(const Op& op) const {
        for (int m = 0; m < op.maps; ++m)
            for (int l = 0; l < LANES; ++l)
                ((T*)at(op.reg, m))[l] = T(sums[m * LANES + l]);
    }

    // Interleave the tables of up to LANES samples; the last sample fills free
    // lanes.
    void load_group(const Tile<T>& tile, int first) const {
        constexpr int AT_ONCE = 64;  // values of each: the output then stays in cache
        const T* from[LANES];
        for (int lane = 0; lane < LANES; ++lane) {
            const int j = first + lane < tile.n_two ? first + lane : tile.n_two - 1;
            from[lane] = tile.two + j * tile.stride_two;
        }
        for (int start = 0; start < program.n_values; start += AT_ONCE) {
            const int left = program.n_values - start;
            const int n = left < AT_ONCE ? left : AT_ONCE;
            T* to = (T*)(group + start);
            for (int lane = 0; lane < LANES; ++lane)
                for (int i = 0; i < n; ++i)
                    to[i * LANES + lane] = from[lane][start + i];
        }
    }

    template <class One>
    void input_row(const Op& op, const One* one, int first, int n, V* out) const {
        const ptrdiff_t step = op.roots ? op.roots : 1;
        const ptrdiff_t channel = op.roots ? 1 : op.plane;
        const One* from = one + (op.begin_one + first) * step;
        const V* two = group + (op.begin_two + first) * step;
        for (int p = 0; p < n; ++p, from += step, two += step) {
            V sum = set1(from[0]) * two[0];
            for (int c = 1; c < op.flag; ++c)
                sum = fma(set1(from[c * channel]), two[c * channel], sum);
            out[p] = sum;
        }
    }

    // Inner products over channels of up to INPUT_ROWS samples with the group.
    // Each sum has the order of `input_row`.
    void write_inputs(const T* one, ptrdiff_t stride, int n_one) const {
        const int channels = program.n_channels, size = input_size();
        for (int p = 0; p < size; ++p) {
            const V* two = group + size_t(p) * channels;
            const T* from[INPUT_ROWS];
            V sum[INPUT_ROWS] = {};
            for (int r = 0; r < INPUT_ROWS; ++r)
                from[r] =
                    one + (r < n_one ? r : n_one - 1) * stride + size_t(p) * channels;
            for (int c = 0; c < channels; ++c)
#pragma GCC unroll 8
                for (int r = 0; r < INPUT_ROWS; ++r)
                    sum[r] = fma(set1(from[r][c]), two[c], sum[r]);
#pragma GCC unroll 8
            for (int r = 0; r < INPUT_ROWS; ++r) inputs[size_t(r) * size + p] = sum[r];
        }
    }

    template <class Value>
    void write_row(int n, const Value& value, V* out) const {
        int p = 0;
        for (; p + BLOCK <= n; p += BLOCK) evaluate<BLOCK>(value, p, out + p);
        for (; p < n; ++p) out[p] = value(p);
    }

    template <class Value>
    void add_to_row(int n, const Value& value, V* out) const {
        int p = 0;
        for (; p + BLOCK <= n; p += BLOCK) {
            V values[BLOCK];
            evaluate<BLOCK>(value, p, values);
#pragma GCC unroll 8
            for (int j = 0; j < BLOCK; ++j) out[p + j] += values[j];
        }
        for (; p < n; ++p) out[p] += value(p);
    }

    template <bool POSITIVE, class Table, class Slopes>
    SKCONVGP_INLINE_MEMBER LeakyJoint<T, POSITIVE, Table, Slopes> leaky_joint(
        const Op& op, int place, Table base, const V* in, const Slopes& slopes) const {
        return {op, in, base.at(place, 2), slopes};
    }

    LeakySlopes<T> slopes() const { return {by_c, by_q}; }

    template <class Table>
    SKCONVGP_INLINE_MEMBER WithTangent<T, Table> with_tangent(
        int m, int place, Table base, const V* const* rows) const {
        return {base.skip(2, m - 1).at(place, 1), rows[m]};
    }

    template <class Table>
    LeakyTangent<T, Table> leaky_tangent(int m, int place, Table base,
                                         const V* in) const {
        return {in, by_c, by_q, base.skip(2, m - 1).at(place, 1)};
    }

    template <bool POSITIVE, class Table>
    void leaky_row(const Op& op, int n, int place, Table base, const V* in) const {
        const Table table = base.at(place, 2);
        if (op.maps == 1 && program.mixes_roots)
            write_row(n, LeakyValue<T, POSITIVE, Table, Table::ROOTS>(op, in, table),
                      row);
        else if (op.maps == 1)
            write_row(n, LeakyValue<T, POSITIVE, Table>(op, in, table), row);
        else
            write_row(n, leaky_joint<POSITIVE>(op, place, base, in, slopes()), row);
    }

    template <class Table>
    void erf_row(const Op& op, int n, Table table, const V* in, V* out) const {
        if (op.maps == 1)
            write_row(n, ErfValue<T, Table>(op, in, table), out);
        else
            write_row(n, ErfSlopes<T, Table>(op, in, table, by_c, by_q, by_kappa), out);
    }

    // Apply an activation, first to the value, which leaves the slopes in memory.
    // rows[m] points to the present row of map m.
    template <class Table>
    void activate_row(const Op& op, int n, int place, Table base,
                      const V** rows) const {
        // Where both images are one, the value and the slope are known exactly.
        if (program.is_ntk && op.kind == LEAKY && base.is_one()) return;
        if (op.kind == LEAKY)
            op.flag ? leaky_row<true>(op, n, place, base, rows[0])
                    : leaky_row<false>(op, n, place, base, rows[0]);
        else
            erf_row(op, n, base.at(place, 1), rows[0], row);
        rows[0] = row;
        for (int m = 1; m < op.maps; ++m) {
            V* out = row + m * width;
            if (program.is_ntk) {
                write_row(n, ScaledRow<V>{rows[m], by_c}, out);
            } else if (op.kind == ERF) {
                const V turn = set1(T(op.factor[m] / op.factor[0]));
                write_row(n,
                          ErfTangent<T, Table>{rows[m], by_c, by_q, by_kappa,
                                               base.at(place, 1),
                                               base.skip(1, m - 1).at(place, 1), turn},
                          out);
            } else {
                write_row(n, leaky_tangent(m, place, base, rows[m]), out);
            }
            rows[m] = out;
        }
    }

    // The row of a register; maps that it does not hold are zero.
    const V* stored(const Op& op, int m, int first) const {
        return m < op.loaded ? at(op.reg, m) + first : zeros;
    }

    // ADD and AFFINE. The value is changed last, because derivatives of the
    // factor need the old value.
    void combine_row(const Op& op, int n, int first, const V** rows) const {
        const V factor = set1(T(op.factor[0]));
        for (int m = op.maps - 1; m >= 0; --m) {
            const V turn = set1(T(op.factor[m])), change = set1(T(op.additive[m]));
            const V* in = rows[m];
            const V* other = op.kind == ADD ? stored(op, m, first) : nullptr;
            V* out = row + m * width;
            if (op.kind == AFFINE)
                for (int p = 0; p < n; ++p) out[p] = fma(factor, in[p], change);
            else if (op.flag)
                for (int p = 0; p < n; ++p) out[p] = fma(factor, in[p], other[p]);
            else
                for (int p = 0; p < n; ++p) out[p] = fma(factor, other[p], in[p]);
            if (op.kind == ADD && m > 0 && op.factor[m] != 0.0) {
                const V* scaled = op.flag ? rows[0] : stored(op, 0, first);
                for (int p = 0; p < n; ++p) out[p] = fma(turn, scaled[p], out[p]);
            }
            rows[m] = out;
        }
    }

    // Run the operations of a stage on one row of the map, up to the one that
    // ends it. It starts at number `first` of the map, and in tables at number
    // `place`.
    template <class Source>
    void make_row(const Op* op, int n, int first, int place, Source source,
                  const V** rows) const {
        for (int m = 0; m < n_maps; ++m) rows[m] = zeros;
        for (;; ++op) {
            switch (op->kind) {
                case INPUT:
                case DOT:
                    rows[0] = source.input(*op, place, n, row);
                    break;
                case LOAD:
                    for (int m = 0; m < op->maps; ++m) rows[m] = stored(*op, m, first);
                    break;
                case STORE:
                    for (int m = 0; m < op->maps; ++m)
                        for (int p = 0; p < n; ++p)
                            at(op->reg, m)[first + p] = rows[m][p];
                    break;
                case LEAKY:
                case ERF:
                    activate_row(*op, n, place, source.table(*op), rows);
                    break;
                case ADD:
                case AFFINE:
                    combine_row(*op, n, first, rows);
                    break;
                case JOIN: {
                    V* out = row + width;
                    for (int p = 0; p < n; ++p) out[p] = rows[0][p] + rows[1][p];
                    rows[1] = out;
                    break;
                }
                default:
                    return;
            }
        }
    }
};

}  // namespace SKCONVGP_ISA
}  // namespace skconvgp
