// Kernels of `hearth-bench kernel`: shared objects, C++ and GLSL files, and expressions as text.
// Values that own what they loaded. Threads: one at a time.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <hearth/runtime/base/custom_code.hpp>
#include <hearth/runtime/base/result.hpp>

#include "problem.hpp"

namespace hearth::bench {

/// An operand by its name: "x:f32[4096,4096]".
struct NamedOperand {
  std::string name;
  OperandSpec spec;
};
/// Errors: invalid_argument.
[[nodiscard]] Result<NamedOperand> parse_operand(const std::string& text);

struct KernelRequest {
  std::vector<NamedOperand> inputs = {};
  std::vector<NamedOperand> outputs = {};  ///< Empty: one like the first input, called y.
  std::vector<std::string> defines = {};   ///< "TILE=64"
  int threads = 256;                       ///< GLSL: of a workgroup.
  double bytes = 0;                        ///< Moved by one run; 0: inputs and outputs.
  double flops = 0;                        ///< Operations of one run; 0: unknown.
};

/// Returns the text of hearth_kernel.h.
[[nodiscard]] std::string_view kernel_header() noexcept;

class KernelFile final {
 public:
  /// Loads `source`: FILE.so by dlopen, FILE.cpp, .cc or .c by the compiler ($CXX, else c++, with
  /// -O3 -march=native) and dlopen, FILE.glsl or .comp as text. Any other text is an expression of
  /// the inputs.
  ///
  /// Errors: not_found; invalid_argument with the compiler's or the loader's message.
  [[nodiscard]] static Result<KernelFile> load(const std::string& source,
                                               const KernelRequest& request);

  [[nodiscard]] const Problem& problem() const noexcept { return problem_; }

 private:
  Problem problem_;
  std::shared_ptr<CustomCode> code_;
  std::shared_ptr<void> library_;
};

}  // namespace hearth::bench
