// Scattering coefficients of images of one size: what a call computes, the same for all
// instruction sets. scattering_bank.hpp makes the tables.
#pragma once

#include <cstddef>

namespace skconvgp {

constexpr int LARGEST_LENGTH = 256;              // of a padded side
constexpr int LARGEST_ODD = LARGEST_LENGTH / 2;  // factor of a length
constexpr int MAX_SCALES = 6;

// A length of Fourier transforms, a power of two times an odd number.
struct FourierLength {
    int n, even, odd;
    const int* in;                 // [odd][even]: which number is read
    const int* out;                // [even][odd]: which number is written
    const float *cosines, *sines;  // [odd]: of the multiples of 2 pi / odd
};

// A stretch of a row of filtered frequencies. Each is a sum of products of weights with
// some numbers of the spectrum: the numbers of stored rows, read forwards, and those of
// rows that are the conjugate mirror images of stored ones, read backwards.
struct Stretch {
    int begin, length;
    int n_plain, n_mirrored;
    int offsets;  // of the first: where each product begins in the spectrum
    int weights;  // of the first: [length][n_plain + n_mirrored]
};

// Wavelets of one scale for spectra of one level.
struct Waves {
    const int* first;  // [n_angles * rows + 1]: stretches of each row
    const Stretch* stretches;
    const int* offsets;
    const float* weights;
};

// Neighbouring averages of a side, of numbers that lie side by side.
struct Window {
    int average, n_averages;  // the first, and 1 or 2
    int begin, length;        // numbers
    int weights;              // of the first: [length][n_averages]
    bool adds;                // to what an earlier window has written
};

struct Averages {
    int n_windows;
    const Window* windows;
    const float* weights;
};

struct ScatteringTask {
    int height, width;
    int n_scales, n_angles;
    bool has_second;            // order 2
    int out_height, out_width;  // of the coefficients
    int n_coefficients;
    const int *row_of, *column_of;  // of padded images: which row or column of an image
    // By level: images at every 2^level-th pixel.
    FourierLength heights[MAX_SCALES], widths[MAX_SCALES];
    Averages rows[MAX_SCALES], columns[MAX_SCALES];
    Waves waves[MAX_SCALES][MAX_SCALES];  // by level and scale
    const float* images;                  // [n_images][height][width]
    const float* units;  // [n_images]: powers of 2; images are scattered in this unit
    ptrdiff_t n_images;
    float* out;  // [n_images][n_coefficients][out_height][out_width]
};

}  // namespace skconvgp
