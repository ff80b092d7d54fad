// Several neighbouring elements at a time, by loads and stores of up to 16 bytes. Text for shaders,
// behind the prelude. Pure. Threads: any.
//   load_f16x8(address, x)    x[0] … x[7], of the compute type, from there
//   store_f16x8(address, y)
// The address is a multiple of 16, or of the bytes of all if those are fewer.
#pragma once

#include <string>
#include <string_view>

#include <hearth/runtime/base/dtype.hpp>

namespace hearth {

/// What all access functions need; stands before them once.
[[nodiscard]] std::string_view glsl_vector_types() noexcept;

/// The two functions of one type; `elements` is a power of two, and all have 4 bytes or more.
[[nodiscard]] std::string glsl_vector_access(DType dtype, int elements);

}  // namespace hearth
