// Renames errors of composed functions. A layer, loss or op that is made of other ops reports their
// errors under its own name, which the program wrote. Header-internal. Stateless. Threads: any.
#pragma once

#include <string_view>

#include <hearth/runtime/base/error.hpp>

namespace hearth::detail {

/// Throws the mistake with this name in place of its op's.
[[noreturn]] void throw_named(const Error& mistake, std::string_view name);

/// Calls `fn` and returns its result. Errors: an ArgumentError from `fn`, renamed to `name`.
template <class Fn>
[[nodiscard]] auto mistakes_named(std::string_view name, const Fn& fn) {
  try {
    return fn();
  } catch (const ArgumentError& mistake) {
    throw_named(mistake.error(), name);
  }
}

}  // namespace hearth::detail
