// The page of ops: a table of the public functions that a build measures: the accepted types,
// whether the function has a gradient, and the ops of the op table that it consists of.
// Threads: one.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include <hearth/runtime/runtime.hpp>

namespace hearth::docs {

/// A header beside ops.hpp that declares ops, and the title of its part of the page.
struct OpSection {
  std::string_view title;
  std::string_view header;
};
inline constexpr std::array kOpSections{
    OpSection{"activations", "runtime/activation_ops.hpp"},
    OpSection{"functions of numbers", "runtime/math_ops.hpp"},
    OpSection{"windows", "runtime/window_ops.hpp"},
    OpSection{"resampling", "runtime/resample_ops.hpp"},
    OpSection{"selection and order", "runtime/selection_ops.hpp"},
    OpSection{"matrices and grids", "runtime/matrix_ops.hpp"},
    OpSection{"linear algebra", "runtime/linalg_ops.hpp"},
    OpSection{"Fourier transforms", "runtime/fourier_ops.hpp"},
    OpSection{"norms and distances", "runtime/distance_ops.hpp"},
    OpSection{"vision", "runtime/vision_ops.hpp"},
    OpSection{"losses", "runtime/losses.hpp"},
    OpSection{"losses of sequences", "runtime/sequence_losses.hpp"},
    OpSection{"losses of embeddings", "runtime/metric_losses.hpp"},
};

/// The text of the page. `header`: the text of runtime/ops.hpp and of the headers that it includes.
///
/// Errors: std::runtime_error naming a function without an example or a description, and an example
/// without its function; any exception of a call other than DtypeError.
[[nodiscard]] std::string op_page(const Runtime& runtime, std::string_view header);

}  // namespace hearth::docs
