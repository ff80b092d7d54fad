// Accesses several neighbouring elements at a time, by loads and stores of up to 16 bytes. Text for
// shaders, behind the prelude. Pure. Threads: any.
//   load_f16x8(address, x)    sets x[0] … x[7], of the compute type
//   store_f16x8(address, y)
// The address is a multiple of 16, or of the size of the whole vector if that is smaller.
#pragma once

#include <string>
#include <string_view>

#include <hearth/runtime/base/dtype.hpp>

namespace hearth::gpu {

/// Types that all access functions need; stands before them once.
[[nodiscard]] std::string_view glsl_vector_types() noexcept;

/// The load and store of one type. `elements` is a power of two, and the vector has 4 bytes or
/// more.
[[nodiscard]] std::string glsl_vector_access(DType dtype, int elements);

}  // namespace hearth::gpu
