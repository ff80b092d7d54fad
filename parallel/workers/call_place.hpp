// Adds the program's source line and the public function's name to errors from threads and parts
// that know neither. Header-internal.
// Stateless. Threads: any.
#pragma once

#include <hearth/runtime/base/error.hpp>
#include <hearth/runtime/base/source_loc.hpp>

#include <memory>
#include <string_view>
#include <utility>

namespace hearth::detail {

/// Returns the error; sets its location to `where` if it has none.
[[nodiscard]] inline ErrorRef placed(const ErrorRef& error, SourceLoc where) {
  if (!error || error->location.line != 0 || where.line == 0) {
    return error;
  }
  Error copy = *error;
  copy.location = where;
  return std::make_shared<const Error>(std::move(copy));
}

/// Returns fn(). An error that fn throws without a location gets the location `where`.
template <class Fn>
auto at_call(SourceLoc where, Fn&& fn) {
  try {
    return std::forward<Fn>(fn)();
  } catch (const Exception& exception) {
    const ErrorRef error = placed(exception.shared_error(), where);
    if (error == exception.shared_error()) {
      throw;
    }
    throw_error(error);
  }
}

/// Returns fn(). An error that fn throws in the name of DataParallel is renamed to Trainer, the
/// class that the program uses.
template <class Fn>
auto in_trainers_name(Fn&& fn) {
  constexpr std::string_view kInner = "DataParallel";
  constexpr std::string_view kOuter = "Trainer";
  try {
    return std::forward<Fn>(fn)();
  } catch (const Exception& exception) {
    if (exception.error().op != kInner) {
      throw;
    }
    Error error = exception.error();
    error.op = kOuter;
    if (error.text.starts_with(kInner)) {
      error.text.replace(0, kInner.size(), kOuter);
    }
    throw_error(std::move(error));
  }
}

}  // namespace hearth::detail
