// The name under which a mistake is reported: a layer, a loss or an op that is made of ops with
// other names reports what these refuse under its own, which is what the program wrote.
// Header-internal. Stateless. Threads: any.
#pragma once

#include <string_view>

#include <hearth/runtime/base/error.hpp>

namespace hearth::detail {

/// Throws the mistake with this name in place of its op's.
[[noreturn]] void throw_named(const Error& mistake, std::string_view name);

/// What `fn` returns. Errors: an ArgumentError that it throws, as one of `name`.
template <class Fn>
[[nodiscard]] auto mistakes_named(std::string_view name, const Fn& fn) {
  try {
    return fn();
  } catch (const ArgumentError& mistake) {
    throw_named(mistake.error(), name);
  }
}

}  // namespace hearth::detail
