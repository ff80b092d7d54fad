// Memory of the program itself, in sizes that a user's call or a file determines: values to and
// from tensors, file contents, recordings. If the machine has none left, the caller gets the
// library's error with the bytes and the op, not std::bad_alloc. Memory that the machine would
// grant but could not fill counts as none left.
// Stateless. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <span>
#include <string_view>
#include <vector>

#include <hearth/runtime/base/machine_memory.hpp>
#include <hearth/runtime/base/result.hpp>
#include <hearth/runtime/base/source_loc.hpp>

namespace hearth {

/// Limit that no 64-bit process can address. Larger requests are refused without an allocation,
/// because memory checkers end the program on them.
inline constexpr std::size_t kMostHostBytes = std::size_t{1} << 47U;

namespace detail {
/// Returns "to_vector: no host memory for 4503599627370496 bytes"; code out_of_memory.
[[nodiscard]] Error no_host_memory(std::string_view op, std::size_t size_bytes, SourceLoc loc = {});

/// Runs `fill`, which allocates `count` elements.
///
/// Errors: out_of_memory.
template <class T, class Fill>
[[nodiscard]] Status on_host(std::size_t count, std::string_view op, SourceLoc loc, Fill fill) {
  constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();
  const std::size_t size_bytes = count > kAll / sizeof(T) ? kAll : count * sizeof(T);
  if (size_bytes > kMostHostBytes || !has_host_room(static_cast<std::int64_t>(size_bytes))) {
    return no_host_memory(op, size_bytes, loc);
  }
  try {
    fill();
  } catch (const std::bad_alloc&) {
    return no_host_memory(op, size_bytes, loc);
  }
  return {};
}
}  // namespace detail

/// Resizes `values` to `count` elements; new ones are zero.
///
/// Errors: out_of_memory; then `values` is unchanged.
template <class T>
[[nodiscard]] Status resize_on_host(std::vector<T>& values,
                                    std::size_t count,
                                    std::string_view op,
                                    SourceLoc loc = {}) {
  return detail::on_host<T>(count, op, loc, [&] { values.resize(count); });
}
/// Returns `count` zeros.
///
/// Errors: out_of_memory.
template <class T>
[[nodiscard]] Result<std::vector<T>> host_vector(std::size_t count,
                                                 std::string_view op,
                                                 SourceLoc loc = {}) {
  std::vector<T> values;
  HEARTH_TRY_STATUS(resize_on_host(values, count, op, loc));
  return values;
}
/// Copies the elements.
///
/// Errors: out_of_memory.
template <class T>
[[nodiscard]] Result<std::vector<T>> host_copy(std::span<const T> from,
                                               std::string_view op,
                                               SourceLoc loc = {}) {
  std::vector<T> values;
  HEARTH_TRY_STATUS(
      detail::on_host<T>(from.size(), op, loc, [&] { values.assign(from.begin(), from.end()); }));
  return values;
}

}  // namespace hearth
