// The Python module of the extension. It checks numpy arrays, chooses the
// widest instruction set of the processor, and computes without the lock of the
// interpreter.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "program.hpp"
#include "scattering_bank.hpp"

namespace nb = nanobind;

namespace skconvgp {

#if defined(SKCONVGP_HAS_X86_VARIANTS)
namespace avx512 {
extern const Api api;
}
namespace avx2 {
extern const Api api;
}
#endif
namespace baseline {
extern const Api api;
}
namespace lanes {
extern const Api api;
}

namespace {

using Codes = nb::ndarray<const int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Constants = nb::ndarray<const double, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using Slopes = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T>
using Input = nb::ndarray<const T, nb::ndim<2>, nb::device::cpu>;
template <class T>
using Output = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Patches = nb::ndarray<const float, nb::ndim<6>, nb::device::cpu>;
using Matrix = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Vector = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Sums = nb::ndarray<float, nb::ndim<4>, nb::c_contig, nb::device::cpu>;
using Values = nb::ndarray<double, nb::ndim<3>, nb::c_contig, nb::device::cpu>;

constexpr int LARGEST_SIZE = 1 << 20;        // of an axis
constexpr long long LARGEST_SPAN = 1 << 29;  // of positions; sums of two fit in an int
constexpr long long LARGEST_MAP = 1 << 26;  // or of the taps of all windows of all axes
// The largest window times the widest row: times MAX_TANGENTS it still fits in
// an int.
constexpr long long LARGEST_RING = 1 << 24;
// A window of a pool reaches less far than this, or than twice its map.
constexpr long long SHORT_WINDOW = 256;
constexpr size_t LARGEST_COUNT = 1 << 30;  // of samples and of values of a sample

#if defined(SKCONVGP_HAS_X86_VARIANTS)
// The same with MIXED roots, for processors on which roots of vectors are slow. It has
// a name of its own, since the last bits of values differ.
const Api& avx512_newton() {
    static const Api api = [] {
        Api changed = avx512::api;
        changed.name = "avx512_newton";
        changed.mixes_roots = true;
        return changed;
    }();
    return api;
}
#endif

// Those that the processor can run, the one to use first.
std::vector<const Api*> available() {
    std::vector<const Api*> found;
#if defined(SKCONVGP_HAS_X86_VARIANTS)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl")) {
        found = {&avx512::api, &avx512_newton()};
        if (__builtin_cpu_is("intel")) std::swap(found[0], found[1]);
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2"))
        found.push_back(&avx2::api);
#endif
    found.push_back(&baseline::api);
    return found;
}

std::vector<std::string> instruction_sets() {
    std::vector<std::string> names;
    for (const Api* api : available()) names.push_back(api->name);
    return names;
}

// The arithmetic of a GPU, "lanes", is used only if it is named.
const Api& choose(const std::string& name) {
    if (name == lanes::api.name) return lanes::api;
    for (const Api* api : available())
        if (name.empty() || name == api->name) return *api;
    throw std::invalid_argument("instruction set '" + name + "' is not available here");
}

void require(bool holds, const char* what) {
    if (!holds) throw std::invalid_argument(std::string("malformed program: ") + what);
}

// A program, with checks which ensure that no index leaves its memory.
class Loaded {
   public:
    Program program{};

    // `codes` has one row for each operation, with the columns of Column.
    // `constants` has its additive constant and its factor, each with
    // derivatives; `slopes` has lambda and mu.
    Loaded(const Codes& codes, const Constants& constants, const Slopes& slopes,
           int n_registers, int n_pixels)
        : n_pixels_(n_pixels) {
        const size_t n = codes.shape(0);
        require(n > 0 && codes.shape(1) == N_COLUMNS, "codes");
        require(constants.shape(0) == n && constants.shape(1) == 2 &&
                    constants.shape(2) >= 1 && constants.shape(2) <= 1 + MAX_TANGENTS,
                "constants");
        require(slopes.shape(0) == n && slopes.shape(1) == 2, "slopes");
        require(n_registers >= 0 && n_registers < 1024, "registers");
        require(n_pixels > 0, "pixels");
        program.n_ops = int(n);
        program.n_tangents = int(constants.shape(2)) - 1;
        program.n_registers = n_registers;
        program.n_pixels = program.n_values = n_pixels;
        program.max_positions = program.max_width = program.max_window = 1;
        for (size_t i = 0; i < n; ++i) program.is_ntk |= codes(i, Column::KIND) == JOIN;
        require(!program.is_ntk || program.n_tangents == 1, "tangent kernel");
        for (size_t i = 0; i < n; ++i) {
            const double* own = constants.data() + i * 2 * constants.shape(2);
            const double* slope = slopes.data() + 2 * i;
            add(codes.data() + N_COLUMNS * i, own, own + constants.shape(2), slope);
        }
        require((long long)program.max_window * program.max_width < LARGEST_RING,
                "windows of this width");
        program.ops = ops_.data();
        program.is_vector = ops_[0].kind == DOT;
        program.n_channels = ops_[0].kind == INPUT ? std::max(1, ops_[0].roots) : 1;
        require(ops_.back().kind == RESULT, "end");
        for (size_t i = 0; i < n; ++i) check(ops_[i], i);
        if (program.n_displaced) check_displaced();
    }

    // Bytes of taps and counts of pairs.
    size_t n_bytes() const { return size_t(n_taps_) * sizeof(int); }

   private:
    std::vector<Op> ops_;
    std::vector<std::unique_ptr<int[]>> taps_;
    std::vector<float> pairs_[2];  // of rows and columns
    std::vector<std::vector<int>> lists_;
    std::vector<Segment> segments_;  // of pairs, then of each image with itself
    long long n_taps_ = 0;
    int n_pixels_;

    Axis axis(const int32_t* code, bool circular, bool is_last) {
        Axis axis{code[AxisColumn::SIZE],
                  code[AxisColumn::WINDOW],
                  code[AxisColumn::BEFORE],
                  code[AxisColumn::STRIDE],
                  code[AxisColumn::DILATION],
                  circular,
                  code[AxisColumn::OUTPUTS],
                  nullptr,
                  nullptr,
                  false};
        require(axis.size > 0 && axis.size < LARGEST_SIZE, "size");
        program.max_width = std::max(program.max_width, axis.size);
        if (axis.window == 0) return axis;
        require(axis.window > 0 && axis.window < LARGEST_SIZE && axis.outputs > 0 &&
                    axis.outputs < LARGEST_SIZE && axis.before >= 0 &&
                    axis.before < LARGEST_SIZE,
                "window");
        require(axis.stride > 0 && axis.stride < LARGEST_SIZE && axis.dilation > 0 &&
                    axis.dilation < LARGEST_SIZE &&
                    (long long)axis.outputs * axis.stride < LARGEST_SPAN &&
                    (long long)axis.window * axis.dilation < LARGEST_SPAN,
                "steps of windows");
        const long long n_taps = (long long)axis.outputs * axis.window;
        n_taps_ += n_taps;
        require(n_taps_ < LARGEST_MAP, "number of windows");
        if (is_last) return axis;
        program.max_width = std::max(program.max_width, axis.outputs);
        program.max_window = std::max(program.max_window, axis.window);
        taps_.push_back(std::make_unique<int[]>(size_t(n_taps)));
        int* taps = taps_.back().get();
        axis.taps = taps;
        for (long long i = 0; i < axis.outputs; ++i) {
            for (long long k = 0; k < axis.window; ++k) {
                long long at = i * axis.stride - axis.before + k * axis.dilation;
                if (circular) at = (at % axis.size + axis.size) % axis.size;
                *taps++ = at >= 0 && at < axis.size ? int(at) : -1;
            }
        }
        return axis;
    }

    // Count the windows that have both of two positions.
    void count_pairs(Axis& axis, int k) {
        const long long n_pairs = (2LL * axis.size - 1) * axis.size;
        n_taps_ += n_pairs;
        require(n_taps_ < LARGEST_MAP &&
                    (long long)axis.outputs * axis.window < LARGEST_MAP / axis.window,
                "number of windows");
        pairs_[k].assign(size_t(n_pairs), 0.0f);
        const auto has = [&](long long at) { return at >= 0 && at < axis.size; };
        for (long long i = 0; i < axis.outputs; ++i) {
            const long long first = i * axis.stride - axis.before;
            for (long long a = 0; a < axis.window; ++a) {
                const long long p = first + a * axis.dilation;
                for (long long b = 0; b < axis.window && has(p); ++b) {
                    const long long q = first + b * axis.dilation;
                    if (has(q))
                        ++pairs_[k][size_t((q - p + axis.size - 1) * axis.size + p)];
                }
            }
        }
        axis.pairs = pairs_[k].data();
    }

    typedef std::vector<int> List;

    // Displacements at which a pair of positions is in a window.
    static List averaged(const Axis& axis) {
        List found;
        const float* pairs = axis.pairs;
        for (int d = 1 - axis.size; d < axis.size; ++d, pairs += axis.size)
            if (std::any_of(pairs, pairs + axis.size, [](float n) { return n > 0; }))
                found.push_back(d);
        require(!found.empty(), "average");
        return found;
    }

    // Those in front of a pool that contribute to some behind it.
    static List pooled(const Axis& axis, const List& wanted) {
        std::vector<bool> is_found(size_t(2 * axis.size - 1), false);
        for (int behind : wanted) {
            const int centre = behind * axis.stride, reach = axis.reach();
            for (int d = centre - reach; d <= centre + reach; d += axis.dilation)
                if (std::abs(d) < axis.size) is_found[size_t(d + axis.size - 1)] = true;
        }
        List found;
        for (int d = 1 - axis.size; d < axis.size; ++d)
            if (is_found[size_t(d + axis.size - 1)]) found.push_back(d);
        return found;
    }

    Displacements store(const List& list, int size) {
        n_taps_ += (long long)list.size() + 2 * size;
        List places(size_t(2 * size - 1), -1);
        for (size_t i = 0; i < list.size(); ++i)
            places[size_t(list[i] + size - 1)] = int(i);
        lists_.push_back(list);
        lists_.push_back(places);
        return {int(list.size()), size, lists_.end()[-2].data(), lists_.back().data()};
    }

    // Work out backwards which displacements segments up to a last one are run
    // for.
    void add_lists(std::vector<Segment>& segments, int last, bool is_self,
                   bool is_col) {
        const auto axis_of = [&](int k) -> const Axis& {
            const Op& op = ops_[size_t(segments[size_t(k)].end - 1)];
            return is_col ? op.cols : op.rows;
        };
        const bool is_whole = last + 1 == program.n_segments;
        List list = {0};
        if (is_whole) list = averaged(axis_of(last));
        if (is_whole && is_self && !is_col)
            list.erase(list.begin(), std::find(list.begin(), list.end(), 0));
        for (int k = last; k >= 0; --k) {
            Segment& segment = segments[size_t(k)];
            const Axis& axis = axis_of(k);
            if (k < last || !is_whole) {
                for (int d : list) require(std::abs(d) < axis.outputs, "displacement");
                (is_col ? segment.across : segment.down) = store(list, axis.outputs);
                list = pooled(axis, list);
            }
            (is_col ? segment.cols : segment.rows) = store(list, axis.size);
            const Op& first = ops_[size_t(segment.begin)];
            const long long step = (is_col ? first.cols : first.rows).stride;
            require(step > 0 && step < LARGEST_SIZE, "displacement");
            for (int& d : list) {
                require(std::abs(d) * step < LARGEST_SIZE, "displacement");
                d = int(d * step);
            }
        }
    }

    // Segments end with a POOL, whose result the next one begins with, or with
    // AVERAGE.
    void add_segments() {
        std::vector<Segment> segments;
        int begin = 0;
        for (int i = 0; i < program.n_displaced; ++i) {
            const Op& op = ops_[size_t(i)];
            if (op.kind != POOL && op.kind != AVERAGE) continue;
            Segment segment{};
            segment.number = int(segments.size());
            segment.begin = begin;
            segment.end = begin = i + 1;
            segments.push_back(segment);
            const Op& next = ops_[size_t(begin)];
            require(op.kind == AVERAGE ||
                        (next.kind == LOAD && next.reg == op.reg &&
                         next.rows.size == op.rows.outputs &&
                         next.cols.size == op.cols.outputs && next.maps <= op.maps),
                    "pool");
        }
        const int n = program.n_segments = int(segments.size());
        require(n <= MAX_SEGMENTS, "pools");
        for (int last = n; last >= 0; --last) {  // that of pairs, then n of self
            std::vector<Segment> some = segments;
            const bool is_self = last < n;
            for (const bool is_col : {false, true})
                add_lists(some, is_self ? last : n - 1, is_self, is_col);
            if (last + 1 == n) some.back().is_half = true;
            segments_.insert(is_self ? segments_.begin() + n : segments_.end(),
                             some.begin(), some.end());
        }
        program.segments = segments_.data();
        program.self = segments_.data() + n;
    }

    // Operations before an average run on displaced maps, which must not be
    // empty; those after it on its result.
    void check_displaced() {
        add_segments();
        const Segment* segment = program.segments;
        long long steps[2] = {};
        for (int i = 0; i < program.n_ops; ++i) {
            const Op& op = ops_[size_t(i)];
            const bool is_before = i < program.n_displaced;
            require(is_before || (op.plane == 1 && !op.rows.taps && !op.cols.taps &&
                                  op.kind != POOL),
                    "average");
            require(!is_before || op.kind != SUM, "average");  // they share memory
            if (is_before && i == segment->end) ++segment;
            for (int k = 0; k < 2 && is_before; ++k) {
                const Axis& axis = k ? op.cols : op.rows;
                const long long far = (k ? segment->cols : segment->rows).farthest();
                if (i == 0 || ends_stage(ops_[size_t(i) - 1].kind))
                    steps[k] = axis.stride;
                require(axis.window || steps[k] == axis.stride, "displacement");
                require(steps[k] > 0 && steps[k] * far < axis.size, "displacement");
                if (axis.taps)
                    require(!axis.circular && steps[k] % axis.stride == 0 &&
                                steps[k] / axis.stride * far < axis.outputs,
                            "displacement");
                if (i + 1 == segment->end) require(steps[k] == 1, "displacement");
            }
        }
    }

    void add(const int32_t* code, const double* additive, const double* factor,
             const double* slope) {
        const int kind = code[Column::KIND], circular = code[Column::CIRCULAR];
        require(kind >= 0 && kind < N_KINDS, "kind");
        Op op{Kind(kind),
              code[Column::REG],
              code[Column::FLAG],
              axis(code + Column::ROWS, circular, kind == AVERAGE || kind == POOL),
              axis(code + Column::COLS, circular, kind == AVERAGE || kind == POOL),
              code[Column::TABLE],
              code[Column::ROOTS],
              code[Column::LOADED],
              code[Column::MAPS],
              slope[0],
              slope[1],
              additive,
              factor,
              0,
              0,
              0,
              0,
              nullptr,
              0,
              0,
              0};
        const int n_maps = 1 + program.n_tangents;
        require(
            op.loaded > 0 && op.loaded <= n_maps && op.maps > 0 && op.maps <= n_maps,
            "maps");
        const long long size = (long long)op.rows.size * op.cols.size;
        long long outputs = size;
        if (op.rows.taps &&
            op.cols.taps)  // after sums along the columns a map is rows.size high
            outputs =
                (long long)std::max(op.rows.size, op.rows.outputs) * op.cols.outputs;
        require(std::max(size, outputs) < LARGEST_MAP, "map");
        op.plane = int(size);
        op.pitch = op.cols.size;
        if (op.kind == AVERAGE) {
            require(
                !program.n_displaced && op.rows.window && op.cols.window && !circular,
                "average");
            count_pairs(op.rows, 0);
            count_pairs(op.cols, 1);
            program.n_displaced = int(ops_.size()) + 1;
        }
        if (op.kind == POOL) {
            long long n_kept = 1;
            for (Axis* axis : {&op.rows, &op.cols}) {
                const long long reach = (axis->window - 1LL) * axis->dilation;
                const long long last = (axis->outputs - 1LL) * axis->stride;
                require(axis->window > 0 && !circular &&
                            reach < std::max(2LL * axis->size, SHORT_WINDOW) &&
                            axis->before <= reach && last - axis->before < axis->size,
                        "pool");
                axis->is_apart = axis->window <= axis->stride && axis->dilation == 1 &&
                                 axis->before == 0 && last + reach < axis->size;
                n_kept *= (2 * reach / axis->stride + 1) * axis->outputs;
                require(n_kept < LARGEST_MAP, "pool");
            }
        }
        program.max_positions =
            std::max(program.max_positions, int(std::max(size, outputs)));
        if (op.kind == LEAKY || op.kind == ERF) {
            require(op.roots == 1 || (op.kind == LEAKY && op.roots == 2), "numbers");
            const int n_tangents = program.is_ntk ? 0 : op.maps - 1;
            const long long end = op.table + (op.roots + n_tangents) * size;
            require(op.table >= n_pixels_ && end < (long long)LARGEST_COUNT, "table");
            program.n_values = std::max(program.n_values, int(end));
        }
        ops_.push_back(op);
    }

    void check(const Op& op, size_t i) const {
        const bool uses_register =
            op.kind == LOAD || op.kind == STORE || op.kind == ADD || op.kind == BOX ||
            op.kind == CONV || op.kind == SUM || op.kind == AVERAGE || op.kind == POOL;
        require(!uses_register || (op.reg >= 0 && op.reg < program.n_registers),
                "register");
        const long long size = (long long)op.rows.size * op.cols.size;
        if (op.kind == INPUT)
            require(
                op.flag > 0 && op.flag * size == n_pixels_ &&
                    (op.roots == 0 || (i == 0 && op.roots == op.flag && op.flag > 1)),
                "input");
        if (op.kind == DOT)
            require(i == 0 && size == 1 && op.flag == n_pixels_, "input");
        if (op.kind == BOX || op.kind == CONV)
            require(op.rows.window > 0 && op.cols.window > 0, "window");
        if (op.kind == BOX)
            for (const Axis& axis : {op.rows, op.cols})
                require(axis.stride == 1 && axis.dilation == 1 && !axis.circular &&
                            axis.lead() >= 0 && axis.tail() >= 0 &&
                            axis.tail() < axis.window && axis.before < axis.window,
                        "box");
        require((op.kind == RESULT) == (i + 1 == ops_.size()), "end");
        require(op.kind != POOL || int(i) < program.n_displaced, "pool");
        if (op.kind == RESULT) require(size == 1, "result");
        if (program.is_vector)
            require(size == 1 && op.kind != BOX && op.kind != CONV && op.kind != SUM &&
                        op.kind != AVERAGE && op.kind != POOL && op.kind != END &&
                        op.kind != INPUT,
                    "samples");
        // The operations of a stage run on rows of one map.
        const bool begins = i == 0 || ends_stage(ops_[i - 1].kind);
        if (begins)
            require(op.kind == INPUT || op.kind == DOT || op.kind == LOAD ||
                        (op.kind == RESULT && op.flag),
                    "stage");
        else
            require(op.rows.size == ops_[i - 1].rows.size &&
                        op.cols.size == ops_[i - 1].cols.size,
                    "stage");
    }
};

void require_accepted(const Program& program, const Api& api) {
    for (int i = 0; i < program.n_ops; ++i)
        require(program.ops[i].kind != LEAKY || program.ops[i].roots == api.roots,
                "numbers");
    require(program.n_channels == 1 || api.roots == 2, "numbers");
    for (int i = 0; i < program.n_displaced; ++i) {
        const Op& op = program.ops[i];
        require(
            op.kind != POOL || api.roots == 2 || (op.rows.is_apart && op.cols.is_apart),
            "pool");
    }
    require(!api.largest_width || program.max_width <= api.largest_width, "width");
    require(!api.largest_window || program.max_window <= api.largest_window, "window");
}

// Whether the values of a row are contiguous. The strides of an empty array and
// of a dimension of size 1 are arbitrary.
template <class T>
bool has_plain_rows(const Input<T>& array) {
    return array.size() == 0 || array.shape(1) == 1 || array.stride(1) == 1;
}

template <class T>
bool is_plain(const Input<T>& array) {
    return has_plain_rows(array) &&
           (array.shape(0) == 1 || array.stride(0) == int64_t(array.shape(1)));
}

int count(size_t n, const char* what) {
    require(n < LARGEST_COUNT, what);
    return int(n);
}

class Workspace {
   public:
    explicit Workspace(size_t n_bytes)
        : start_(::operator new(whole(n_bytes), std::align_val_t(64))) {}
    ~Workspace() { ::operator delete(start_, std::align_val_t(64)); }
    Workspace(const Workspace&) = delete;
    Workspace& operator=(const Workspace&) = delete;
    void* get() const { return start_; }
    static size_t whole(size_t n_bytes) { return n_bytes + 64; }

   private:
    void* start_;
};

template <class T>
constexpr bool is_float = sizeof(T) == 4;

template <class T>
void prepare(const Codes& codes, const Constants& constants, const Slopes& slopes,
             int n_registers, const Input<T>& images, const Output<T>& tables,
             const Output<double>& diag, const std::string& instruction_set) {
    const Loaded loaded(codes, constants, slopes, n_registers,
                        count(images.shape(1), "pixels"));
    const Program& program = loaded.program;
    const size_t n = images.shape(0);
    const int n_images = count(n, "images");
    require(is_plain(images), "images");
    require(tables.shape(0) == n && tables.shape(1) == size_t(program.n_values),
            "tables");
    require(diag.shape(0) == n && diag.shape(1) == size_t(1 + program.n_tangents),
            "diag");
    const Api& api = choose(instruction_set);
    const Images<T> given{images.data(), n_images, tables.data(), diag.data()};
    nb::gil_scoped_release release;
    const Workspace workspace(api.prepare_bytes(program));
    if constexpr (is_float<T>)
        api.prepare_float(program, given, workspace.get());
    else
        api.prepare_double(program, given, workspace.get());
}

template <class T>
void cross(const Codes& codes, const Constants& constants, const Slopes& slopes,
           int n_registers, int n_pixels, const Input<T>& one,
           const Input<double>& diag_one, const Input<T>& two,
           const Input<double>& diag_two, bool upper, const Values& out,
           const std::string& instruction_set) {
    const Api& api = choose(instruction_set);
    Loaded loaded(codes, constants, slopes, n_registers, n_pixels);
    loaded.program.mixes_roots = api.mixes_roots && !loaded.program.n_tangents;
    const Program& program = loaded.program;
    for (const Input<T>* side : {&one, &two})
        require(side->shape(1) == size_t(program.n_values) && has_plain_rows(*side),
                "tables");
    for (const auto& [side, diag] : {std::pair{&one, &diag_one}, {&two, &diag_two}})
        require(diag->shape(0) == side->shape(0) &&
                    diag->shape(1) == size_t(1 + program.n_tangents) && is_plain(*diag),
                "diag");
    require(out.shape(0) == one.shape(0) && out.shape(1) == two.shape(0) &&
                out.shape(2) == size_t(1 + program.n_tangents),
            "result");
    require_accepted(program, api);
    const Tile<T> tile{one.data(),
                       two.data(),
                       one.stride(0),
                       two.stride(0),
                       diag_one.data(),
                       diag_two.data(),
                       count(one.shape(0), "tables"),
                       count(two.shape(0), "tables"),
                       upper,
                       out.data()};
    nb::gil_scoped_release release;
    if constexpr (is_float<T>) {
        const Workspace workspace(api.cross_bytes_float(program));
        api.cross_float(program, tile, workspace.get());
    } else {
        const Workspace workspace(api.cross_bytes_double(program));
        api.cross_double(program, tile, workspace.get());
    }
}

int table_size(const Codes& codes, const Constants& constants, const Slopes& slopes,
               int n_registers, int n_pixels) {
    const Loaded loaded(codes, constants, slopes, n_registers, n_pixels);
    return loaded.program.n_values;
}

// Bytes that `prepare` or `cross` holds beside its arguments, the larger of
// both.
size_t workspace_bytes(const Codes& codes, const Constants& constants,
                       const Slopes& slopes, int n_registers, int n_pixels,
                       bool is_double, const std::string& instruction_set) {
    const Loaded loaded(codes, constants, slopes, n_registers, n_pixels);
    const Program& program = loaded.program;
    const Api& api = choose(instruction_set);
    const size_t cross =
        is_double ? api.cross_bytes_double(program) : api.cross_bytes_float(program);
    return loaded.n_bytes() +
           Workspace::whole(std::max(cross, api.prepare_bytes(program)));
}

// Where the numbers of a patch lie; empty if side by side.
template <class Array>
std::vector<ptrdiff_t> offsets_of(const Array& patches) {
    std::vector<ptrdiff_t> offsets;
    for (size_t c = 0; c < patches.shape(3); ++c)
        for (size_t i = 0; i < patches.shape(4); ++i)
            for (size_t j = 0; j < patches.shape(5); ++j)
                offsets.push_back(c * patches.stride(3) + i * patches.stride(4) +
                                  j * patches.stride(5));
    for (size_t k = 0; k < offsets.size(); ++k)
        if (offsets[k] != ptrdiff_t(k)) return offsets;
    return {};
}

// Write the responses of patches (n, height, width, c, h, w) of any strides to
// inducing patches, or their sums weighted by `weights`, `rows` and `columns`:
// without rows and columns all responses are written.
void patch_responses(const Patches& patches, const Matrix& inducing,
                     const Vector& centre, const Vector& scale, int covariance,
                     const Matrix& weights, const Matrix& rows, const Matrix& columns,
                     const Sums& out, const std::string& instruction_set) {
    const int n_images = count(patches.shape(0), "images");
    const int height = count(patches.shape(1), "rows of patches");
    const int width = count(patches.shape(2), "columns of patches");
    const int size = count(patches.shape(3) * patches.shape(4) * patches.shape(5),
                           "numbers of a patch");
    const int n_inducing = count(inducing.shape(0), "inducing patches");
    const int n_rows = count(rows.shape(0), "rows of places");
    const int n_columns = count(columns.shape(0), "columns of places");
    require(inducing.shape(1) == size_t(size), "inducing patches");
    require(centre.size() == size_t(size) && scale.size() == size_t(size), "scale");
    require(covariance >= 0 && covariance < N_COVARIANCES, "covariance");
    require((n_rows == 0) == (n_columns == 0), "places");
    if (n_rows)
        require(
            weights.shape(0) == size_t(height) && weights.shape(1) == size_t(width) &&
                rows.shape(1) == size_t(height) && columns.shape(1) == size_t(width),
            "weights");
    require(out.shape(0) == size_t(n_images) &&
                out.shape(1) == size_t(n_rows ? n_rows : height) &&
                out.shape(2) == size_t(n_rows ? n_columns : width) &&
                out.shape(3) == size_t(n_inducing),
            "result");
    const Api& api = choose(instruction_set);
    const std::vector<ptrdiff_t> offsets = offsets_of(patches);
    const PatchTask task{patches.data(),
                         patches.stride(0),
                         patches.stride(1),
                         patches.stride(2),
                         offsets.empty() ? nullptr : offsets.data(),
                         n_images,
                         height,
                         width,
                         size,
                         inducing.data(),
                         n_inducing,
                         centre.data(),
                         scale.data(),
                         Covariance(covariance),
                         weights.data(),
                         rows.data(),
                         columns.data(),
                         n_rows,
                         n_columns,
                         out.data()};
    nb::gil_scoped_release release;
    const Workspace workspace(api.patches_bytes(task));
    api.respond_to_patches(task, workspace.get());
}

using Matrices = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using WaveBlocks =
    nb::ndarray<const double, nb::ndim<4>, nb::c_contig, nb::device::cpu>;
using Positions =
    nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Channels = nb::ndarray<const float, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using Scattered = nb::ndarray<float, nb::ndim<4>, nb::c_contig, nb::device::cpu>;

// The tables of a scattering transform, and what is computed with them.
class ScatteringBank {
   public:
    // Padded images have as many rows and columns as `row_of` and `column_of` have
    // numbers, which say what row or column of an image each is. `rows` and `columns`
    // are the averages of each level. The wavelets of each level of spectra and each
    // scale are in the order of scales and then of levels.
    ScatteringBank(int height, int width, int n_angles, int order,
                   const Positions& row_of, const Positions& column_of,
                   const std::vector<Matrices>& rows,
                   const std::vector<Matrices>& columns,
                   const std::vector<WaveBlocks>& waves)
        : row_of_(row_of.data(), row_of.data() + row_of.size()),
          column_of_(column_of.data(), column_of.data() + column_of.size()) {
        const size_t n_scales = rows.size();
        require(n_scales > 0 && n_scales <= MAX_SCALES && columns.size() == n_scales,
                "scales");
        require(n_angles > 0 && n_angles <= LARGEST_ANGLES, "angles");
        require(order == 1 || order == 2, "order");
        require(height > 0 && width > 0 && height <= LARGEST_LENGTH &&
                    width <= LARGEST_LENGTH,
                "images");
        check(row_of_, height, n_scales);
        check(column_of_, width, n_scales);
        const int m = int(row_of_.size()), n = int(column_of_.size());
        task_.height = height;
        task_.width = width;
        task_.n_scales = int(n_scales);
        task_.n_angles = n_angles;
        task_.has_second = order == 2;
        task_.out_height = count(rows[0].shape(0), "averages");
        task_.out_width = count(columns[0].shape(0), "averages");
        require(task_.out_height > 0 && task_.out_width > 0, "averages");
        require(task_.out_height <= m && task_.out_width <= n, "averages");
        const int n_pairs = int(n_scales * (n_scales - 1)) / 2;
        task_.n_coefficients = 1 + int(n_scales) * n_angles +
                               (order == 2 ? n_angles * n_angles * n_pairs : 0);
        for (size_t level = 0; level < n_scales; ++level) {
            heights_.emplace_back(m >> level);
            widths_.emplace_back(n >> level);
            add_averages(rows_, rows[level], task_.out_height, m >> level);
            add_averages(columns_, columns[level], task_.out_width, n >> level);
        }
        add_waves(waves, m, n);
    }
    ScatteringBank(const ScatteringBank&) = delete;
    ScatteringBank& operator=(const ScatteringBank&) = delete;

    // Write the coefficients of images, which are computed in units of theirs.
    void scatter(const Channels& images, const Vector& units, const Scattered& out,
                 const std::string& instruction_set) const {
        ScatteringTask task = task_;
        require(images.shape(1) == size_t(task.height) &&
                    images.shape(2) == size_t(task.width),
                "images");
        require(units.size() == images.shape(0), "units");
        require(out.shape(0) == images.shape(0) &&
                    out.shape(1) == size_t(task.n_coefficients) &&
                    out.shape(2) == size_t(task.out_height) &&
                    out.shape(3) == size_t(task.out_width),
                "result");
        const Api& api = choose(instruction_set);
        require(api.scatter != nullptr, "instruction set");
        for (size_t level = 0; level < heights_.size(); ++level) {
            task.heights[level] = heights_[level].get();
            task.widths[level] = widths_[level].get();
            task.rows[level] = rows_[level].get();
            task.columns[level] = columns_[level].get();
            for (size_t scale = 0; scale < heights_.size(); ++scale)
                task.waves[level][scale] = waves_[level][scale].get();
        }
        task.row_of = row_of_.data();
        task.column_of = column_of_.data();
        task.images = images.data();
        task.units = units.data();
        task.n_images = count(images.shape(0), "images");
        task.out = out.data();
        nb::gil_scoped_release release;
        const Workspace workspace(api.scattering_bytes(task));
        api.scatter(task, workspace.get());
    }

   private:
    static constexpr int LARGEST_ANGLES = 64;
    ScatteringTask task_{};
    std::vector<int32_t> row_of_, column_of_;
    std::vector<Lengths> heights_, widths_;
    std::vector<WindowTable> rows_, columns_;
    Wavelets waves_[MAX_SCALES][MAX_SCALES];

    // Of the positions of padded images, whose number is split at each level.
    static void check(const std::vector<int32_t>& positions, int length,
                      size_t n_scales) {
        require(!positions.empty() && positions.size() <= size_t(LARGEST_LENGTH) &&
                    positions.size() % (size_t(1) << n_scales) == 0,
                "padded images");
        for (int32_t position : positions)
            require(position >= 0 && position < length, "positions");
    }

    static void add_averages(std::vector<WindowTable>& tables, const Matrices& weights,
                             int n_averages, int length) {
        require(weights.shape(0) == size_t(n_averages) &&
                    weights.shape(1) == size_t(length),
                "averages");
        tables.emplace_back(weights.data(), n_averages, length);
    }

    void add_waves(const std::vector<WaveBlocks>& waves, int m, int n) {
        size_t next = 0;
        for (int scale = 0; scale < task_.n_scales; ++scale)
            for (int level = 0; level < std::max(1, scale); ++level) {
                const int step = 1 << (scale - level);
                require(next < waves.size(), "wavelets");
                const WaveBlocks& own = waves[next++];
                require(own.shape(0) == size_t(step) * step &&
                            own.shape(1) == size_t(task_.n_angles) &&
                            own.shape(2) == size_t(m >> scale) &&
                            own.shape(3) == size_t(n >> scale),
                        "wavelets");
                waves_[level][scale] =
                    Wavelets(own.data(), task_.n_angles, m >> level, n >> level, step);
            }
        require(next == waves.size(), "wavelets");
    }
};

}  // namespace
}  // namespace skconvgp

NB_MODULE(_native, module) {
    using namespace skconvgp;
    using namespace nb::literals;
    module.doc() = "Covariances of networks, all layers of a pair in cache.";
    // Tables that Python caches live as long as the interpreter.
    nb::set_leak_warnings(false);
    module.def("instruction_sets", &instruction_sets);
    module.def(
        "roots", [](const std::string& name) { return choose(name).roots; },
        "instruction_set"_a);
    module.def(
        "has_scattering",
        [](const std::string& name) { return choose(name).scatter != nullptr; },
        "instruction_set"_a);
    // Arrays of another type or layout are refused: results would be written to a
    // copy.
    const auto as_is = [](const char* name) { return nb::arg(name).noconvert(); };
    module.def("table_size", &table_size, as_is("codes"), as_is("constants"),
               as_is("slopes"), "n_registers"_a, "n_pixels"_a);
    module.def("workspace_bytes", &workspace_bytes, as_is("codes"), as_is("constants"),
               as_is("slopes"), "n_registers"_a, "n_pixels"_a, "is_double"_a,
               "instruction_set"_a);
    module.def("patch_responses", &patch_responses, as_is("patches"), as_is("inducing"),
               as_is("centre"), as_is("scale"), "covariance"_a, as_is("weights"),
               as_is("rows"), as_is("columns"), as_is("out"), "instruction_set"_a);
    nb::class_<ScatteringBank>(module, "ScatteringBank")
        .def(nb::init<int, int, int, int, const Positions&, const Positions&,
                      const std::vector<Matrices>&, const std::vector<Matrices>&,
                      const std::vector<WaveBlocks>&>(),
             "height"_a, "width"_a, "n_angles"_a, "order"_a, as_is("row_of"),
             as_is("column_of"), "rows"_a, "columns"_a, "waves"_a)
        .def("scatter", &ScatteringBank::scatter, as_is("images"), as_is("units"),
             as_is("out"), "instruction_set"_a);
    const auto define = [&](auto prepare, auto cross) {
        module.def("prepare", prepare, as_is("codes"), as_is("constants"),
                   as_is("slopes"), "n_registers"_a, as_is("images"), as_is("tables"),
                   as_is("diag"), "instruction_set"_a);
        module.def("cross", cross, as_is("codes"), as_is("constants"), as_is("slopes"),
                   "n_registers"_a, "n_pixels"_a, as_is("one"), as_is("diag_one"),
                   as_is("two"), as_is("diag_two"), "upper"_a, as_is("out"),
                   "instruction_set"_a);
    };
    define(&prepare<float>, &cross<float>);
    define(&prepare<double>, &cross<double>);
}
