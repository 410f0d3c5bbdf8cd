// The covariances of a few pairs of images, which the 32 lanes of a warp carry through
// all layers of the network: a lane holds one to four columns of the maps of each pair.
//
// opcodes.hpp describes the operations. On a GPU they are compile-time constants and
// all loops below are unrolled, so that maps lie in registers. On a CPU, for tests,
// they are data and maps lie in memory.
#pragma once

#include "coefficients.hpp"
#include "lanes.hpp"
#include "opcodes.hpp"

namespace skconvgp {
namespace warp {

struct Axis {
    int size, window, before, stride, dilation, outputs;
    SKCONVGP_WARP_MEMBER constexpr int lead() const { return window - 1 - before; }
    SKCONVGP_WARP_MEMBER constexpr int tail() const { return outputs - size + lead(); }
};

// In the order of Column, since _cuda_source.py writes initialisers in that order.
struct Op {
    int kind, reg, flag;
    Axis rows, cols;
    int circular, table, roots, loaded, maps;
    double lambda, mu;
    int place;  // index among all operations
};

SKCONVGP_WARP constexpr bool ends_stage(int kind) { return STAGE_ENDS >> kind & 1; }
SKCONVGP_WARP constexpr int count_parts(int width) {
    return (width + LANES - 1) / LANES;
}

#if !defined(SKCONVGP_UNROLL_ROWS)  // sources for GPUs define it for their program
#define SKCONVGP_UNROLL_ROWS SKCONVGP_UNROLL
#endif

constexpr int ROWS_OF_A_SUM = 8;  // rows added in T before their sum joins the total
constexpr double ONE_OVER_PI = 0.31830988618379067154;

// Replaces q = 0, so that it can be inverted: as small as has a finite inverse.
template <class T>
constexpr T SMALLEST = T(1e-37);
template <>
constexpr double SMALLEST<double> = 1e-300;

// Polynomials, lowest power first, times a factor.
#define SKCONVGP_POLYNOMIAL(NAME, FLOAT, DOUBLE)                                       \
    template <int I, class V>                                                          \
    SKCONVGP_WARP V NAME(V u, double factor, float) {                                  \
        constexpr int TERMS = sizeof(coefficients::FLOAT) / sizeof(double);            \
        constexpr double TERM = coefficients::FLOAT[I < TERMS ? I : 0];                \
        if constexpr (I + 1 < TERMS)                                                   \
            return fma(NAME<I + 1>(u, factor, 0.0f), u, splat(float(TERM * factor)));  \
        else                                                                           \
            return splat(float(TERM * factor));                                        \
    }                                                                                  \
    template <int I, class V>                                                          \
    SKCONVGP_WARP V NAME(V u, double factor, double) {                                 \
        constexpr int TERMS = sizeof(coefficients::DOUBLE) / sizeof(double);           \
        constexpr double TERM = coefficients::DOUBLE[I < TERMS ? I : 0];               \
        if constexpr (I + 1 < TERMS)                                                   \
            return fma(NAME<I + 1>(u, factor, 0.0), u, splat(TERM * factor));          \
        else                                                                           \
            return splat(TERM * factor);                                               \
    }
SKCONVGP_POLYNOMIAL(relu_positive, relu_positive_float, relu_positive_double)
SKCONVGP_POLYNOMIAL(relu, relu_float, relu_double)
SKCONVGP_POLYNOMIAL(angle, angle_float, angle_double)
SKCONVGP_POLYNOMIAL(arcsine_part, arcsine_float, arcsine_double)
#undef SKCONVGP_POLYNOMIAL

// asin(t) for |t| <= 1.
template <class T, class V>
SKCONVGP_WARP V arcsine(V t) {
    const V x = magnitude(t), half = splat(T(0.5)), one = splat(T(1));
    const V above = larger(splat(T(0)), (one - x) * half);
    const V z = where_less(half, x, above, x * x);
    const V y = where_less(half, x, root(above), x);
    const V part = fma(y * z, arcsine_part<0>(z, 1.0, T(0)), y);
    const V turned = splat(T(1.5707963267948966)) - (part + part);
    return with_sign(where_less(half, x, turned, part), t);
}

// Tables, variances and results of pairs of samples.
template <class T>
struct Tile {
    const T *one, *two;  // tables, [n][stride]
    long long stride_one, stride_two;
    const double *diag_one, *diag_two;  // variances, [n][n_maps]
    const T* constants;                 // [n_ops][2][n_maps]: additive, factor
    const double* result;               // those of the last operation
    int n_one, n_two, n_pixels;
    double* out;  // [n_one][n_two][n_maps]
    // Null if no positions are averaged. Otherwise the displacements, and how often
    // pairs of positions are averaged; displaced.hpp describes them.
    const int* lists;
    const float* weights;
};

// The displacement of the map in work: that of a row of x' against its row of x, and
// that of the column that each lane holds. `is_seamed` if a row of lanes holds two
// displacements; lanes from `first` to before `stop` have the same one. All maps in
// work are then equally wide, and Warp::at_one and at_two point to row number `row` of
// them.
struct Displacement {
    int down, row;
    Lanes<int> across, first, stop;
    bool is_seamed;
};

// A warp that computes PX times PY pairs. `Memory` has the arrays, whose sizes may be
// known to the compiler: registers [n_registers][n_maps][n_rows][WIDTH], row and sum
// [n_maps][WIDTH], ring [n_maps][largest window][WIDTH], whole [n_maps][n_rows][WIDTH]
// if there are windows by direct sums, and totals [n_maps][PAIRS] in double precision.
// `memory.is_ntk` if the second of two maps is a tangent kernel.
template <class T, class Memory, int PX, int PY, int PARTS>
struct Warp {
    typedef Lanes<T> V;
    static constexpr int PAIRS = PX * PY, WIDTH = PAIRS * PARTS;

    Memory& memory;
    const T* one[PX];  // tables of the images
    const T* two[PY];
    const T* constants;
    int table_shift = 0;  // of a repeated stage, to the tables of the next layers
    int constant_shift = 0;
    Displacement moved;  // only if memory.is_displaced
    Lanes<const T*> at_one[PX], at_two[PY];

    SKCONVGP_WARP_MEMBER explicit Warp(Memory& memory) : memory(memory) {}

    SKCONVGP_WARP_MEMBER V& reg(int number, int m, int i, int e) const {
        return memory
            .registers[((number * memory.n_maps + m) * memory.n_rows + i) * WIDTH + e];
    }
    SKCONVGP_WARP_MEMBER V& row(int m, int e) const {
        return memory.row[m * WIDTH + e];
    }
    SKCONVGP_WARP_MEMBER V& sum(int m, int e) const {
        return memory.sum[m * WIDTH + e];
    }
    SKCONVGP_WARP_MEMBER V& whole(int m, int i, int e) const {
        return memory.whole[(m * memory.n_rows + i) * WIDTH + e];
    }
    SKCONVGP_WARP_MEMBER V additive(const Op& op, int m) const {
        return splat(constants[(op.place * 2) * memory.n_maps + constant_shift + m]);
    }
    SKCONVGP_WARP_MEMBER V factor(const Op& op, int m) const {
        return splat(
            constants[(op.place * 2 + 1) * memory.n_maps + constant_shift + m]);
    }

    // Load one part of a row of n values from the tables of all images.
    SKCONVGP_WARP_MEMBER void load_row(int from, int n, int part, V* a, V* b) const {
        SKCONVGP_UNROLL
        for (int x = 0; x < PX; ++x)
            a[x] = load(one[x] + from + LANES * part, n - LANES * part);
        SKCONVGP_UNROLL
        for (int y = 0; y < PY; ++y)
            b[y] = load(two[y] + from + LANES * part, n - LANES * part);
    }
    // The same for row i of a map, which may be displaced.
    SKCONVGP_WARP_MEMBER void load_map_row(const Op& op, int from, int i, int part,
                                           V* a, V* b) const {
        const int width = op.cols.size;
        if (!memory.is_displaced) {
            load_row(from + i * width, width, part, a, b);
            return;
        }
        if (moved.is_seamed) {  // a product with zero is zero: one side is enough
            const long long offset = from + (i - moved.row) * width;
            SKCONVGP_UNROLL
            for (int x = 0; x < PX; ++x)
                a[x] = first_lanes(load_at(at_one[x], offset), width);
            SKCONVGP_UNROLL
            for (int y = 0; y < PY; ++y) b[y] = load_at(at_two[y], offset);
            return;
        }
        const Lanes<int> column = column_of(width, part);
        const int row_one = from + (i + begin_one()) * width;
        const int row_two = row_one + moved.down * width;
        SKCONVGP_UNROLL
        for (int x = 0; x < PX; ++x) a[x] = pick(one[x] + row_one, column, column);
        const Lanes<int> partner = each_lane<int>(
            [&](int l) { return in_lane(column, l) + in_lane(moved.across, l); });
        SKCONVGP_UNROLL
        for (int y = 0; y < PY; ++y) b[y] = pick(two[y] + row_two, column, partner);
    }
    SKCONVGP_WARP_MEMBER void load_table(const Op& op, int map, int i, int part, V* a,
                                         V* b) const {
        const int before = map ? op.roots + map - 1 : 0;
        const int start = before * op.rows.size * op.cols.size;
        load_map_row(op, op.table + table_shift + start, i, part, a, b);
    }

    // The columns of a part of a map of some width; negative if they are beyond it or
    // have no partner.
    SKCONVGP_WARP_MEMBER Lanes<int> column_of(int width, int part) const {
        return each_lane<int>([&](int l) {
            const int p = LANES * part + l, q = p + in_lane(moved.across, l);
            return p < width && q >= 0 && q < width ? p : -1;
        });
    }
    // Rows by which a displaced map is lower, and the first row of x that it has.
    SKCONVGP_WARP_MEMBER int rows_less() const {
        if (!memory.is_displaced) return 0;
        return moved.down < 0 ? -moved.down : moved.down;
    }
    SKCONVGP_WARP_MEMBER int begin_one() const {
        return moved.down < 0 ? -moved.down : 0;
    }

    // ---- operations that make or change row i of a map

    SKCONVGP_WARP_MEMBER void change(const Op& op, int i) const {
        if (op.kind == INPUT) input(op, i);
        if (op.kind == DOT) dot(op);
        if (op.kind == LOAD) load_register(op, i);
        if (op.kind == STORE) store_register(op, i);
        if (op.kind == ADD || op.kind == AFFINE) combine(op, i);
        if (op.kind == JOIN) join();
        if (op.kind == LEAKY) leaky(op, i);
        if (op.kind == ERF) erf(op, i);
    }

    SKCONVGP_WARP_MEMBER void clear_row(int first) const {
        SKCONVGP_UNROLL
        for (int m = first; m < memory.n_maps; ++m) SKCONVGP_UNROLL
        for (int e = 0; e < WIDTH; ++e) row(m, e) = splat(T(0));
    }

    SKCONVGP_WARP_MEMBER void input(const Op& op, int i) const {
        const int width = op.cols.size, plane = op.rows.size * width;
        clear_row(0);
        SKCONVGP_UNROLL
        for (int part = 0; part < count_parts(width); ++part) SKCONVGP_UNROLL
        for (int c = 0; c < op.flag; ++c) {
            V a[PX], b[PY];
            load_map_row(op, c * plane, i, part, a, b);
            add_products(a, b, part);
        }
    }

    SKCONVGP_WARP_MEMBER void add_products(const V* a, const V* b, int part) const {
        SKCONVGP_UNROLL
        for (int k = 0; k < PAIRS; ++k) {
            V& to = row(0, k * PARTS + part);
            to = fma(a[k / PY], b[k % PY], to);
        }
    }

    SKCONVGP_WARP_MEMBER void dot(const Op& op) const {
        clear_row(0);
        for (int start = 0; start < op.flag; start += LANES) {
            V a[PX], b[PY];
            load_row(start, op.flag - start < LANES ? op.flag - start : LANES, 0, a, b);
            add_products(a, b, 0);
        }
        SKCONVGP_UNROLL
        for (int k = 0; k < PAIRS; ++k)
            row(0, k * PARTS) = narrow<T>(total(wide(row(0, k * PARTS))));
    }

    SKCONVGP_WARP_MEMBER void load_register(const Op& op, int i) const {
        SKCONVGP_UNROLL
        for (int m = 0; m < op.loaded; ++m) SKCONVGP_UNROLL
        for (int e = 0; e < WIDTH; ++e) row(m, e) = reg(op.reg, m, i, e);
        clear_row(op.loaded);
    }

    SKCONVGP_WARP_MEMBER void store_register(const Op& op, int i) const {
        SKCONVGP_UNROLL
        for (int m = 0; m < op.maps; ++m) SKCONVGP_UNROLL
        for (int e = 0; e < WIDTH; ++e) reg(op.reg, m, i, e) = row(m, e);
    }

    // The value is changed last, because derivatives of the factor need the old value.
    SKCONVGP_WARP_MEMBER void combine(const Op& op, int i) const {
        const V scale = factor(op, 0);
        SKCONVGP_UNROLL
        for (int k = 0; k < op.maps; ++k) {
            const int m = op.maps - 1 - k;
            SKCONVGP_UNROLL
            for (int e = 0; e < WIDTH; ++e) {
                V& here = row(m, e);
                if (op.kind == AFFINE) {
                    here = fma(scale, here, additive(op, m));
                    continue;
                }
                const V other = m < op.loaded ? reg(op.reg, m, i, e) : splat(T(0));
                const V turned = op.flag ? row(0, e) : reg(op.reg, 0, i, e);
                here = op.flag ? fma(scale, here, other) : fma(scale, other, here);
                if (m > 0) here = fma(factor(op, m), turned, here);
            }
        }
    }

    // Behind an affine layer a tangent kernel is kept without the covariance.
    SKCONVGP_WARP_MEMBER void join() const {
        SKCONVGP_UNROLL
        for (int e = 0; e < WIDTH; ++e) row(1, e) = row(1, e) + row(0, e);
    }

    // native/activations.hpp has the formulas. In lanes beyond the map, standard
    // deviations are zero, and so is the value for any c. A tangent kernel, which takes
    // the place of a derivative, is multiplied by the slope by the covariance.
    SKCONVGP_WARP_MEMBER void leaky(const Op& op, int i) const {
        const V zero = splat(T(0));
        SKCONVGP_UNROLL
        for (int part = 0; part < count_parts(op.cols.size); ++part) {
            V a[PX], b[PY], by_c[PAIRS], by_q[PAIRS];
            load_table(op, 0, i, part, a, b);
            SKCONVGP_UNROLL
            for (int k = 0; k < PAIRS; ++k) {
                V& here = row(0, k * PARTS + part);
                const V q = a[k / PY] * b[k % PY];
                const V c = op.flag ? smaller(q, larger(zero, here))
                                    : larger(negative(q), smaller(q, here));
                const V d = q - (op.flag ? c : magnitude(c));
                const V u = d * inverse(larger(splat(SMALLEST<T>), q));
                if (op.maps == 1) {
                    const V other = op.mu == 0.0 ? zero : splat(T(op.mu)) * c;
                    const V kept = op.flag ? c : larger(other, c);
                    const V fit = op.flag ? relu_positive<0>(u, op.lambda, T(0))
                                          : relu<0>(u, op.lambda, T(0));
                    here = fma(d * root(u), fit, kept);
                    continue;
                }
                const V sine = root(u * (splat(T(2)) - u));
                const V turn = sine * angle<0>(u, op.lambda, T(0));
                const V same = splat(T(1)) - turn;
                const V opposite = turn + splat(T(op.mu));
                by_c[k] = op.flag ? same : where_less(c, zero, opposite, same);
                by_q[k] = q * (sine * splat(T(op.lambda * ONE_OVER_PI)));
                here = fma(c, by_c[k], by_q[k]);
            }
            SKCONVGP_UNROLL
            for (int m = 1; m < op.maps; ++m) {
                if (!memory.is_ntk) load_table(op, m, i, part, a, b);
                SKCONVGP_UNROLL
                for (int k = 0; k < PAIRS; ++k) {
                    V& here = row(m, k * PARTS + part);
                    here = by_c[k] * here;
                    if (!memory.is_ntk)
                        here = fma(by_q[k], a[k / PY] + b[k % PY], here);
                }
            }
        }
    }

    SKCONVGP_WARP_MEMBER void erf(const Op& op, int i) const {
        const V kappa = factor(op, 0);
        SKCONVGP_UNROLL
        for (int part = 0; part < count_parts(op.cols.size); ++part) {
            V a[PX], b[PY], by_c[PAIRS], by_e[PAIRS], by_kappa[PAIRS];
            load_table(op, 0, i, part, a, b);
            SKCONVGP_UNROLL
            for (int k = 0; k < PAIRS; ++k) {
                V& here = row(0, k * PARTS + part);
                const V scale = kappa * (a[k / PY] * b[k % PY]);
                const V t = here * scale;
                if (op.maps > 1) {
                    const V u = larger(splat(T(1e-30)), splat(T(1)) - magnitude(t));
                    const V slope = inverse(root(u * (splat(T(2)) - u)));
                    by_c[k] = slope * scale;
                    by_e[k] = slope * kappa * here;
                    by_kappa[k] = slope * t;
                }
                here = arcsine<T>(t);
            }
            if (memory.is_ntk && op.maps > 1) {
                SKCONVGP_UNROLL
                for (int k = 0; k < PAIRS; ++k) {
                    V& here = row(1, k * PARTS + part);
                    here = by_c[k] * here;
                }
                continue;
            }
            SKCONVGP_UNROLL
            for (int m = 1; m < op.maps; ++m) {
                V de[PX], df[PY];
                load_table(op, m, i, part, de, df);
                const V turn =
                    factor(op, m) * inverse(kappa);  // the derivative of log kappa
                SKCONVGP_UNROLL
                for (int k = 0; k < PAIRS; ++k) {
                    V& here = row(m, k * PARTS + part);
                    const int x = k / PY, y = k % PY;
                    const V change = b[y] * de[x] + a[x] * df[y];
                    const V so_far = fma(by_e[k], change, by_c[k] * here);
                    here = fma(by_kappa[k], turn, so_far);
                }
            }
        }
    }

    // ---- operations that consume row i of a map

    SKCONVGP_WARP_MEMBER void end_row(const Op& op, const Op& before, int i) const {
        SKCONVGP_UNROLL
        for (int m = 0; m < before.maps; ++m) SKCONVGP_UNROLL
        for (int k = 0; k < PAIRS; ++k) {
            V x[PARTS];
            SKCONVGP_UNROLL
            for (int j = 0; j < PARTS; ++j) {
                // INPUT and the values of activations are zero in lanes beyond the map.
                // Other rows may hold old numbers there, and so do parts of a lane that
                // a smaller map does not use.
                const bool is_made = before.kind == INPUT ||
                                     (m == 0 && j < count_parts(op.cols.size) &&
                                      (before.kind == LEAKY || before.kind == ERF));
                x[j] = row(m, k * PARTS + j);
                if (!is_made) x[j] = first_lanes(x[j], op.cols.size - LANES * j);
            }
            if (op.kind == BOX) box(op, m, k, i, x);
            if (op.kind == CONV) keep_windows(op, m, k, i, x);
            if (op.kind == SUM) add_up(op, m, k, i, x);
        }
    }

    // Add row i to the sums over windows, and write the row of sums that it completes.
    // After the last row of the map, x is null.
    SKCONVGP_WARP_MEMBER void box(const Op& op, int m, int k, int i, const V* x) const {
        const int window = op.rows.window, target = i - op.rows.lead();
        V along[PARTS];
        if (i < op.rows.size) sum_along(op.cols, x, along);
        SKCONVGP_UNROLL
        for (int j = 0; j < count_parts(op.cols.outputs); ++j) {
            const int e = k * PARTS + j;
            V& slot = memory.ring[(m * memory.n_window + i % window) * WIDTH + e];
            V& now = sum(m, e);
            if (i == 0) now = additive(op, m);
            if (i < op.rows.size) {
                now = now + (i < window ? along[j] : along[j] - slot);
                slot = along[j];
            } else if (i >= window) {
                now = now - slot;
            }
            if (target >= 0) reg(op.reg, m, target, e) = now;
        }
    }

    // Sums over windows of stride 1 along a row.
    SKCONVGP_WARP_MEMBER void sum_along(const Axis& axis, const V* x, V* out) const {
        const int n = axis.window, before = axis.before;
        // Windows may reach around the warp if zeros beyond the map separate its ends.
        const bool is_circle = axis.size + before <= LANES &&
                               axis.outputs + n - before <= LANES + 1 &&
                               axis.outputs <= LANES;
        const int some = (n + 1) / 2;
        if (is_circle) {
            const auto move = [](const V* from, int step, V* to) {
                to[0] = rotated(from[0], step);
            };
            V ahead[1];
            add_ahead<1>(x, some, 1, ahead, move);
            out[0] = rotated(ahead[0], -before);
            if (n % 2 == 0)
                out[0] = out[0] + rotated(ahead[0], some - before);
            else if (n > 1)
                out[0] = out[0] + (rotated(ahead[0], some - 1 - before) -
                                   rotated(x[0], some - 1 - before));
        } else {
            const auto move = [](const V* from, int step, V* to) {
                SKCONVGP_UNROLL
                for (int j = 0; j < PARTS; ++j)
                    to[j] = PARTS == 1
                                ? shifted(from[j], step)
                                : taken(from, PARTS, j, 1, step, LANES * PARTS, false);
            };
            V back[PARTS], ahead[PARTS];
            add_ahead<PARTS>(x, before + 1, -1, back, move);
            add_ahead<PARTS>(x, n - before, 1, ahead, move);
            SKCONVGP_UNROLL
            for (int j = 0; j < PARTS; ++j) out[j] = back[j] + (ahead[j] - x[j]);
        }
    }

    // The sum x(p) + x(p + step) + ... of n < 128 terms. From the highest bit of n on,
    // the number of terms is doubled, and one is added if the bit is set.
    template <int N, class Move>
    SKCONVGP_WARP_MEMBER void add_ahead(const V* x, int n, int step, V* out,
                                        const Move& move) const {
        V moved[N];
        SKCONVGP_UNROLL
        for (int j = 0; j < N; ++j) out[j] = x[j];
        SKCONVGP_UNROLL
        for (int bit = 6; bit >= 0; --bit) {
            const int terms = n >> bit;
            if (terms < 2) continue;
            move(out, terms / 2 * step, moved);
            SKCONVGP_UNROLL
            for (int j = 0; j < N; ++j) out[j] = out[j] + moved[j];
            if (terms % 2 == 0) continue;
            move(x, (terms - 1) * step, moved);
            SKCONVGP_UNROLL
            for (int j = 0; j < N; ++j) out[j] = out[j] + moved[j];
        }
    }

    // Direct sums: those along the rows are kept until the last row has come.
    SKCONVGP_WARP_MEMBER void keep_windows(const Op& op, int m, int k, int i,
                                           const V* x) const {
        const Axis& axis = op.cols;
        SKCONVGP_UNROLL
        for (int j = 0; j < count_parts(axis.outputs); ++j) {
            V& along = whole(m, i, k * PARTS + j);
            along = splat(T(0));
            SKCONVGP_UNROLL
            for (int tap = 0; tap < axis.window; ++tap)
                along = along + taken(x, count_parts(axis.size), j, axis.stride,
                                      tap * axis.dilation - axis.before, axis.size,
                                      op.circular != 0);
        }
    }

    SKCONVGP_WARP_MEMBER void add_windows(const Op& op, int maps) const {
        const Axis& axis = op.rows;
        const int n_rows = axis.size - rows_less();
        const int n_outputs = axis.outputs - rows_less() / axis.stride;
        SKCONVGP_UNROLL
        for (int m = 0; m < maps; ++m) SKCONVGP_UNROLL_ROWS
        for (int i = 0; i < n_outputs; ++i) {
            SKCONVGP_UNROLL
            for (int e = 0; e < WIDTH; ++e) sum(0, e) = additive(op, m);
            SKCONVGP_UNROLL
            for (int tap = 0; tap < axis.window; ++tap) {
                int from = i * axis.stride - axis.before + tap * axis.dilation;
                if (op.circular) from = (from % axis.size + axis.size) % axis.size;
                if (from < 0 || from >= n_rows) continue;
                SKCONVGP_UNROLL
                for (int e = 0; e < WIDTH; ++e)
                    sum(0, e) = sum(0, e) + whole(m, from, e);
            }
            SKCONVGP_UNROLL
            for (int e = 0; e < WIDTH; ++e) reg(op.reg, m, i, e) = sum(0, e);
        }
    }

    SKCONVGP_WARP_MEMBER void add_up(const Op& op, int m, int k, int i,
                                     const V* x) const {
        V& some = sum(m, k * PARTS);
        if (i % ROWS_OF_A_SUM == 0) some = splat(T(0));
        SKCONVGP_UNROLL
        for (int j = 0; j < count_parts(op.cols.size); ++j) some = some + x[j];
        if (i % ROWS_OF_A_SUM == ROWS_OF_A_SUM - 1 || i == op.rows.size - 1) {
            auto& all = memory.totals[m * PAIRS + k];
            all = i < ROWS_OF_A_SUM ? wide(some) : all + wide(some);
        }
    }

    // ---- a stage

    // `change(i)` makes row i, `op` consumes it. `before` is the last operation of
    // `change`. If `op` is the only operation of the stage, there are no rows.
    template <class Change>
    SKCONVGP_WARP_MEMBER void stage(const Op& op, const Op& before, bool is_alone,
                                    const Change& change) const {
        const int maps = is_alone ? 0 : before.maps;
        const int n_rows = is_alone ? 0 : op.rows.size;
        if (op.kind == BOX || op.kind == CONV) begin_derivatives(op, maps);
        SKCONVGP_UNROLL_ROWS
        for (int i = 0; i < n_rows; ++i) {
            change(i);
            end_row(op, before, i);
        }
        if (op.kind == BOX) {
            SKCONVGP_UNROLL_ROWS
            for (int i = n_rows; i < n_rows + op.rows.tail(); ++i) SKCONVGP_UNROLL
            for (int e = 0; e < maps * PAIRS; ++e)
                box(op, e / PAIRS, e % PAIRS, i, nullptr);
        }
        if (op.kind == CONV) add_windows(op, maps);
        if (op.kind == SUM) {
            SKCONVGP_UNROLL
            for (int e = 0; e < maps * PAIRS; ++e) {
                memory.totals[e] = total(memory.totals[e]);
                reg(op.reg, e / PAIRS, 0, e % PAIRS * PARTS) =
                    narrow<T>(memory.totals[e]);
            }
        }
    }

    // A derivative that begins with the constant of `op` is the same at all positions.
    SKCONVGP_WARP_MEMBER void begin_derivatives(const Op& op, int maps) const {
        SKCONVGP_UNROLL
        for (int m = maps; m < op.maps; ++m) SKCONVGP_UNROLL_ROWS
        for (int i = 0; i < op.rows.outputs; ++i) SKCONVGP_UNROLL
        for (int e = 0; e < WIDTH; ++e) reg(op.reg, m, i, e) = additive(op, m);
    }

    // ---- results

    SKCONVGP_WARP_MEMBER void place(const Tile<T>& tile, int i, int j) {
        constants = tile.constants;
        SKCONVGP_UNROLL
        for (int x = 0; x < PX; ++x)
            one[x] = tile.one +
                     (i + x < tile.n_one ? i + x : tile.n_one - 1) * tile.stride_one;
        SKCONVGP_UNROLL
        for (int y = 0; y < PY; ++y)
            two[y] = tile.two +
                     (j + y < tile.n_two ? j + y : tile.n_two - 1) * tile.stride_two;
    }

    // The covariance of equal samples is their variance, exactly.
    SKCONVGP_WARP_MEMBER void write_results(const Op& op, const Tile<T>& tile, int i,
                                            int j) const {
        const int n_maps = memory.n_maps;
        SKCONVGP_UNROLL
        for (int k = 0; k < PAIRS; ++k) {
            const int x = k / PY, y = k % PY;
            const double value = result(op, 0, k);
            if (i + x >= tile.n_one || j + y >= tile.n_two) continue;
            double* out = tile.out + ((i + x) * (long long)tile.n_two + j + y) * n_maps;
            const double* diag = tile.diag_one + (i + x) * (long long)n_maps;
            const double* other = tile.diag_two + (j + y) * (long long)n_maps;
            const bool is_same =
                diag[0] == other[0] && are_equal(one[x], two[y], tile.n_pixels);
            SKCONVGP_UNROLL
            for (int m = 0; m < n_maps; ++m) {
                const double *additive = tile.result, *factor = tile.result + n_maps;
                double own = additive[m];
                if (m < op.loaded) own += factor[0] * result(op, m, k);
                if (m > 0) own += factor[m] * value;
                write(out + m, is_same ? diag[m] : own);
            }
        }
    }
    SKCONVGP_WARP_MEMBER double result(const Op& op, int m, int k) const {
        return first(op.flag ? memory.totals[m * PAIRS + k] : wide(row(m, k * PARTS)));
    }
};

}  // namespace warp
}  // namespace skconvgp
