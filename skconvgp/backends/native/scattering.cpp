// Scattering coefficients of images, for one instruction set. The lanes of all vectors
// are images: each has the same bits among others as alone.
//
// A spectrum of real numbers holds the rows 0 .. m/2 of m; the others are their
// conjugate mirror images. Its rows have n + 1 places, of which the last repeats the
// first, so that a row is read backwards without a modulo.
#include "scattering.hpp"

#include "fourier.hpp"

namespace skconvgp {
namespace SKCONVGP_ISA {

namespace {

constexpr int LANES = Simd<float>::LANES;
constexpr int COLUMNS_APART = 4;  // numbers, so that columns do not share a cache set

// to[average][row] for rows of `from`, the averages and rows of `to` at any distance.
template <int ROWS, int AVERAGES>
SKCONVGP_INLINE void average_window(const Window& window, const float* weights,
                                    const FloatV* from, ptrdiff_t from_row, FloatV* to,
                                    ptrdiff_t to_average, ptrdiff_t to_row) {
    FloatV sum[AVERAGES][ROWS] = {};
    to += window.average * to_average;
    if (window.adds)
        for (int k = 0; k < AVERAGES; ++k)
            for (int r = 0; r < ROWS; ++r) sum[k][r] = to[k * to_average + r * to_row];
    weights += window.weights;
    for (int i = 0; i < window.length; ++i) {
        FloatV value[ROWS];
#pragma GCC unroll 2
        for (int r = 0; r < ROWS; ++r) value[r] = from[r * from_row + window.begin + i];
#pragma GCC unroll 2
        for (int k = 0; k < AVERAGES; ++k) {
            const FloatV weight = set1(weights[i * AVERAGES + k]);
#pragma GCC unroll 2
            for (int r = 0; r < ROWS; ++r) sum[k][r] = fma(weight, value[r], sum[k][r]);
        }
    }
    for (int k = 0; k < AVERAGES; ++k)
        for (int r = 0; r < ROWS; ++r) to[k * to_average + r * to_row] = sum[k][r];
}

template <int ROWS>
void average(const Averages& averages, const FloatV* from, ptrdiff_t from_row,
             FloatV* to, ptrdiff_t to_average, ptrdiff_t to_row) {
    for (int i = 0; i < averages.n_windows; ++i) {
        const Window& window = averages.windows[i];
        if (window.n_averages == 2)
            average_window<ROWS, 2>(window, averages.weights, from, from_row, to,
                                    to_average, to_row);
        else
            average_window<ROWS, 1>(window, averages.weights, from, from_row, to,
                                    to_average, to_row);
    }
}

// Exchange lanes and vectors, of as many vectors as there are lanes.
SKCONVGP_INLINE void exchange(FloatV* vectors) {
    constexpr int HALF = LANES / 2;
    for (int round = 1; round < LANES; round *= 2) {
        FloatV mixed[LANES];
#pragma GCC unroll 8
        for (int k = 0; k < HALF; ++k) {
            mixed[2 * k] = mix_first(vectors[k], vectors[k + HALF]);
            mixed[2 * k + 1] = mix_second(vectors[k], vectors[k + HALF]);
        }
#pragma GCC unroll 16
        for (int k = 0; k < LANES; ++k) vectors[k] = mixed[k];
    }
}

// A stretch of filtered frequencies, with the number of products known to the compiler.
template <int PLAIN, int MIRRORED>
void multiply(const Complex* spectrum, const int* offsets, const float* weights,
              int length, Complex* to) {
    constexpr int N = PLAIN + MIRRORED;
    const Complex* from[N];
#pragma GCC unroll 4
    for (int t = 0; t < N; ++t) from[t] = spectrum + offsets[t];
    for (ptrdiff_t b = 0; b < length; ++b, weights += N) {
        FloatV r, i;
#pragma GCC unroll 4
        for (int t = 0; t < N; ++t) {
            const Complex& value = from[t][t < PLAIN ? b : -b];
            const FloatV weight = set1(weights[t]);
            const FloatV signed_weight = t < PLAIN ? weight : FloatV{} - weight;
            r = t ? fma(weight, value.r, r) : weight * value.r;
            i = t ? fma(signed_weight, value.i, i) : signed_weight * value.i;
        }
        to[b] = Complex{r, i};
    }
}

void multiply_any(const Complex* spectrum, const int* offsets, const float* weights,
                  const Stretch& stretch, Complex* to) {
    const int n_plain = stretch.n_plain, n = n_plain + stretch.n_mirrored;
    for (ptrdiff_t b = 0; b < stretch.length; ++b, weights += n) {
        FloatV r{}, i{};
        for (int t = 0; t < n_plain; ++t) {
            const Complex& value = spectrum[offsets[t] + b];
            r = fma(set1(weights[t]), value.r, r);
            i = fma(set1(weights[t]), value.i, i);
        }
        for (int t = n_plain; t < n; ++t) {
            const Complex& value = spectrum[offsets[t] - b];
            r = fma(set1(weights[t]), value.r, r);
            i = fma(set1(-weights[t]), value.i, i);
        }
        to[b] = Complex{r, i};
    }
}

void filter_stretch(const Waves& waves, const Stretch& stretch, const Complex* spectrum,
                    Complex* line) {
    const int* const offsets = waves.offsets + stretch.offsets;
    const float* const weights = waves.weights + stretch.weights;
    Complex* const to = line + stretch.begin;
    const int length = stretch.length;
    switch (8 * stretch.n_plain + stretch.n_mirrored) {
        case 0:
            for (int b = 0; b < length; ++b) to[b] = Complex{};
            break;
        case 8:
            multiply<1, 0>(spectrum, offsets, weights, length, to);
            break;
        case 1:
            multiply<0, 1>(spectrum, offsets, weights, length, to);
            break;
        case 16:
            multiply<2, 0>(spectrum, offsets, weights, length, to);
            break;
        case 2:
            multiply<0, 2>(spectrum, offsets, weights, length, to);
            break;
        case 18:
            multiply<2, 2>(spectrum, offsets, weights, length, to);
            break;
        default:
            multiply_any(spectrum, offsets, weights, stretch, to);
    }
}

// The inverse transform, that of numbers whose real and imaginary parts are exchanged.
void invert_row(const FourierLength& length, const Complex* from, Complex* to) {
    transform(
        length,
        [&](int k, FloatV& r, FloatV& i) SKCONVGP_INLINE_LAMBDA {
            r = from[k].i;
            i = from[k].r;
        },
        [&](int k, FloatV r, FloatV i)
            SKCONVGP_INLINE_LAMBDA { to[k] = Complex{i, r}; });
}

// The moduli of the inverse transform of a column.
void invert_column(const FourierLength& length, const Complex* from, ptrdiff_t stride,
                   FloatV* moduli) {
    transform(
        length,
        [&](int k, FloatV& r, FloatV& i) SKCONVGP_INLINE_LAMBDA {
            r = from[k * stride].i;
            i = from[k * stride].r;
        },
        [&](int k, FloatV r, FloatV i)
            SKCONVGP_INLINE_LAMBDA { moduli[k] = root(fma(r, r, i * i)); });
}

// Twice the first half of the transforms of two columns of real numbers, from that of
// one column of complex numbers.
void transform_columns(const FourierLength& length, const FloatV* one,
                       const FloatV* two, Complex* to, ptrdiff_t stride) {
    Complex both[LARGEST_LENGTH + 1];
    transform(
        length,
        [&](int k, FloatV& r, FloatV& i) SKCONVGP_INLINE_LAMBDA {
            r = one[k];
            i = two[k];
        },
        [&](int k, FloatV r, FloatV i)
            SKCONVGP_INLINE_LAMBDA { both[k] = Complex{r, i}; });
    both[length.n] = both[0];
    for (int k = 0; k <= length.n / 2; ++k) {
        const Complex a = both[k], b = both[length.n - k];
        to[k * stride] = Complex{a.r + b.r, a.i - b.i};
        to[k * stride + 1] = Complex{a.i + b.i, b.r - a.r};
    }
}

void transform_row(const FourierLength& length, Complex* row) {
    transform(
        length,
        [&](int k, FloatV& r, FloatV& i) SKCONVGP_INLINE_LAMBDA {
            r = row[k].r;
            i = row[k].i;
        },
        [&](int k, FloatV r, FloatV i)
            SKCONVGP_INLINE_LAMBDA { row[k] = Complex{r, i}; });
    row[length.n] = row[0];
}

// The coefficients of as many images as a vector has lanes.
class Coefficients {
   public:
    Coefficients(const ScatteringTask& given, Arena& arena) : task_(given) {
        const ptrdiff_t m = task_.heights[0].n, n = task_.widths[0].n;
        pixels_ = arena.take<FloatV>(ptrdiff_t(task_.height) * task_.width);
        filtered_ = arena.take<Complex>(m * (n + 1));
        line_ = arena.take<Complex>(n);
        spectrum_ = arena.take<Complex>((m / 2 + 1) * (n + 1));
        of_moduli_ = arena.take<Complex>((m / 2 + 1) * (n + 1));
        columns_ = arena.take<FloatV>(2 * (m + COLUMNS_APART));
        averaged_ = arena.take<FloatV>(task_.out_height * n);
        written_ = arena.take<FloatV>(ptrdiff_t(task_.out_height) * task_.out_width);
    }

    // Of `n_images` images, at most as many as there are lanes; others are blank.
    void run(const float* images, const float* units, int n_images, float* out) {
        unit_ = set1(1.0f);
        for (int image = 0; image < n_images; ++image) unit_[image] = units[image];
        read(images, n_images);
        to_ = out;
        n_images_ = n_images;
        transform_images();
        int first = 1, second = 1 + task_.n_scales * task_.n_angles;
        for (int scale = 0; scale < task_.n_scales; ++scale)
            for (int angle = 0; angle < task_.n_angles; ++angle) {
                const bool goes_on = task_.has_second && scale + 1 < task_.n_scales;
                filter(spectrum_, 0, scale, angle);
                take_moduli(scale, first++, goes_on ? of_moduli_ : nullptr);
                for (int next = scale + 1; goes_on && next < task_.n_scales; ++next)
                    for (int slant = 0; slant < task_.n_angles; ++slant) {
                        filter(of_moduli_, scale, next, slant);
                        take_moduli(next, second++, nullptr);
                    }
            }
    }

   private:
    const ScatteringTask& task_;
    FloatV* pixels_;                  // [height][width]
    Complex* filtered_;               // [m][n + 1] of the scale
    Complex* line_;                   // [n]
    Complex *spectrum_, *of_moduli_;  // [m / 2 + 1][n + 1]
    FloatV* columns_;                 // two of them
    FloatV *averaged_, *written_;     // [out_height][n], [out_height][out_width]
    // Of the images at hand: powers of 2 for each lane, their coefficients, their
    // number.
    FloatV unit_{};
    float* to_ = nullptr;
    int n_images_ = 0;

    void read(const float* images, int n_images) {
        const ptrdiff_t size = ptrdiff_t(task_.height) * task_.width;
        ptrdiff_t p = 0;
        for (; p + LANES <= size; p += LANES) {
            for (int image = 0; image < LANES; ++image) {
                FloatV value{};
                if (image < n_images)
                    __builtin_memcpy(&value, images + image * size + p, sizeof value);
                pixels_[p + image] = value;
            }
            exchange(pixels_ + p);
        }
        for (; p < size; ++p) {
            pixels_[p] = FloatV{};
            for (int image = 0; image < n_images; ++image)
                pixels_[p][image] = images[image * size + p];
        }
        const FloatV inverse = set1(1.0f) / unit_;
        for (p = 0; p < size; ++p) pixels_[p] *= inverse;
    }

    // Write the averages of padded images, and their spectrum.
    void transform_images() {
        const FourierLength &down = task_.heights[0], &across = task_.widths[0];
        const ptrdiff_t stride = across.n + 1, apart = down.n + COLUMNS_APART;
        for (int c = 0; c < across.n; c += 2) {
            for (int e = 0; e < 2; ++e) {
                const FloatV* const column = pixels_ + task_.column_of[c + e];
                for (int r = 0; r < down.n; ++r)
                    columns_[e * apart + r] =
                        column[ptrdiff_t(task_.row_of[r]) * task_.width];
            }
            average<2>(task_.rows[0], columns_, apart, averaged_ + c, across.n, 1);
            transform_columns(down, columns_, columns_ + apart, spectrum_ + c, stride);
        }
        write(0, 0);
        for (int k = 0; k <= down.n / 2; ++k)
            transform_row(across, spectrum_ + k * stride);
    }

    // Multiply a spectrum of a level with a wavelet, and transform its rows back.
    void filter(const Complex* spectrum, int level, int scale, int angle) {
        const Waves& waves = task_.waves[level][scale];
        const FourierLength& across = task_.widths[scale];
        const int n_rows = task_.heights[scale].n;
        for (int a = 0; a < n_rows; ++a) {
            const int* const first = waves.first + angle * n_rows + a;
            Complex* const row = filtered_ + ptrdiff_t(a) * (across.n + 1);
            bool is_blank = true;
            for (int s = first[0]; s < first[1]; ++s) {
                const Stretch& stretch = waves.stretches[s];
                filter_stretch(waves, stretch, spectrum, line_);
                is_blank = is_blank && stretch.n_plain + stretch.n_mirrored == 0;
            }
            if (is_blank)
                for (int b = 0; b < across.n; ++b) row[b] = Complex{};
            else
                invert_row(across, line_, row);
        }
    }

    // Transform columns back, and write the averages of the moduli as a coefficient;
    // `spectrum` gets their spectrum if it is not null.
    void take_moduli(int scale, int coefficient, Complex* spectrum) {
        const FourierLength &down = task_.heights[scale], &across = task_.widths[scale];
        const ptrdiff_t stride = across.n + 1, apart = down.n + COLUMNS_APART;
        for (int c = 0; c < across.n; c += 2) {
            invert_column(down, filtered_ + c, stride, columns_);
            invert_column(down, filtered_ + c + 1, stride, columns_ + apart);
            average<2>(task_.rows[scale], columns_, apart, averaged_ + c, across.n, 1);
            if (spectrum)
                transform_columns(down, columns_, columns_ + apart, spectrum + c,
                                  stride);
        }
        write(scale, coefficient);
        for (int k = 0; spectrum && k <= down.n / 2; ++k)
            transform_row(across, spectrum + k * stride);
    }

    // Average the rows of what is averaged along columns.
    void write(int level, int coefficient) {
        const Averages& averages = task_.columns[level];
        const ptrdiff_t n = task_.widths[level].n, width = task_.out_width;
        const ptrdiff_t size = task_.out_height * width;
        int k = 0;
        for (; k + 2 <= task_.out_height; k += 2)
            average<2>(averages, averaged_ + k * n, n, written_ + k * width, 1, width);
        for (; k < task_.out_height; ++k)
            average<1>(averages, averaged_ + k * n, n, written_ + k * width, 1, width);
        const ptrdiff_t of_image = task_.n_coefficients * size;
        float* const to = to_ + coefficient * size;
        for (ptrdiff_t p = 0; p < size; ++p) written_[p] *= unit_;
        ptrdiff_t p = 0;
        for (; p + LANES <= size; p += LANES) {
            exchange(written_ + p);
            for (int image = 0; image < n_images_; ++image)
                __builtin_memcpy(to + image * of_image + p, written_ + p + image,
                                 sizeof(FloatV));
        }
        for (; p < size; ++p)
            for (int image = 0; image < n_images_; ++image)
                to[image * of_image + p] = written_[p][image];
    }
};

}  // namespace

size_t scattering_bytes(const ScatteringTask& task) {
    Arena arena{nullptr, 0};
    const Coefficients coefficients(task, arena);
    return arena.used;
}

void scatter(const ScatteringTask& task, void* workspace) {
    Arena arena{(char*)workspace, 0};
    Coefficients coefficients(task, arena);
    const ptrdiff_t size = ptrdiff_t(task.height) * task.width;
    const ptrdiff_t values =
        ptrdiff_t(task.n_coefficients) * task.out_height * task.out_width;
    for (ptrdiff_t first = 0; first < task.n_images; first += LANES) {
        const ptrdiff_t left = task.n_images - first;
        coefficients.run(task.images + first * size, task.units + first,
                         left < LANES ? int(left) : LANES, task.out + first * values);
    }
}

}  // namespace SKCONVGP_ISA
}  // namespace skconvgp
