// Scattering coefficients of images. A workspace is aligned to 64 bytes.
#pragma once

#include <cstddef>

namespace skconvgp {

struct ScatteringTask;

namespace SKCONVGP_ISA {

size_t scattering_bytes(const ScatteringTask&);
void scatter(const ScatteringTask&, void* workspace);

}  // namespace SKCONVGP_ISA
}  // namespace skconvgp
