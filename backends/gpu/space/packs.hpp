// Packs: contiguous elements that are read and written at once, up to 16 bytes. GLSL behind the
// prelude. Pure functions. Threads: any.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <hearth/runtime/base/dtype.hpp>

namespace hearth::gpu {

/// The type of an element in a kernel's registers: the prelude's, except uint for bool, 0 or 1.
[[nodiscard]] std::string_view glsl_value_type(DType dtype) noexcept;

/// Number of elements of `dtype` in 16 bytes, at most `most`.
[[nodiscard]] std::int64_t pack_of(DType dtype, std::int64_t most) noexcept;

/// True if the address is aligned to packs of `pack` elements.
[[nodiscard]] bool is_pack_aligned(const void* address, DType dtype, std::int64_t pack) noexcept;

/// Declares two functions, with VALUE = glsl_value_type(dtype):
///     void load_pack_<name>(uint64_t a, INDEX i, out VALUE v[pack])
///     void store_pack_<name>(uint64_t a, INDEX i, VALUE v[pack])
/// Requires that i is a multiple of `pack`, and a of the pack's bytes. A pack of 1 is an element.
[[nodiscard]] std::string glsl_pack(std::string_view name,
                                    DType dtype,
                                    std::int64_t pack,
                                    bool wide);

/// The lowest and the highest value of glsl_value_type(dtype), infinite for floats.
[[nodiscard]] std::string_view glsl_lowest(DType dtype) noexcept;
[[nodiscard]] std::string_view glsl_highest(DType dtype) noexcept;

}  // namespace hearth::gpu
