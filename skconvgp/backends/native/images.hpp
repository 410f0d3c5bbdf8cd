// The tables of images: their variances through all layers, in double
// precision, with one image in each lane. Windows are summed directly, so that
// zeros stay exact zeros.
#pragma once

#include "pairs.hpp"

namespace skconvgp {
namespace SKCONVGP_ISA {

// Variances that maps of a precision can represent: up to LARGEST, and with
// standard deviations from SMALLEST_ROOT on, whose products have all digits and
// whose inverses are finite. Smaller variances are faint. They do no harm if
// they are at most the share FAINT of the final variance: covariances may be
// wrong by the root of that.
template <class T>
struct Range;
template <>
struct Range<float> {
    static constexpr double LARGEST = 1e34, SMALLEST_ROOT = 1e-17, FAINT = 1e-18;
};
template <>
struct Range<double> {
    static constexpr double LARGEST = 1e300, SMALLEST_ROOT = 1e-150, FAINT = 1e-30;
};

struct Variances {
    typedef DoubleV V;
    static constexpr int LANES = Simd<double>::LANES;

    const Program& program;
    const int n_maps, positions;
    // Null if no positions are averaged. Otherwise the memory for pairs of an
    // image with itself, and the function that runs the program up to the end of
    // a segment. Tables of its program have inverses, even if those of images have
    // none.
    const Pairs<double>* self;
    void (*run_self)(const Pairs<double>&, int segment);
    V* registers;  // [n_registers][n_maps][positions]
    V* map;        // [n_maps][positions]
    V* whole;
    V* rows_done;
    V* pixels;   // [n_pixels]
    V* largest;  // [1]
    V* faint;    // [1 + n_registers]: largest faint part of the map and of registers

    Variances(const Program& program, Arena& arena, const Pairs<double>* self,
              void (*run_self)(const Pairs<double>&, int))
        : program(program), n_maps(1 + program.n_tangents),
          positions(program.max_positions), self(self), run_self(run_self) {
        registers = arena.take<V>(size_t(program.n_registers) * n_maps * positions);
        map = arena.take<V>(size_t(n_maps) * positions);
        whole = arena.take<V>(positions);
        rows_done = arena.take<V>(positions);
        pixels = arena.take<V>(program.n_pixels);
        largest = arena.take<V>(1);
        faint = arena.take<V>(1 + program.n_registers);
    }

    V* at(int reg, int m) const {
        return registers + (size_t(reg) * n_maps + m) * positions;
    }
    V* own(int m) const { return map + size_t(m) * positions; }

    template <class T>
    void run(const Images<T>& images, int first) const {
        const int n = images.n - first < LANES ? images.n - first : LANES;
        T* tables = images.tables + ptrdiff_t(first) * program.n_values;
        for (int l = 0; l < LANES; ++l) {
            const int i = first + (l < n ? l : n - 1);
            const T* from = images.pixels + ptrdiff_t(i) * program.n_pixels;
            for (int k = 0; k < program.n_pixels; ++k) pixels[k][l] = from[k];
            if (l < n) put_pixels(from, tables + ptrdiff_t(l) * program.n_values);
        }
        if (self) put_pixels(pixels, self->group);
        largest[0] = faint[0] = V{};
        for (int k = 0; k < program.n_ops - 1; ++k) apply(program.ops[k], tables, n);
        const Op& result = program.ops[program.n_ops - 1];
        watch<T>(map, 1);
        for (int l = 0; l < n; ++l) {
            double* out = images.diag + (first + l) * ptrdiff_t(n_maps);
            double value = map[0][l];
            const double all = value + result.additive[0] / result.factor[0];
            if (all * Range<T>::FAINT < faint[0][l]) value = __builtin_nan("");
            if (!(largest[0][l] < Range<T>::LARGEST)) value = __builtin_inf();
            out[0] = result.factor[0] * value + result.additive[0];
            for (int m = 1; m < n_maps; ++m)
                out[m] = result.factor[0] * own(m)[0][l] + result.factor[m] * value +
                         result.additive[m];
        }
    }

    // That operation of the program that covariances of an image with itself run.
    const Op& own_op(const Op& op) const {
        return self ? self->program.ops[&op - program.ops] : op;
    }

    template <class X>
    void put_pixels(const X* from, X* to) const {
        const int channels = program.n_channels, plane = program.n_pixels / channels;
        for (int p = 0; p < plane; ++p)
            for (int c = 0; c < channels; ++c)
                to[p * channels + c] = from[c * plane + p];
    }

    // Since max returns its second operand for NaN, an infinite value that came
    // before is not replaced by NaN.
    void hold(V value) const { largest[0] = max(value, largest[0]); }
    void hold_additive(const Op& op) const {
        for (int m = 0; m < n_maps; ++m) hold(magnitude(set1(op.additive[m])));
    }

    template <class T>
    void watch(const V* values, int n) const {
        const V smallest = set1(Range<T>::SMALLEST_ROOT * Range<T>::SMALLEST_ROOT);
        V high = largest[0], low = faint[0];  // in registers
        for (int p = 0; p < n; ++p) {
            high = max(values[p], high);
            low = max(values[p] < smallest ? values[p] : V{}, low);
        }
        largest[0] = high;
        faint[0] = low;
    }

    template <class T>
    void apply(const Op& op, T* tables, int n) const {
        const int size = op.rows.size * op.cols.size;
        switch (op.kind) {
            case INPUT:
            case DOT:
                input<T>(op, op.kind == DOT ? 1 : size);
                break;
            case LEAKY:
                leaky(op, size, tables, n);
                break;
            case JOIN:
                for (int p = 0; p < size; ++p) {
                    own(1)[p] += map[p];
                    hold(own(1)[p]);
                }
                break;
            case ERF:
                erf(op, size, tables, n);
                break;
            case BOX:
            case CONV:
                hold_additive(op);
                faint[1 + op.reg] =
                    faint[0] * set1(overlap(op.rows) * overlap(op.cols));
                for (int m = 0; m < n_maps; ++m) {
                    for (int p = 0; p < size; ++p) whole[p] = own(m)[p];
                    window_sums(op, whole, set1(op.additive[m]), rows_done,
                                at(op.reg, m));
                }
                break;
            case AVERAGE:
            case POOL:
                average(op);
                break;
            case SUM:
                faint[0] *= set1(double(size));
                faint[1 + op.reg] = faint[0];
                for (int m = 0; m < n_maps; ++m) {
                    V sum = {};
                    for (int p = 0; p < size; ++p) sum += own(m)[p];
                    own(m)[0] = at(op.reg, m)[0] = sum;
                }
                break;
            default:
                combine(op, size);
        }
    }

    // Sums over pairs of positions: their covariances, as variances do not
    // suffice.
    void average(const Op& op) const {
        int segment = 0;
        while (program.ops + program.segments[segment].end - 1 != &op) ++segment;
        run_self(*self, segment);
        const double shared = overlap(op.rows) * overlap(op.cols);
        faint[0] *= set1(op.kind == POOL ? shared * shared
                                         : n_pairs(op.rows) * n_pairs(op.cols));
        faint[1 + op.reg] = faint[0];
        const int n = op.kind == POOL ? op.rows.outputs * op.cols.outputs : 1;
        for (int m = 0; m < n_maps; ++m) {
            const void* from = self->sums + m * LANES;
            if (op.kind == POOL) from = self->level(segment, 0, 0, m);
            __builtin_memcpy(own(m), from, n * sizeof(V));
            __builtin_memcpy(at(op.reg, m), from, n * sizeof(V));
        }
        if (op.kind == POOL) self->clear_level(segment);
    }
    static double n_pairs(const Axis& axis) {
        double sum = 0.0;
        for (int i = 0; i < (2 * axis.size - 1) * axis.size; ++i) sum += axis.pairs[i];
        return sum;
    }

    // Largest number of positions of the map in a window.
    static double overlap(const Axis& axis) {
        return axis.window < axis.size ? axis.window : axis.size;
    }

    template <class T>
    void input(const Op& op, int size) const {
        faint[0] = V{};
        for (int p = 0; p < size; ++p) {
            V sum = {}, brightest = {};
            for (int c = 0; c < op.flag; ++c) {
                const V x = pixels[c * size + p];
                sum = fma(x, x, sum);
                brightest = max(magnitude(x), brightest);
            }
            map[p] = sum;
            // The squares of very small pixels are 0, which would not count as faint.
            const V least = brightest > V{} ? set1(1e-307) : V{};
            sum = max(least, sum);
            watch<T>(&sum, 1);
            for (int m = 1; m < n_maps; ++m) own(m)[p] = V{};
        }
    }

    void combine(const Op& op, int size) const {
        if (op.kind == AFFINE) {
            hold_additive(op);
            for (int p = 0; p < size; ++p) hold(map[p]);
        }
        combine_faint(op);
        for (int m = n_maps - 1; m >= 0; --m) {
            V* here = own(m);
            const bool moves = op.kind == LOAD || op.kind == STORE || op.kind == ADD;
            V* there = moves ? at(op.reg, m) : nullptr;
            const V* scaled = op.kind == ADD && !op.flag ? at(op.reg, 0) : map;
            const V factor = set1(op.factor[0]), turn = set1(op.factor[m]);
            for (int p = 0; p < size; ++p) {
                if (op.kind == AFFINE)
                    here[p] = fma(factor, here[p], set1(op.additive[m]));
                if (op.kind == LOAD) here[p] = there[p];
                if (op.kind == STORE) there[p] = here[p];
                if (op.kind != ADD) continue;
                const V change = m ? turn * scaled[p] : V{};
                here[p] = op.flag ? fma(factor, here[p], there[p])
                                  : fma(factor, there[p], here[p]);
                here[p] += change;
            }
        }
    }

    void combine_faint(const Op& op) const {
        const V factor = set1(op.factor[0]);
        if (op.kind == LOAD) faint[0] = faint[1 + op.reg];
        if (op.kind == STORE) faint[1 + op.reg] = faint[0];
        if (op.kind == AFFINE) faint[0] *= factor;
        if (op.kind != ADD) return;
        const V other = faint[1 + op.reg];
        faint[0] =
            op.flag ? fma(factor, faint[0], other) : fma(factor, other, faint[0]);
    }

    // Write one value into the table of each of the first n images.
    template <class T>
    void put(T* tables, int n, int place, V value) const {
        for (int l = 0; l < n; ++l)
            tables[ptrdiff_t(l) * program.n_values + place] = T(value[l]);
    }
    // Write one into the table that covariances of an image with itself read.
    void put_own(int place, V value) const {
        if (self) self->group[place] = value;
    }

    template <class T>
    void leaky(const Op& op, int size, T* tables, int n) const {
        watch<T>(map, size);
        const V smallest = set1(Range<T>::SMALLEST_ROOT);
        const int own_table = own_op(op).table;
        for (int p = 0; p < size; ++p) {
            const V s = root(max(map[p], V{}));
            const V r = s > smallest ? set1(1.0) / s : V{};
            put(tables, n, op.table + op.roots * p, s);
            if (op.roots == 2) put(tables, n, op.table + 2 * p + 1, r);
            put_own(own_table + 2 * p, s);
            put_own(own_table + 2 * p + 1, r);
            // Both images are one variable, whose slope is 1 in these units.
            for (int m = 1; m < op.maps && !program.is_ntk; ++m) {
                const V change = own(m)[p] * r * r * 0.5;
                put(tables, n, op.table + (op.roots + m - 1) * size + p, change);
                put_own(own_table + (m + 1) * size + p, change);
            }
        }
    }

    template <class T>
    void erf(const Op& op, int size, T* tables, int n) const {
        watch<T>(map, size);
        const auto fit = polynomial<double>(ArcsineFit<double>::fit, 1.0);
        const V one = set1(1.0), kappa = set1(op.factor[0]);
        const int own_table = own_op(op).table;
        hold(kappa);
        faint[0] *= kappa;
        for (int p = 0; p < size; ++p) {
            const V v = map[p], grown = kappa * v;
            hold(grown);
            const V e = one / root(one + grown);
            put(tables, n, op.table + p, e);
            put_own(own_table + p, e);
            const V slope = one / ((one + grown) * root(one + grown + grown));
            if (program.is_ntk) own(1)[p] *= kappa / root(one + grown + grown);
            for (int m = 1; m < op.maps && !program.is_ntk; ++m) {
                const V change = kappa * own(m)[p] + set1(op.factor[m]) * v;
                const V slope_of_e = e * e * e * change * -0.5;
                put(tables, n, op.table + m * size + p, slope_of_e);
                put_own(own_table + m * size + p, slope_of_e);
                own(m)[p] = slope * change;
            }
            map[p] = arcsine<double>(grown / (one + grown), fit);
        }
    }
};

}  // namespace SKCONVGP_ISA
}  // namespace skconvgp
