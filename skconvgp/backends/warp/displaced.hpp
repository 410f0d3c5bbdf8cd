// Averages over positions: covariances of positions p of an image and p + d of another
// one, for one displacement d after the other. Those of one displacement are a map on
// the rectangle of positions that have a partner. A lane holds the columns of x that it
// holds without displacement; rows are counted from the first one of the rectangle.
//
// A row of 32 lanes has room for the displacements d and d - width: the columns without
// a partner at one are those that have one at the other. Windows end at the seam.
#pragma once

#include "warp.hpp"

namespace skconvgp {
namespace warp {

// Operations with the same displacements, from `begin` to before `end`. The last one is
// AVERAGE, or a POOL, of which only some displacements are wanted behind it.
//
// Tile::lists has for them, from `lists` on: the displacements of rows and of columns;
// those of columns are modulo the width if the rows are seamed. Behind that for a
// POOL, for each displacement behind it from the smallest that is possible on: for rows
// whether it is wanted, and for columns its number among those of the next operations,
// or -1. Tile::weights has for the AVERAGE, for each displacement from the smallest and
// each position: the number of windows with both positions, of rows and then of
// columns.
struct Passes {
    int begin, end, n_rows, n_cols, is_seamed, lists;
    int level;      // start of the maps behind the POOL, in WIDTHs of Memory::levels
    int next_cols;  // n_cols of the next operations
};

// Whether each row of a map can go through all windows of the operations at once, so
// that the maps between them need no memory.
template <class Ops>
SKCONVGP_WARP constexpr bool are_streamed(const Ops& ops, int begin, int end) {
    for (int k = begin; k < end; ++k)
        if (ops[k].kind == CONV || ops[k].kind == STORE || ops[k].kind == ADD ||
            ops[k].kind == END)
            return false;
    return true;
}
template <class Ops>
SKCONVGP_WARP constexpr int end_of_stage(const Ops& ops, int first) {
    while (!ends_stage(ops[first].kind)) ++first;
    return first;
}
// Rows that the last operation of a stage takes, of a map that is not displaced: zeros
// come behind the map until the last window is complete.
SKCONVGP_WARP constexpr int steps_of(const Op& op) {
    return op.rows.size + (op.kind == BOX ? op.rows.tail() : 0);
}
// Rows that go into streamed operations until the last one has all of its rows.
template <class Ops>
SKCONVGP_WARP constexpr int steps_of_stream(const Ops& ops, int begin, int end) {
    int lag = 0, steps = 0;
    for (int first = begin; first < end; first = end_of_stage(ops, first) + 1) {
        const Op& op = ops[end_of_stage(ops, first)];
        const int own = lag + steps_of(op);
        steps = own > steps ? own : steps;
        lag += op.kind == BOX ? op.rows.lead() : 0;
    }
    return steps;
}

// Towards minus infinity, where / goes towards 0; b is positive.
SKCONVGP_WARP int floor_divide(int a, int b) { return (a < 0 ? a - b + 1 : a) / b; }

// `Memory` has, besides the arrays of a Warp: under [streamed stages][n_maps]
// [n_window][WIDTH], sums along the rows that are under a window; pooled
// [n_maps][WIDTH]; places and joined [largest window of a POOL][PARTS]; and levels,
// with the maps behind each POOL, two rows of displacements of each: [2][n_cols of the
// next operations][n_maps][rows of outputs][WIDTH].
template <class T, class Memory, int PX, int PY, int PARTS>
struct Displaced : Warp<T, Memory, PX, PY, PARTS> {
    typedef Warp<T, Memory, PX, PY, PARTS> Plain;
    typedef typename Plain::V V;
    using Plain::memory;
    using Plain::moved;
    static constexpr int PAIRS = Plain::PAIRS, WIDTH = Plain::WIDTH;

    const int* lists;
    const float* weights;
    int down;           // displacement at the end of the operations
    Lanes<int> across;  // the same of the column of each lane
    Lanes<int> plan;    // of the next 32 rows of a POOL, see plan_of

    SKCONVGP_WARP_MEMBER explicit Displaced(Memory& memory) : Plain(memory) {}

    SKCONVGP_WARP_MEMBER void place(const Tile<T>& tile, int i, int j) {
        Plain::place(tile, i, j);
        lists = tile.lists;
        weights = tile.weights;
    }
    SKCONVGP_WARP_MEMBER int row_of(const Passes& passes, int row) const {
        return lists[passes.lists + row];
    }

    // ---- one displacement after the other

    SKCONVGP_WARP_MEMBER void clear() const {
        SKCONVGP_UNROLL
        for (int e = 0; e < memory.n_maps * PAIRS; ++e)
            memory.totals[e] = wide(splat(T(0)));
        for (int k = 0; k < memory.n_levels; ++k) memory.levels[k] = splat(T(0));
    }

    SKCONVGP_WARP_MEMBER void begin(const Passes& passes, const Op& last, int row,
                                    int col) {
        down = row_of(passes, row);
        const int by = lists[passes.lists + passes.n_rows + col];
        const int width = last.cols.size;
        across = each_lane<int>([&](int l) {
            return passes.is_seamed && l + by >= width ? by - width : by;
        });
        moved.is_seamed = passes.is_seamed;
        moved.first = each_lane<int>([&](int l) {
            return passes.is_seamed && l + by >= width ? width - by : 0;
        });
        moved.stop = each_lane<int>([&](int l) {
            return passes.is_seamed && l + by < width ? width - by : width;
        });
        if (last.kind == POOL) begin_pool(passes, last, by);
    }

    // Behind the average there is one position.
    SKCONVGP_WARP_MEMBER void end() {
        moved.down = 0;
        moved.across = each_lane<int>([&](int) { return 0; });
        moved.is_seamed = false;
    }

    // `op` is the first operation of a stage.
    SKCONVGP_WARP_MEMBER void begin_stage(const Op& op) {
        moved.down = down * op.rows.stride;
        moved.across =
            each_lane<int>([&](int l) { return in_lane(across, l) * op.cols.stride; });
        if (moved.is_seamed) begin_rows(op.cols.size);
    }
    // Lanes beyond the map read its first column.
    SKCONVGP_WARP_MEMBER void begin_rows(int width) {
        const int start = this->begin_one() * width;
        const int partner = start + moved.down * width;
        SKCONVGP_UNROLL
        for (int x = 0; x < PX; ++x)
            this->at_one[x] = each_lane<const T*>(
                [&](int l) { return this->one[x] + start + (l < width ? l : 0); });
        SKCONVGP_UNROLL
        for (int y = 0; y < PY; ++y)
            this->at_two[y] = each_lane<const T*>([&](int l) {
                const int column = l < width ? l + in_lane(moved.across, l) : 0;
                return this->two[y] + partner + column;
            });
    }
    SKCONVGP_WARP_MEMBER void next_row(int width) {
        if (!moved.is_seamed) return;
        SKCONVGP_UNROLL
        for (int x = 0; x < PX; ++x)
            this->at_one[x] = each_lane<const T*>(
                [&](int l) { return in_lane(this->at_one[x], l) + width; });
        SKCONVGP_UNROLL
        for (int y = 0; y < PY; ++y)
            this->at_two[y] = each_lane<const T*>(
                [&](int l) { return in_lane(this->at_two[y], l) + width; });
    }
    SKCONVGP_WARP_MEMBER void clear_under(int n_stages) const {
        SKCONVGP_UNROLL
        for (int k = 0; k < n_stages * memory.n_maps * memory.n_window * WIDTH; ++k)
            memory.under[k] = splat(T(0));
    }

    // ---- the end of a stage

    // Row i of map m of a pair, with zeros where there is no partner.
    SKCONVGP_WARP_MEMBER void covered(const Op& op, const Op& before, int m, int k,
                                      V* x) const {
        const bool is_made = before.kind == INPUT ||
                             (m == 0 && (before.kind == LEAKY || before.kind == ERF));
        SKCONVGP_UNROLL
        for (int j = 0; j < PARTS; ++j) {
            x[j] = this->row(m, k * PARTS + j);
            if (is_made && j < count_parts(op.cols.size)) continue;
            const Lanes<int> column = this->column_of(op.cols.size, j);
            x[j] = where_there(column, x[j]);
        }
    }
    SKCONVGP_WARP_MEMBER V where_there(const Lanes<int>& column, const V& x) const {
        return each_lane<T>(
            [&](int l) { return in_lane(column, l) < 0 ? T(0) : in_lane(x, l); });
    }

    // Take row i of the maps. Sums over windows replace the row if it is streamed;
    // otherwise they are a row of the register.
    SKCONVGP_WARP_MEMBER void take(const Passes& passes, const Op& op, const Op& before,
                                   int stage, int i, bool is_streamed) {
        const int n_rows = op.rows.size - this->rows_less();
        if (op.kind == POOL) pool(passes, op, before, i);
        SKCONVGP_UNROLL
        for (int m = 0; m < memory.n_maps; ++m) SKCONVGP_UNROLL
        for (int k = 0; k < PAIRS; ++k) {
            V x[PARTS];
            if (m < before.maps && op.kind != POOL && op.kind != END)
                covered(op, before, m, k, x);
            if (op.kind == BOX) {
                V along[PARTS];
                if (m < before.maps) sum_along(op.cols, x, along);
                box(op, m, k, stage, i, along, m < before.maps, is_streamed);
            }
            if (m >= before.maps) continue;
            if (op.kind == CONV) this->keep_windows(op, m, k, i, x);
            if (op.kind == AVERAGE) average(op, m, k, i, n_rows, x);
        }
    }
    // The same for zeros behind the map, number i, until its last windows are complete.
    SKCONVGP_WARP_MEMBER void take_zeros(const Op& op, const Op& before, int stage,
                                         int i, bool is_streamed) const {
        V along[PARTS];
        SKCONVGP_UNROLL
        for (int j = 0; j < PARTS; ++j) along[j] = splat(T(0));
        SKCONVGP_UNROLL
        for (int m = 0; m < memory.n_maps; ++m) SKCONVGP_UNROLL
        for (int k = 0; k < PAIRS; ++k)
            box(op, m, k, stage, i, along, m < before.maps, is_streamed);
    }

    // Windows of streamed rows are summed directly: number j under a window is the sum
    // over the last j + 1 rows. A derivative that begins here is the same everywhere.
    SKCONVGP_WARP_MEMBER void box(const Op& op, int m, int k, int stage, int i,
                                  const V* along, bool is_read,
                                  bool is_streamed) const {
        const int window = op.rows.window, target = i - op.rows.lead();
        SKCONVGP_UNROLL
        for (int j = 0; j < count_parts(op.cols.outputs); ++j) {
            const int e = k * PARTS + j;
            V now = m < op.maps ? this->additive(op, m) : splat(T(0));
            if (is_read) {
                const V some = along[j];
                now = now + (window > 1 ? under(stage, m, window - 2, e) + some : some);
                SKCONVGP_UNROLL
                for (int r = window - 2; r > 0; --r)
                    under(stage, m, r, e) = under(stage, m, r - 1, e) + some;
                if (window > 1) under(stage, m, 0, e) = some;
            }
            if (is_streamed)
                this->row(m, e) = now;
            else if (target >= 0 && m < op.maps)
                this->reg(op.reg, m, target, e) = now;
        }
    }
    SKCONVGP_WARP_MEMBER V& under(int stage, int m, int r, int e) const {
        return memory
            .under[((stage * memory.n_maps + m) * memory.n_window + r) * WIDTH + e];
    }

    SKCONVGP_WARP_MEMBER void sum_along(const Axis& axis, const V* x, V* out) const {
        if (!moved.is_seamed) {
            Plain::sum_along(axis, x, out);
            return;
        }
        const int n = axis.window, before = axis.before;
        const auto move = [&](const V* from, int step, V* to) {
            to[0] = within(from[0], step, moved.first, moved.stop);
        };
        if (n <= 4) {
            V sum = x[0];
            SKCONVGP_UNROLL
            for (int step = -before; step < n - before; ++step) {
                if (step == 0) continue;
                const V is_there = each_lane<T>([&](int l) {
                    const int from = l + step;
                    return T(from >= in_lane(moved.first, l) &&
                             from < in_lane(moved.stop, l));
                });
                sum = fma(rotated(x[0], step), is_there, sum);
            }
            out[0] = sum;
            return;
        }
        V back[1], ahead[1];
        this->template add_ahead<1>(x, before + 1, -1, back, move);
        this->template add_ahead<1>(x, n - before, 1, ahead, move);
        out[0] = back[0] + (ahead[0] - x[0]);
    }

    // Each position counts as often as windows have it and its partner.
    SKCONVGP_WARP_MEMBER void average(const Op& op, int m, int k, int i, int n_rows,
                                      const V* x) const {
        const int height = op.rows.size, width = op.cols.size;
        const int row = (moved.down + height - 1) * height + i + this->begin_one();
        const float* columns = weights + (2 * height - 1) * height;
        V sum = splat(T(0));
        SKCONVGP_UNROLL
        for (int j = 0; j < count_parts(width); ++j) {
            const Lanes<int> column = this->column_of(width, j);
            const Lanes<int> at = each_lane<int>([&](int l) {
                const int p = in_lane(column, l);
                return p < 0 ? -1 : (in_lane(moved.across, l) + width - 1) * width + p;
            });
            const auto counts = pick(columns, at, at);
            const V weight = each_lane<T>([&](int l) { return T(in_lane(counts, l)); });
            sum = fma(weight, x[j], sum);
        }
        V& some = this->sum(m, k * PARTS);
        if (i % ROWS_OF_A_SUM == 0) some = splat(T(0));
        some = fma(splat(T(weights[row])), sum, some);
        if (i % ROWS_OF_A_SUM == ROWS_OF_A_SUM - 1 || i == n_rows - 1) {
            auto& all = memory.totals[m * PAIRS + k];
            all = all + wide(some);
        }
    }

    SKCONVGP_WARP_MEMBER void end_average(const Op& op) const {
        SKCONVGP_UNROLL
        for (int e = 0; e < op.maps * PAIRS; ++e) {
            memory.totals[e] = total(memory.totals[e]);
            this->reg(op.reg, e / PAIRS, 0, e % PAIRS * PARTS) =
                narrow<T>(memory.totals[e]);
        }
    }

    // ---- pools: each pair of positions is added to the one pair of windows that has
    // it

    // Work out where the columns under windows are added: the place among the levels of
    // the displacement behind the pool, or -1; and whether the next column joins them.
    SKCONVGP_WARP_MEMBER void begin_pool(const Passes& passes, const Op& op, int by) {
        const Axis& axis = op.cols;
        const int wanted =
            passes.lists + passes.n_rows + passes.n_cols + 2 * op.rows.outputs - 1;
        const int step = memory.n_maps * op.rows.outputs;
        SKCONVGP_UNROLL
        for (int f = 0; f < axis.window; ++f) SKCONVGP_UNROLL
        for (int j = 0; j < count_parts(axis.outputs); ++j) {
            const Lanes<int> at = each_lane<int>([&](int l) {
                const int output = LANES * j + l, p = output * axis.stride + f;
                int q = p + by;
                if (passes.is_seamed && q >= axis.size) q -= axis.size;
                const int other = floor_divide(q, axis.stride);
                const bool is_inside = output < axis.outputs && q >= 0 &&
                                       q < axis.size && other < axis.outputs &&
                                       q - other * axis.stride < axis.window;
                return is_inside ? wanted + other - output + axis.outputs - 1 : -1;
            });
            memory.places[f * PARTS + j] = each_lane<int>([&](int l) {
                const int place = in_lane(at, l);
                const int col = place < 0 ? -1 : lists[place];
                return col < 0 ? -1 : col * step;
            });
        }
        SKCONVGP_UNROLL
        for (int f = 0; f + 1 < axis.window; ++f) SKCONVGP_UNROLL
        for (int j = 0; j < count_parts(axis.outputs); ++j)
            memory.joined[f * PARTS + j] = are_same(memory.places[f * PARTS + j],
                                                    memory.places[(f + 1) * PARTS + j]);
    }

    // The windows of a pool along the rows that have row i of the displaced map.
    struct PooledRow {
        int top, down;
        bool is_wanted;
    };
    SKCONVGP_WARP_MEMBER PooledRow pooled_row(const Passes& passes, const Op& op,
                                              int i) const {
        const Axis& axis = op.rows;
        const int y = i + this->begin_one(), partner = y + moved.down;
        const int top = y / axis.stride, bottom = partner / axis.stride;
        bool is_wanted = i >= 0 && i < axis.size - this->rows_less() &&
                         top < axis.outputs && bottom < axis.outputs &&
                         y - top * axis.stride < axis.window &&
                         partner - bottom * axis.stride < axis.window;
        if (is_wanted)
            is_wanted = lists[passes.lists + passes.n_rows + passes.n_cols + bottom -
                              top + axis.outputs - 1] >= 0;
        return {top, bottom - top, is_wanted};
    }
    SKCONVGP_WARP_MEMBER static bool are_together(const PooledRow& a,
                                                  const PooledRow& b) {
        return a.is_wanted && b.is_wanted && a.top == b.top && a.down == b.down;
    }
    // What to do with row i: -1 if no window has it. Otherwise the row of the levels to
    // which its sum is added, times 4; 2 more if the row before is part of the sum, and
    // 1 more if no other row is.
    SKCONVGP_WARP_MEMBER int plan_of(const Passes& passes, const Op& op, int i) const {
        const PooledRow here = pooled_row(passes, op, i);
        if (!here.is_wanted) return -1;
        const int r = here.top - (here.down < 0 ? -here.down : 0);
        const bool is_more = are_together(here, pooled_row(passes, op, i - 1));
        const bool is_last = !are_together(here, pooled_row(passes, op, i + 1));
        return level_of(passes, op, here.down, 0, r) * 4 + is_more * 2 + is_last;
    }

    SKCONVGP_WARP_MEMBER void pool(const Passes& passes, const Op& op, const Op& before,
                                   int i) {
        if (i % LANES == 0)
            plan = each_lane<int>([&](int l) { return plan_of(passes, op, i + l); });
        const int here = of_lane(plan, i % LANES);
        if (here < 0) return;
        SKCONVGP_UNROLL
        for (int m = 0; m < before.maps; ++m) {
            SKCONVGP_UNROLL
            for (int k = 0; k < PAIRS; ++k) {
                V x[PARTS];
                covered(op, before, m, k, x);
                V* const sum = memory.pooled + m * WIDTH + k * PARTS;
                SKCONVGP_UNROLL
                for (int j = 0; j < count_parts(op.cols.size); ++j)
                    sum[j] = here & 2 ? sum[j] + x[j] : x[j];
            }
            if (here & 1)
                pool_columns(op, here / 4 + m * op.rows.outputs,
                             memory.pooled + m * WIDTH);
        }
    }

    // Where row r of the maps behind a pool begins, of displacement (down, number 0).
    SKCONVGP_WARP_MEMBER int level_of(const Passes& passes, const Op& op, int down,
                                      int m, int r) const {
        return passes.level +
               (down & 1) * passes.next_cols * memory.n_maps * op.rows.outputs +
               m * op.rows.outputs + r;
    }

    // Lanes whose column is beyond the outputs have no place.
    SKCONVGP_WARP_MEMBER void pool_columns(const Op& op, int start,
                                           const V* sum) const {
        const Axis& axis = op.cols;
        const int n_parts = count_parts(axis.size);
        SKCONVGP_UNROLL
        for (int j = 0; j < count_parts(axis.outputs); ++j) {
            V some[WIDTH];  // zero in other parts
            SKCONVGP_UNROLL
            for (int e = 0; e < WIDTH; ++e) some[e] = splat(T(0));
            SKCONVGP_UNROLL
            for (int f = 0; f < axis.window; ++f) {
                const bool is_more = f > 0 && memory.joined[(f - 1) * PARTS + j];
                SKCONVGP_UNROLL
                for (int k = 0; k < PAIRS; ++k) {
                    V& to = some[k * PARTS + j];
                    const V* const from = sum + k * PARTS;
                    const V x = n_parts == 1 ? spread(from[0], axis.stride, f)
                                             : taken(from, n_parts, j, axis.stride, f,
                                                     axis.size, false);
                    to = is_more ? to + x : x;
                }
                if (f + 1 < axis.window && memory.joined[f * PARTS + j]) continue;
                add_at<WIDTH>(memory.levels, start, memory.places[f * PARTS + j], some);
            }
        }
    }

    // Move a finished map behind a pool to the register of the pool, and clear its
    // memory for another one. `behind` is its displacement, `col` its number.
    SKCONVGP_WARP_MEMBER void take_level(const Passes& before, const Op& pool,
                                         int behind, int col) const {
        const int n_rows = pool.rows.outputs - (behind < 0 ? -behind : behind);
        const int step = memory.n_maps * pool.rows.outputs;
        SKCONVGP_UNROLL
        for (int m = 0; m < pool.maps; ++m) {
            const int start = level_of(before, pool, behind, m, 0) + col * step;
            SKCONVGP_UNROLL_ROWS
            for (int r = 0; r < n_rows; ++r) SKCONVGP_UNROLL
            for (int e = 0; e < WIDTH; ++e) {
                V& from = memory.levels[(start + r) * WIDTH + e];
                this->reg(pool.reg, m, r, e) = from;
                from = splat(T(0));
            }
        }
    }
    // Whether the maps behind a pool with a displacement are complete after `row`.
    SKCONVGP_WARP_MEMBER bool is_complete(const Passes& before, const Op& pool,
                                          int behind, int row) const {
        return row + 1 == before.n_rows ||
               behind * pool.rows.stride + pool.rows.window - 1 <= row_of(before, row);
    }
};

}  // namespace warp
}  // namespace skconvgp
