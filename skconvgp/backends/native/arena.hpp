// Memory of one call. The same code first counts the bytes, then hands them out.
#pragma once

#include <cstddef>

namespace skconvgp {
namespace SKCONVGP_ISA {

// Hands out pieces of a workspace; with a null start it only counts.
struct Arena {
    char* start;
    size_t used;
    template <class V>
    V* take(size_t n) {
        V* piece = (V*)(start + used);
        used += (n * sizeof(V) + 63) / 64 * 64;
        return start ? piece : nullptr;
    }
};

}  // namespace SKCONVGP_ISA
}  // namespace skconvgp
