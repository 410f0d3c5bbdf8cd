// A lowered network: a list of operations on covariance maps, shared by all
// instruction sets. skconvgp/backends/_program.py makes it, opcodes.hpp
// describes the operations.
#pragma once

#include <cstddef>
#include <cstdint>

#include "../warp/opcodes.hpp"

namespace skconvgp {

struct ScatteringTask;

constexpr int MAX_TANGENTS = 64;  // of one call

constexpr bool ends_stage(Kind kind) { return STAGE_ENDS >> kind & 1; }

// AxisColumn describes the integers.
struct Axis {
    int size, window, before, stride, dilation, circular, outputs;
    const int* taps;     // [outputs][window]: position, negative outside the map
    const float* pairs;  // AVERAGE, [2 size - 1][size]: number of windows that
                         // have positions p and p + d, for each d and p
    bool is_apart;       // POOL: windows are side by side on the map
    // Steps of a running sum before the first output, and after the last input:
    int lead() const { return window - 1 - before; }
    int tail() const { return outputs - size + lead(); }
    // POOL: distance from the first to the last position of a window; and the windows
    // that may have a position, of which those do that have one of their own there.
    int reach() const { return (window - 1) * dilation; }
    int first_window(int p) const {
        const int past = p + before - reach();
        return past > 0 ? (past + stride - 1) / stride : 0;
    }
    int last_window(int p) const {
        const int last = (p + before) / stride;
        return last < outputs ? last : outputs - 1;
    }
    bool has(int output, int p) const {
        return (p + before - output * stride) % dilation == 0;
    }
};

// Column describes the integers.
struct Op {
    Kind kind;
    int reg, flag;
    Axis rows, cols;
    int table, roots, loaded, maps;
    double lambda, mu;       // LEAKY
    const double* additive;  // constant and its derivatives, [1 + n_tangents]
    const double* factor;    // factor and its derivatives, [1 + n_tangents]
    // Of the tables of an image: positions in a map and in a row of it, and the
    // first position of either image. They are displaced maps that are smaller
    // than these.
    int plane, pitch, begin_one, begin_two;
    // AVERAGE and POOL: displacement of their map, and how often it counts in
    // sums.
    const struct Segment* segment;
    int down, across, repeats;
};

// Distances between positions of two images along one axis, ascending.
struct Displacements {
    int n, size;
    const int* at;
    const int* places;  // [2 size - 1]: place of each in the list, or -1
    int farthest() const { return at[n - 1]; }  // opposites are in the list as well
    int place(int d) const { return d > -size && d < size ? places[d + size - 1] : -1; }
};

// Operations that are run once for each displacement of two images, from
// `begin` to before `end`. The last one is AVERAGE, or a POOL, of which only
// displacements (`down`, `across`) are wanted behind it.
struct Segment {
    int number, begin, end;
    bool is_half;  // displacements upwards are left out, and those downwards count
                   // twice
    Displacements rows, cols, down, across;
};

constexpr int MAX_SEGMENTS = 16;

struct Program {
    const Op* ops;
    int n_ops;
    int n_tangents;
    int n_registers;
    int n_values;       // values in the table of an image
    int n_pixels;       // values of an image: channels, rows, columns
    int n_channels;     // of a position, side by side in tables; 1: planes
    int max_positions;  // of the largest map
    int max_width;      // of the widest row, inputs and outputs
    int max_window;     // largest window
    bool is_vector;     // begins with DOT: all maps have one position
    bool is_ntk;        // has JOIN: the second map is the tangent kernel, not a tangent
    bool mixes_roots;   // some roots of covariances are computed by steps
    int n_displaced;    // operations up to AVERAGE; 0 if there is none
    int n_segments;
    const Segment* segments;  // [n_segments], for two images
    // [n_segments][n_segments]: for what is behind each segment of an image with
    // itself, half of the displacements if that is AVERAGE, and otherwise only
    // displacement 0
    const Segment* self;
};

template <class T>
struct Tile {
    const T* one;  // tables of the rows, [n1][stride]
    const T* two;  // tables of the columns, [n2][stride]
    ptrdiff_t stride_one, stride_two;
    const double* diag_one;  // variances of the rows, [n1][1 + n_tangents]
    const double* diag_two;  // variances of the columns, [n2][1 + n_tangents]
    int n_one, n_two;
    bool upper;   // only the pairs j >= i are needed
    double* out;  // [n1][n2][1 + n_tangents]
};

template <class T>
struct Images {
    const T* pixels;  // [n][n_pixels]
    int n;
    T* tables;     // [n][n_values]
    double* diag;  // [n][1 + n_tangents]
};

enum Covariance { RBF, MATERN12, MATERN32, MATERN52, N_COVARIANCES };

// Patches of images on a grid, and the inducing patches that they respond to.
struct PatchTask {
    const float* patches;
    ptrdiff_t image, row, column;  // strides of the grid
    const ptrdiff_t* offsets;      // [size] of a patch's numbers; null: side by side
    int n_images, height, width, size;
    const float* inducing;  // [n_inducing][size]
    int n_inducing;
    const float *centre, *scale;  // [size]: subtracted, then multiplied
    Covariance covariance;
    const float* weights;   // [height][width]
    const float* rows;      // [n_rows][height]
    const float* columns;   // [n_columns][width]
    int n_rows, n_columns;  // 0: all responses are wanted, no sums
    float* out;             // [n_images][n_rows][n_columns][n_inducing], or
                            // [n_images][height][width][n_inducing]
};

// The functions of one instruction set. Workspaces are aligned to 64 bytes.
struct Api {
    const char* name;
    int roots;                          // Column::ROOTS that tables must have
    int largest_width, largest_window;  // of maps; 0 is unlimited
    size_t (*cross_bytes_float)(const Program&);
    size_t (*cross_bytes_double)(const Program&);
    size_t (*prepare_bytes)(const Program&);
    void (*cross_float)(const Program&, const Tile<float>&, void* workspace);
    void (*cross_double)(const Program&, const Tile<double>&, void* workspace);
    void (*prepare_float)(const Program&, const Images<float>&, void* workspace);
    void (*prepare_double)(const Program&, const Images<double>&, void* workspace);
    size_t (*patches_bytes)(const PatchTask&);
    void (*respond_to_patches)(const PatchTask&, void* workspace);
    size_t (*scattering_bytes)(const ScatteringTask&);  // null: it computes none
    void (*scatter)(const ScatteringTask&, void* workspace);
    bool mixes_roots;  // Program::mixes_roots
};

}  // namespace skconvgp
