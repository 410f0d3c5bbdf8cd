// Responses of the patches of images to inducing patches, and their weighted sums: one
// row of the grid after the other, all of whose responses stay in cache.
//
// With x and z centred and in units of the lengthscale, a response is a function of
//     h = |x - z|^2 / 2 = |x|^2 / 2 + |z|^2 / 2 - x z.
// Where the norms are so large that too many digits of this cancel, h is the sum of the
// squared differences. Which one it is depends on the inducing patches alone.
#pragma once

#include "../warp/coefficients.hpp"
#include "arena.hpp"
#include "program.hpp"
#include "simd.hpp"

namespace skconvgp {
namespace SKCONVGP_ISA {

// A register tile: patches times vectors of inducing patches.
constexpr int TILE_PATCHES = 4;
#if defined(__AVX512F__)
constexpr int TILE_VECTORS = 4;
#else
constexpr int TILE_VECTORS = 2;
#endif
constexpr int LARGEST_SUMS = TILE_PATCHES * TILE_VECTORS;  // vectors in registers

// Half the largest |z|^2 for which products do: an error of h is some 2^-24 times it.
constexpr float LARGEST_HALF_NORM = 24.0f;
constexpr float LARGEST_HALF_NORM_MATERN = 8.0f;  // three times as steep in h

constexpr float LOG2_E = 1.44269504088896340736f;
constexpr float LN_2 = 0.69314718055994530942f;
constexpr float LEAST_POWER = -125.0f;  // smaller responses are this one
// A number to add, so that a sum is rounded to a whole number n and its last bits are
// n + 127, the exponent of 2^n.
constexpr float TO_EXPONENT = 12582912.0f + 127.0f;

// 2^v for LEAST_POWER <= v <= 0; NaN stays.
SKCONVGP_INLINE FloatV power_of_two(FloatV v) {
    constexpr auto& fit = coefficients::power_float;
    constexpr int TERMS = sizeof(fit) / sizeof(fit[0]);
    const FloatV shifted = v + set1(TO_EXPONENT);
    const FloatV f = v - (shifted - set1(TO_EXPONENT));
    FloatV sum = set1(float(fit[TERMS - 1]));
#pragma GCC unroll 8
    for (int i = TERMS - 2; i >= 0; --i) sum = fma(sum, f, set1(float(fit[i])));
    sum = fma(sum, f, set1(1.0f));
    return sum * (FloatV)((FloatBits)shifted << 23);
}

// The covariance from half the squared distance. `max` returns its second argument
// where one of them is NaN.
template <Covariance KIND>
SKCONVGP_INLINE FloatV response(FloatV half) {
    half = max(set1(0.0f), half);
    if constexpr (KIND == RBF) {
        return power_of_two(max(set1(LEAST_POWER), half * set1(-LOG2_E)));
    } else {  // s = sqrt(2 nu) |x - z|
        constexpr float FACTOR = KIND == MATERN12 ? 2 : KIND == MATERN32 ? 6 : 10;
        const FloatV distance = root(half * set1(FACTOR));
        const FloatV v = max(set1(LEAST_POWER), distance * set1(-LOG2_E));
        const FloatV decay = power_of_two(v);
        if constexpr (KIND == MATERN12) return decay;
        const FloatV s = v * set1(-LN_2);
        if constexpr (KIND == MATERN32) return fma(s, decay, decay);
        return fma(fma(s, set1(1.0f / 3), set1(1.0f)), s * decay, decay);
    }
}

template <Covariance KIND>
void respond(FloatV* values, ptrdiff_t n) {
    for (ptrdiff_t i = 0; i < n; ++i) values[i] = response<KIND>(values[i]);
}

// Sums of vectors: to[r][v] = sum_i factors[i][r] from[i][v] for ROWS sums at a time.
// Each sum has the order of i.
struct Sums {
    const float* factors;  // [n][n_sums]
    const FloatV* const* from;
    int n, n_sums;
    ptrdiff_t n_vectors;
    FloatV* to;  // [n_sums][n_vectors]

    template <int ROWS, int VECTORS>
    SKCONVGP_INLINE_MEMBER void block(int row, ptrdiff_t first) const {
        FloatV sum[ROWS][VECTORS] = {};
        for (int i = 0; i < n; ++i) {
            const float* own = factors + ptrdiff_t(i) * n_sums + row;
#pragma GCC unroll 8
            for (int v = 0; v < VECTORS; ++v) {
                const FloatV value = from[i][first + v];
#pragma GCC unroll 8
                for (int r = 0; r < ROWS; ++r)
                    sum[r][v] = fma(set1(own[r]), value, sum[r][v]);
            }
        }
#pragma GCC unroll 8
        for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 8
            for (int v = 0; v < VECTORS; ++v)
                to[(row + r) * n_vectors + first + v] = sum[r][v];
    }

    template <int ROWS>
    int rows(int row) const {
        constexpr int VECTORS = LARGEST_SUMS / ROWS < 8 ? LARGEST_SUMS / ROWS : 8;
        for (; row + ROWS <= n_sums; row += ROWS) {
            ptrdiff_t v = 0;
            for (; v + VECTORS <= n_vectors; v += VECTORS) block<ROWS, VECTORS>(row, v);
            for (; v < n_vectors; ++v) block<ROWS, 1>(row, v);
        }
        return row;
    }

    void run() const { rows<1>(rows<2>(rows<4>(0))); }
};

// What is known of patches with one key: that of this row, or that whose responses are
// kept from former rows.
struct Slot {
    int key;     // bits of |x|^2 / 2
    int row;     // counted over all images, in which it was last
    int column;  // in that row
    int kept;    // place of its responses; -1: none
};

// The responses of one row of a grid after the other. Equal patches of a row are one.
// Responses of a patch that was in a former row too are kept: blank ones, above all.
class PatchRows {
   public:
    static constexpr int LANES = Simd<float>::LANES;
    static constexpr int SLOTS = 256, KEPT = 32;
    const int n_vectors;   // of the responses of a patch
    const FloatV** found;  // [distinct patches]: their responses
    int* patch_of;         // [width]: which one of the distinct patches
    int n_distinct = 0;

    PatchRows(const PatchTask& given, Arena& arena)
        : n_vectors((given.n_inducing + LANES - 1) / LANES), task_(given),
          n_parts_((given.size + LANES - 1) / LANES) {
        const ptrdiff_t width = given.width;
        found = arena.take<const FloatV*>(width);
        patch_of = arena.take<int>(width);
        inducing_ = arena.take<FloatV>(ptrdiff_t(n_vectors) * given.size);
        norms_ = arena.take<FloatV>(n_vectors);
        centre_ = arena.take<FloatV>(n_parts_);
        scale_ = arena.take<FloatV>(n_parts_);
        are_numbers_ = arena.take<FloatBits>(n_parts_);
        patches_ = arena.take<FloatV>(width * n_parts_);
        halves_ = arena.take<float>(width);
        responses_ = arena.take<FloatV>(width * n_vectors);
        missing_ = arena.take<int>(width);
        to_keep_ = arena.take<int>(width);
        slots_ = arena.take<Slot>(SLOTS);
        kept_patches_ = arena.take<FloatV>(ptrdiff_t(KEPT) * n_parts_);
        kept_responses_ = arena.take<FloatV>(ptrdiff_t(KEPT) * n_vectors);
    }

    void begin() {
        for (int i = 0; i < SLOTS; ++i) slots_[i] = {0, -1, 0, -1};
        load_inducing();
    }

    // Find the distinct patches of a row, then `found` and `patch_of` have its
    // responses until the next row.
    void run(const float* row) {
        ++row_;
        n_distinct = n_missing_ = n_to_keep_ = 0;
        int n_plain = 0;  // patches whose vectors lie in the row of patches
        if (!task_.offsets && task_.column >= 0) {
            const ptrdiff_t beyond = ptrdiff_t(n_parts_) * LANES - task_.size;
            while (n_plain < task_.width &&
                   (task_.width - 1 - n_plain) * task_.column >= beyond)
                ++n_plain;
        }
        for (int x = n_plain; x < task_.width; ++x)
            copy_patch(row + x * task_.column, task_.offsets, patch(x));
        for (int x = 0; x < task_.width; ++x) {
            __builtin_prefetch(row + task_.row + x * task_.column);
            const float* own = x < n_plain ? row + x * task_.column : (float*)patch(x);
            halves_[x] = load(own, patch(x));
        }
        for (int x = 0; x < task_.width; ++x) patch_of[x] = find(x);
        is_direct_ ? distances<true>() : distances<false>();
        const ptrdiff_t n = ptrdiff_t(n_missing_) * n_vectors;
        switch (task_.covariance) {
            case RBF:
                respond<RBF>(responses_, n);
                break;
            case MATERN12:
                respond<MATERN12>(responses_, n);
                break;
            case MATERN32:
                respond<MATERN32>(responses_, n);
                break;
            default:
                respond<MATERN52>(responses_, n);
        }
    }

    // Keep what later rows may have again.
    void keep() {
        for (int i = 0; i < n_to_keep_; ++i) {
            const int x = to_keep_[i], place = next_kept_++ % KEPT;
            copy(patch(x), n_parts_, kept_patch(place));
            copy(found[patch_of[x]], n_vectors, kept_responses(place));
            Slot& slot = slot_of(bits(halves_[x]));
            if (slot.row == row_ && slot.column == x) slot.kept = place;
        }
    }

   private:
    const PatchTask& task_;
    const int n_parts_;  // vectors of the numbers of a patch
    bool is_direct_ = false;
    int row_ = -1, n_missing_ = 0, n_to_keep_ = 0;
    unsigned next_kept_ = 0;
    FloatV *inducing_, *norms_, *centre_, *scale_, *patches_, *responses_;
    FloatV *kept_patches_, *kept_responses_;
    FloatBits* are_numbers_;
    float* halves_;
    int *missing_, *to_keep_;
    Slot* slots_;

    FloatV* patch(int x) const { return patches_ + ptrdiff_t(x) * n_parts_; }
    FloatV* kept_patch(int place) const {
        return kept_patches_ + ptrdiff_t(place) * n_parts_;
    }
    FloatV* kept_responses(int place) const {
        return kept_responses_ + ptrdiff_t(place) * n_vectors;
    }

    static int bits(float value) {
        int found;
        __builtin_memcpy(&found, &value, sizeof found);
        return found;
    }
    Slot& slot_of(int key) const { return slots_[(unsigned(key) * 2654435769u) >> 24]; }
    static void copy(const FloatV* from, int n, FloatV* to) {
        for (int i = 0; i < n; ++i) to[i] = from[i];
    }

    bool are_equal(const FloatV* one, const FloatV* two) const {
        FloatBits differ = {};
        for (int i = 0; i < n_parts_; ++i)
            differ |= (FloatBits)one[i] ^ (FloatBits)two[i];
        int any = 0;
        for (int l = 0; l < LANES; ++l) any |= differ[l];
        return any == 0;
    }

    // Put the numbers of a patch side by side.
    void copy_patch(const float* from, const ptrdiff_t* offsets, FloatV* to) const {
        float* numbers = (float*)to;
        for (int k = 0; k < task_.size; ++k)
            numbers[k] = from[offsets ? offsets[k] : k];
    }

    // Centre and scale a patch whose vectors begin at `from`: what follows its numbers
    // is read and becomes 0. Return half its squared norm.
    float load(const float* from, FloatV* to) const {
        FloatV squares = {};
        for (int i = 0; i < n_parts_; ++i) {
            FloatV own;
            __builtin_memcpy(&own, from + ptrdiff_t(i) * LANES, sizeof own);
            own = (FloatV)((FloatBits)own & are_numbers_[i]);
            own = (own - centre_[i]) * scale_[i];
            squares = fma(own, own, squares);
            to[i] = own;
        }
        return total(squares) * 0.5f;
    }

    float load_inducing_patch(int m) {
        copy_patch(task_.inducing + ptrdiff_t(m) * task_.size, nullptr, patches_);
        return load((const float*)patches_, patches_);
    }

    void set_scale(float factor) {
        float* scale = (float*)scale_;
        for (int k = 0; k < task_.size; ++k) scale[k] = task_.scale[k] * factor;
    }

    // Blocks of TILE_VECTORS vectors of inducing patches, then a smaller one for each
    // power of two that is left. A block has its vectors of the first number of a patch
    // side by side, then those of the second, and so on.
    void load_inducing() {
        for (int i = 0; i < n_parts_; ++i) scale_[i] = set1(0.0f);
        for (int k = 0; k < n_parts_ * LANES; ++k) {
            const bool is_number = k < task_.size;
            ((float*)centre_)[k] = is_number ? task_.centre[k] : 0.0f;
            ((int*)are_numbers_)[k] = is_number ? -1 : 0;
        }
        set_scale(1.0f);
        float largest = 0.0f;
        for (int m = 0; m < task_.n_inducing; ++m) {
            const float half = load_inducing_patch(m);
            if (!(half <= largest)) largest = half;
        }
        const float limit =
            task_.covariance == RBF ? LARGEST_HALF_NORM : LARGEST_HALF_NORM_MATERN;
        is_direct_ = task_.covariance == MATERN12 || !(largest <= limit);
        if (is_direct_) set_scale(0.70710678118654752440f);  // squares add up to h
        const ptrdiff_t n = ptrdiff_t(n_vectors) * task_.size;
        for (ptrdiff_t i = 0; i < n; ++i) inducing_[i] = set1(0.0f);
        for (int i = 0; i < n_vectors; ++i) norms_[i] = set1(0.0f);
        for (int m = 0; m < task_.n_inducing; ++m) {
            ((float*)norms_)[m] = load_inducing_patch(m);
            const int vector = m / LANES, lane = m % LANES;
            int first = 0, vectors = TILE_VECTORS;  // of the block that it is in
            while (first + vectors <= vector || first + vectors > n_vectors)
                if (first + vectors <= n_vectors)
                    first += vectors;
                else
                    vectors /= 2;
            FloatV* block =
                inducing_ + ptrdiff_t(first) * task_.size + (vector - first);
            for (int k = 0; k < task_.size; ++k)
                ((float*)(block + k * vectors))[lane] = ((float*)patches_)[k];
        }
        if (!is_direct_) set_scale(-1.0f);  // products are subtracted
    }

    // Return which one of the row's distinct patches the one in column x is.
    int find(int x) {
        const FloatV* own = patch(x);
        const int key = bits(halves_[x]);
        Slot& slot = slot_of(key);
        const bool is_known = slot.key == key && slot.row >= 0;
        if (is_known && slot.row == row_ && are_equal(own, patch(slot.column)))
            return patch_of[slot.column];
        if (is_known && slot.kept >= 0 && are_equal(own, kept_patch(slot.kept))) {
            found[n_distinct] = kept_responses(slot.kept);
        } else {
            if (is_known && slot.row < row_) to_keep_[n_to_keep_++] = x;
            found[n_distinct] = responses_ + ptrdiff_t(n_missing_) * n_vectors;
            missing_[n_missing_++] = x;
        }
        slot = {key, row_, x, is_known ? slot.kept : -1};
        return n_distinct++;
    }

    template <bool DIRECT, int VECTORS = TILE_VECTORS>
    void distances(int vector = 0) {
        for (; vector + VECTORS <= n_vectors; vector += VECTORS)
            tiles<DIRECT, TILE_PATCHES, VECTORS>(vector, 0);
        if constexpr (VECTORS > 1) distances<DIRECT, VECTORS / 2>(vector);
    }

    template <bool DIRECT, int PATCHES, int VECTORS>
    void tiles(int vector, int first) {
        for (; first + PATCHES <= n_missing_; first += PATCHES)
            tile<DIRECT, PATCHES, VECTORS>(vector, first);
        if constexpr (PATCHES > 1) tiles<DIRECT, PATCHES / 2, VECTORS>(vector, first);
    }

    // Half the squared distances of some patches from some vectors of inducing patches.
    template <bool DIRECT, int PATCHES, int VECTORS>
    SKCONVGP_INLINE_MEMBER void tile(int vector, int first) {
        const float* x[PATCHES];
        FloatV sum[PATCHES][VECTORS];
#pragma GCC unroll 8
        for (int p = 0; p < PATCHES; ++p) {
            const int column = missing_[first + p];
            x[p] = (const float*)patch(column);
#pragma GCC unroll 8
            for (int v = 0; v < VECTORS; ++v)
                sum[p][v] =
                    DIRECT ? set1(0.0f) : norms_[vector + v] + set1(halves_[column]);
        }
        const FloatV* z = inducing_ + ptrdiff_t(vector) * task_.size;
        const int size = task_.size;
        for (int k = 0; k < size; ++k, z += VECTORS) {
#pragma GCC unroll 8
            for (int p = 0; p < PATCHES; ++p) {
                const FloatV own = set1(x[p][k]);
#pragma GCC unroll 8
                for (int v = 0; v < VECTORS; ++v) {
                    if constexpr (DIRECT) {
                        const FloatV difference = z[v] - own;
                        sum[p][v] = fma(difference, difference, sum[p][v]);
                    } else {
                        sum[p][v] = fma(own, z[v], sum[p][v]);
                    }
                }
            }
        }
#pragma GCC unroll 8
        for (int p = 0; p < PATCHES; ++p)
#pragma GCC unroll 8
            for (int v = 0; v < VECTORS; ++v)
                responses_[ptrdiff_t(first + p) * n_vectors + vector + v] = sum[p][v];
    }
};

// Sums over a row of the grid, weighted by columns and weights, then over the rows.
class PatchPool {
   public:
    PatchPool(const PatchTask& given, int n_vectors, Arena& arena)
        : task_(given), n_vectors_(ptrdiff_t(given.n_columns) * n_vectors) {
        columns_ = arena.take<float>(ptrdiff_t(given.width) * given.n_columns);
        rows_ = arena.take<float>(ptrdiff_t(given.height) * given.n_rows);
        factors_ = arena.take<float>(ptrdiff_t(given.width) * given.n_columns);
        sums_ = arena.take<FloatV>(given.height * n_vectors_);
        sums_of_ = arena.take<const FloatV*>(given.height);
        pooled_ = arena.take<FloatV>(given.n_rows * n_vectors_);
    }

    void begin() {
        transpose(task_.columns, task_.n_columns, task_.width, columns_);
        transpose(task_.rows, task_.n_rows, task_.height, rows_);
        for (int y = 0; y < task_.height; ++y) sums_of_[y] = sums_ + y * n_vectors_;
    }

    void add_row(const PatchRows& row, int y) {
        const int n = task_.n_columns;
        const float* weights = task_.weights + ptrdiff_t(y) * task_.width;
        int n_begun = 0;
        for (int x = 0; x < task_.width; ++x) {
            const int patch = row.patch_of[x];
            float* own = factors_ + ptrdiff_t(patch) * n;
            const float* columns = columns_ + ptrdiff_t(x) * n;
            if (patch == n_begun) {
                ++n_begun;
                for (int l = 0; l < n; ++l) own[l] = weights[x] * columns[l];
                continue;
            }
            for (int l = 0; l < n; ++l) own[l] += weights[x] * columns[l];
        }
        Sums{factors_, row.found,     row.n_distinct,
             n,        row.n_vectors, sums_ + y * n_vectors_}
            .run();
    }

    // Write the sums of an image (rows, columns, inducing patches).
    void finish(int n_vectors, int image) const {
        Sums{rows_, sums_of_, task_.height, task_.n_rows, n_vectors_, pooled_}.run();
        const ptrdiff_t n = ptrdiff_t(task_.n_rows) * task_.n_columns;
        float* out = task_.out + image * n * task_.n_inducing;
        for (ptrdiff_t i = 0; i < n; ++i)
            __builtin_memcpy(out + i * task_.n_inducing, pooled_ + i * n_vectors,
                             task_.n_inducing * sizeof(float));
    }

   private:
    const PatchTask& task_;
    const ptrdiff_t n_vectors_;  // of the sums of a row of the grid
    float *columns_, *rows_, *factors_;
    FloatV *sums_, *pooled_;
    const FloatV** sums_of_;

    static void transpose(const float* from, int n, int size, float* to) {
        for (int i = 0; i < n; ++i)
            for (int k = 0; k < size; ++k)
                to[ptrdiff_t(k) * n + i] = from[ptrdiff_t(i) * size + k];
    }
};

// Writes all responses (images, height, width, inducing patches), one patch after the
// other. Many go past the cache, which would have to read what is overwritten.
class PatchWriter {
   public:
    explicit PatchWriter(const PatchTask& given) : task_(given), to_(given.out) {
        constexpr ptrdiff_t MANY = 1 << 20;
        const ptrdiff_t n = ptrdiff_t(given.n_images) * given.height * given.width;
        is_streamed_ = n * given.n_inducing >= MANY &&
                       given.n_inducing % PatchRows::LANES == 0 &&
                       size_t(given.out) % sizeof(FloatV) == 0;
    }

    void add_row(const PatchRows& row) {
        for (int x = 0; x < task_.width; ++x, to_ += task_.n_inducing) {
            const FloatV* from = row.found[row.patch_of[x]];
            if (is_streamed_)
                for (int v = 0; v < row.n_vectors; ++v)
                    stream(from[v], to_ + v * PatchRows::LANES);
            else
                __builtin_memcpy(to_, from, task_.n_inducing * sizeof(float));
        }
    }

    void finish() const { end_streams(); }

   private:
    const PatchTask& task_;
    float* to_;
    bool is_streamed_;
};

static inline void respond_to_patches(const PatchTask& task, void* workspace) {
    Arena arena{(char*)workspace, 0};
    PatchRows rows(task, arena);
    PatchPool pool(task, rows.n_vectors, arena);
    PatchWriter writer(task);
    rows.begin();
    pool.begin();
    for (int i = 0; i < task.n_images; ++i) {
        for (int y = 0; y < task.height; ++y) {
            rows.run(task.patches + i * task.image + y * task.row);
            task.n_rows ? pool.add_row(rows, y) : writer.add_row(rows);
            rows.keep();
        }
        if (task.n_rows) pool.finish(rows.n_vectors, i);
    }
    writer.finish();
}

static inline size_t patches_bytes(const PatchTask& task) {
    Arena arena{nullptr, 0};
    const PatchRows rows(task, arena);
    const PatchPool pool(task, rows.n_vectors, arena);
    return arena.used;
}

}  // namespace SKCONVGP_ISA
}  // namespace skconvgp
