// The page of ops: a table of the public functions, which a build measures: what types each takes,
// whether it has a gradient, and which ops of the op table it is made of.
// Threads: one.
#pragma once

#include <string>
#include <string_view>

#include <hearth/runtime/runtime.hpp>

namespace hearth::docs {

/// `header`: the text of runtime/ops.hpp, and of what it takes in.
/// Errors: std::runtime_error naming a function without an example or words, and an example without
/// its function; what a call throws besides DtypeError.
[[nodiscard]] std::string op_page(const Runtime& runtime, std::string_view header);

}  // namespace hearth::docs
