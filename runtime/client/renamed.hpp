// Renames an error's op to the function that the program called. Private to runtime. Stateless.
// Threads: any.
#pragma once

#include <string_view>
#include <utility>

#include <hearth/runtime/base/error.hpp>

namespace hearth {

/// Sets the error's op to `called`, also at the start of its text where that begins with `op`.
[[nodiscard]] inline Error renamed(Error error, std::string_view op, std::string_view called) {
  if (op != called && error.text.starts_with(op) && error.text.substr(op.size(), 2) == ": ") {
    error.text.replace(0, op.size(), called);
  }
  error.op = called;
  return error;
}

}  // namespace hearth
