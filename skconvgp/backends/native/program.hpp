// A lowered network: a list of operations on covariance maps, shared by all
// instruction sets. skconvgp/backends/_program.py writes it and explains it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace skconvgp {

enum Kind : int32_t {
    // What makes a row of a map, in place:
    INPUT = 0,   // mean over channels of the product of pixels
    LOAD = 1,    // a row of a register
    STORE = 2,   // ... to a register
    ADD = 3,     // plus factor times a row of a register, or, with the flag, factor
                 // times the row plus that of the register
    LEAKY = 4,   // expectation of a piecewise linear activation
    ERF = 5,     // expectation of the error function
    AFFINE = 6,  // times a factor, plus a constant
    // What takes the rows of a map and ends a stage:
    BOX = 7,      // windows of stride 1 and dilation 1, by running sums
    CONV = 8,     // any windows, by direct sums
    SUM = 9,      // sum over positions
    END = 10,     // nothing
    RESULT = 11,  // scale times the value, plus an offset
    DOT = 12,     // inner product of whole samples, in the place of INPUT
};

constexpr int MAX_TANGENTS = 64;  // of one call

struct Axis {
    int size;  // of the input
    int window;
    int before;  // positions before the first
    int stride;
    int dilation;
    int circular;
    int outputs;
    const int* taps;  // [outputs][window]: position, negative outside the map
    // of a running sum:
    int lead() const { return window - 1 - before; }
    int tail() const { return outputs - size + lead(); }
};

struct Op {
    Kind kind;
    int reg;   // register that is read or written
    int flag;  // INPUT, DOT: channels; LEAKY: whether the map is never negative;
               // RESULT: whether to take the last SUM in double precision
    Axis rows, cols;
    int table;   // where its per-image numbers begin
    int roots;   // LEAKY: numbers of a position: s or (s, 1 / s); ERF: 1; others: 0
    int loaded;  // LOAD, ADD, RESULT: maps that were there before, others are zero
    int maps;    // value and tangents that are not zero after the operation
    double lambda, mu;       // LEAKY
    const double* additive;  // constant and its derivatives, [1 + n_tangents]
    const double* factor;    // factor and its derivatives, [1 + n_tangents]
};

struct Program {
    const Op* ops;
    int n_ops;
    int n_tangents;
    int n_registers;
    int n_values;       // numbers in the table of an image
    int n_pixels;       // numbers of an image: channels, rows, columns
    int max_positions;  // of the largest map
    int max_width;      // of the widest row, inputs and outputs
    int max_window;     // largest window
    bool is_vector;     // begins with DOT: all maps have one position
};

template <class T>
struct Tile {
    const T* one;  // tables of the rows, [n1][stride]
    const T* two;  // tables of the columns, [n2][stride]
    ptrdiff_t stride_one, stride_two;
    const double* diag_one;  // variances of the rows, [n1][1 + n_tangents]
    const double* diag_two;  // ... of the columns
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

// What one instruction set offers. Workspaces are aligned to 64 bytes.
struct Api {
    const char* name;
    int roots;                          // that tables must have
    int largest_width, largest_window;  // of maps; 0 is any
    size_t (*cross_bytes_float)(const Program&);
    size_t (*cross_bytes_double)(const Program&);
    size_t (*prepare_bytes)(const Program&);
    void (*cross_float)(const Program&, const Tile<float>&, void* workspace);
    void (*cross_double)(const Program&, const Tile<double>&, void* workspace);
    void (*prepare_float)(const Program&, const Images<float>&, void* workspace);
    void (*prepare_double)(const Program&, const Images<double>&, void* workspace);
};

}  // namespace skconvgp
