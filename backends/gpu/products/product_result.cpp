// Addresses an epilogue's operands by the place of an element in the result, over merged axes, as
// pointwise kernels do. A vector of neighbours computes its place once.
#include "product_result.hpp"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include <hearth/streams/kernel/expression.hpp>

#include "backends/gpu/pointwise/pointwise.hpp"
#include "backends/gpu/text/glsl_library.hpp"
#include "backends/gpu/text/glsl_prelude.hpp"
#include "backends/gpu/text/glsl_vectors.hpp"

namespace hearth::gpu {
namespace {

bool is_vector_aligned(const TensorView& view, int width) noexcept {
  const std::int64_t bytes = std::min<std::int64_t>(16, width * size_bytes(view.dtype));
  return reinterpret_cast<std::uintptr_t>(view.data) %  // NOLINT: a device address
             static_cast<std::uintptr_t>(bytes) ==
         0;
}

// Vectors have one word or more, and at most eight elements: see glsl_vector_access().
bool is_vector(DType dtype, int width) noexcept {
  return width * size_bytes(dtype) >= 4;
}

}  // namespace

Support supports_epilogue(const KernelCall& call, const DeviceLimits& limits) {
  if (call.epilogue == nullptr) {
    return {};
  }
  const Expression& expression = *call.epilogue->expression;
  if (expression.may_fail || expression.kernel.folded != 0) {
    return {
        .yes = false,
        .reason = fmt::format("{}: an epilogue works on each element by itself, and cannot fail",
                              expression.name)};
  }
  if (call.epilogue->inputs.size() + 1 > kMostExpressionInputs) {
    return {.yes = false,
            .reason = fmt::format("{}: an epilogue of {} operands, more than {}",
                                  expression.name,
                                  call.epilogue->inputs.size(),
                                  kMostExpressionInputs - 1)};
  }
  return supports_types(expression.kernel, expression.name, limits);
}

// Phases: the operands' strides over merged axes; operands with a simpler access than strides.
ProductResult::ProductResult(const KernelCall& call,
                             DType dtype,
                             const DeviceLimits& limits) noexcept
    : call_(&call),
      dtype_(dtype),
      is_rolled_(limits.is_cpu),
      reach_(call.outputs[0].element_count()),
      space_(call.outputs[0].shape()) {
  if (!has_epilogue()) {
    return;
  }
  const std::span<const TensorView> inputs = call.epilogue->inputs;
  for (const TensorView& view : inputs) {
    space_.add(view);
  }
  space_.merge();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    reach_ = std::max(reach_, space_.reach_from_first(i));
    access_[i] = space_.is_linear(i) ? Access::linear
                 : space_.repeats(i) ? Access::cell
                                     : Access::any;
  }
}

bool ProductResult::has_strided() const noexcept {
  return has_epilogue() &&
         std::any_of(access_.begin(),
                     access_.begin() + static_cast<std::ptrdiff_t>(call_->epilogue->inputs.size()),
                     is_strided);
}

// A software driver takes long to compile conversions that stand in a text many times.
bool ProductResult::is_vector_ready(const TensorView& view, int width) const noexcept {
  return is_vector(view.dtype, width) && is_vector_aligned(view, width) &&
         (!is_rolled_ || size_bytes(view.dtype) >= 4);
}

bool ProductResult::takes_ragged(int width) const noexcept {
  const auto is_ready = [&](const TensorView& view) { return is_vector_ready(view, width); };
  if (!std::ranges::all_of(call_->outputs, is_ready)) {
    return false;
  }
  for (std::size_t i = 0; has_epilogue() && i < call_->epilogue->inputs.size(); ++i) {
    if (access_[i] == Access::linear && !is_ready(call_->epilogue->inputs[i])) {
      return false;
    }
  }
  return true;
}

bool ProductResult::takes(int width) const noexcept {
  const auto is_ready = [&](const TensorView& view) { return is_vector_ready(view, width); };
  if (!std::ranges::all_of(call_->outputs, is_ready)) {
    return false;
  }
  if (!has_epilogue()) {
    return true;
  }
  if (has_strided() && space_.inner_size() % width != 0) {
    return false;
  }
  for (std::size_t i = 0; i < call_->epilogue->inputs.size(); ++i) {
    if (access_[i] == Access::cell || (access_[i] == Access::any && space_.inner_stride(i) == 0)) {
      continue;
    }
    if (!is_ready(call_->epilogue->inputs[i])) {
      return false;
    }
    if (access_[i] == Access::any) {
      bool fits = space_.inner_stride(i) == 1;
      for (int axis = 0; axis < space_.rank - 1; ++axis) {
        fits = fits && space_.stride[i][static_cast<std::size_t>(axis)] % width == 0;
      }
      if (!fits) {
        return false;
      }
    }
  }
  return true;
}

void ProductResult::set_width(int width) noexcept {
  width_ = width;
  for (std::size_t i = 0; width > 1 && has_epilogue() && i < call_->epilogue->inputs.size(); ++i) {
    if (access_[i] == Access::any) {
      access_[i] = space_.inner_stride(i) == 0 ? Access::columns : Access::rows;
    }
  }
}

void ProductResult::add_words(KernelKey& key) const noexcept {
  key.add(static_cast<std::uint32_t>(width_) | (has_epilogue() ? 1U << 8U : 0U) |
          (is_ragged_ ? 1U << 9U : 0U) |
          static_cast<std::uint32_t>(has_epilogue() ? space_.rank : 0) << 16U);
  if (!has_epilogue()) {
    return;
  }
  std::uint64_t access = 0;
  for (std::size_t i = 0; i < call_->epilogue->inputs.size(); ++i) {
    access = access << 4U | static_cast<std::uint64_t>(access_[i]);
  }
  key.add(call_->epilogue->expression->hash).add(access);
}

// ---- parameters ----

void ProductResult::add_parameters(ParameterBlock& to, bool is_wide) const noexcept {
  for (const TensorView& view : call_->outputs) {
    to.add(view);
  }
  if (!has_epilogue()) {
    return;
  }
  const Epilogue& epilogue = *call_->epilogue;
  for (const TensorView& view : epilogue.inputs) {
    to.add(view);
  }
  const KernelIR& kernel = epilogue.expression->kernel;
  for (std::size_t i = 0; i < kernel.parameters.size(); ++i) {
    add_scalar(to, kernel.parameters[i], epilogue.parameters[i]);
  }
  for (int axis = 1; has_strided() && axis < space_.rank; ++axis) {
    const std::int64_t size = space_.size[static_cast<std::size_t>(axis)];
    if (is_wide) {
      to.add(size);
      continue;
    }
    const Divisor divisor(size);
    to.add(static_cast<std::uint32_t>(size)).add(divisor.factor).add(divisor.shift);
  }
  for (std::size_t i = 0; i < epilogue.inputs.size(); ++i) {
    for (int axis = 0; is_strided(access_[i]) && axis < space_.rank; ++axis) {
      const std::int64_t stride = space_.stride[i][static_cast<std::size_t>(axis)];
      if (is_wide) {
        to.add(stride);
      } else {
        to.add(static_cast<std::int32_t>(stride));
      }
    }
  }
}

std::string ProductResult::members(bool is_wide) const {
  std::string text;
  for (std::size_t i = 0; i < call_->outputs.size(); ++i) {
    text += fmt::format("uint64_t y{}; ", i);
  }
  if (!has_epilogue()) {
    return text;
  }
  const std::size_t inputs = call_->epilogue->inputs.size();
  for (std::size_t i = 0; i < inputs; ++i) {
    text += fmt::format("uint64_t x{}; ", i + 1);
  }
  text += glsl_parameter_members(call_->epilogue->expression->kernel);
  for (int axis = 1; has_strided() && axis < space_.rank; ++axis) {
    text += is_wide ? fmt::format("int64_t n{}; ", axis)
                    : fmt::format("uint n{0}; uint factor{0}; uint shift{0}; ", axis);
  }
  for (std::size_t i = 0; i < inputs; ++i) {
    for (int axis = 0; is_strided(access_[i]) && axis < space_.rank; ++axis) {
      text += fmt::format("{} t{}_{}; ", is_wide ? "int64_t" : "int", i + 1, axis);
    }
  }
  return text;
}

// ---- text ----

std::string ProductResult::text(bool is_wide) const {
  std::string text = fmt::format(
      "#define PUT_WIDTH {}\n#define HAS_EPILOGUE {}\n", width_, has_epilogue() ? 1 : 0);
  if (width_ > 1) {
    std::uint32_t types = 0;
    for (const TensorView& view : call_->outputs) {
      types |= 1U << static_cast<unsigned>(view.dtype);
    }
    for (std::size_t i = 0; has_epilogue() && i < call_->epilogue->inputs.size(); ++i) {
      const bool is_loaded = access_[i] == Access::linear || access_[i] == Access::rows;
      types |= is_loaded ? 1U << static_cast<unsigned>(call_->epilogue->inputs[i].dtype) : 0U;
    }
    text += glsl_vector_types();
    for (int type = 0; type < kDTypeCount; ++type) {
      if ((types >> static_cast<unsigned>(type) & 1U) != 0) {
        text += glsl_vector_access(static_cast<DType>(type), width_);
      }
    }
  }
  if (has_epilogue()) {
    return text + epilogue_text(is_wide);
  }
  const std::string_view dtype = glsl_suffix(dtype_);
  text += fmt::format(
      "FN void store_result(INDEX place, C sum) {{ store_{}(p.y0, place, sum); }}\n", dtype);
  if (width_ > 1) {
    text += fmt::format(
        "FN void store_results(INDEX place, C sums[{1}]) {{\n"
        "  store_{0}x{1}(p.y0 + uint64_t(int64_t(place)) * {2}ul, sums);\n}}\n",
        dtype,
        width_,
        size_bytes(dtype_));
  }
  return text;
}

std::string ProductResult::epilogue_text(bool is_wide) const {
  std::string text;
  if (has_strided()) {
    text += is_wide ? "" : glsl_divide();
    text += find_function(is_wide);
  }
  text += glsl_pointwise_function(call_->epilogue->expression->kernel, "epilogue");
  text += store_one();
  return width_ > 1 ? text + store_many() : text;
}

// Defines the offsets of strided operands for a place, from the innermost axis outwards.
std::string ProductResult::find_function(bool is_wide) const {
  const std::size_t inputs = call_->epilogue->inputs.size();
  std::string text = "FN void find(INDEX i";
  for (std::size_t i = 0; i < inputs; ++i) {
    text += is_strided(access_[i]) ? fmt::format(", OUT(INDEX) o{}", i + 1) : "";
  }
  text += is_wide ? ") {\nint64_t rest = i;\nint64_t next;\nint64_t at;\n"
                  : ") {\nuint rest = uint(i);\nuint next;\nuint at;\n";
  for (int axis = space_.rank - 1; axis >= 0; --axis) {
    if (axis == 0) {
      text += "at = rest;\n";
    } else {
      text += is_wide ? fmt::format("next = rest / p.n{};\n", axis)
                      : fmt::format("next = divide(rest, p.factor{0}, p.shift{0});\n", axis);
      text += fmt::format("at = rest - next * p.n{};\nrest = next;\n", axis);
    }
    for (std::size_t i = 0; i < inputs; ++i) {
      if (is_strided(access_[i])) {
        text += fmt::format("o{0} {1} INDEX(at) * p.t{0}_{2};\n",
                            i + 1,
                            axis == space_.rank - 1 ? "=" : "+=",
                            axis);
      }
    }
  }
  return text + "}\n";
}

// Declares and computes the offsets of strided operands.
std::string ProductResult::find_call(std::string_view place) const {
  if (!has_strided()) {
    return {};
  }
  std::string text;
  std::string call = fmt::format("find({}", place);
  for (std::size_t i = 0; i < call_->epilogue->inputs.size(); ++i) {
    if (is_strided(access_[i])) {
      text += fmt::format("INDEX o{};\n", i + 1);
      call += fmt::format(", o{}", i + 1);
    }
  }
  return text + call + ");\n";
}

std::string ProductResult::rounded(std::string_view sum) const {
  switch (dtype_) {
    case DType::f16:
      return fmt::format("f16_to_f32(f32_to_f16({}))", sum);
    case DType::bf16:
      return fmt::format("bf16_to_f32(f32_to_bf16({}))", sum);
    default:
      return std::string(sum);
  }
}

std::string ProductResult::store_one() const {
  const std::span<const TensorView> inputs = call_->epilogue->inputs;
  std::string text = "FN void store_result(INDEX place, C sum) {\n" + find_call("place");
  std::string call = fmt::format("epilogue({}, ", rounded("sum"));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::string at = access_[i] == Access::linear ? std::string("place")
                           : access_[i] == Access::cell ? std::string("INDEX(0)")
                                                        : fmt::format("o{}", i + 1);
    call += fmt::format("load_{}(p.x{}, {}), ", glsl_suffix(inputs[i].dtype), i + 1, at);
  }
  call += "int64_t(place)";
  std::string stores;
  for (std::size_t i = 0; i < call_->outputs.size(); ++i) {
    const DType dtype = call_->outputs[i].dtype;
    text += fmt::format("{} r{};\n", glsl_compute_type(dtype), i);
    call += fmt::format(", r{}", i);
    stores += fmt::format("store_{0}(p.y{1}, place, r{1});\n", glsl_suffix(dtype), i);
  }
  return text + call + ");\n" + stores + "}\n";
}

std::string ProductResult::store_many() const {
  const std::span<const TensorView> inputs = call_->epilogue->inputs;
  std::string text = fmt::format("FN void store_results(INDEX place, C sums[{}]) {{\n", width_) +
                     (is_ragged_ ? std::string() : find_call("place"));
  std::string call = fmt::format("epilogue({}, ", rounded("sums[k]"));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const DType dtype = inputs[i].dtype;
    const std::string_view type = glsl_compute_type(dtype);
    if (is_ragged_ && is_strided(access_[i])) {
      call += fmt::format("load_{}(p.x{}, o{}), ", glsl_suffix(dtype), i + 1, i + 1);
      continue;
    }
    if (access_[i] == Access::cell || access_[i] == Access::columns) {
      text += fmt::format("const {} a{} = load_{}(p.x{}, {});\n",
                          type,
                          i + 1,
                          glsl_suffix(dtype),
                          i + 1,
                          access_[i] == Access::cell ? "INDEX(0)" : fmt::format("o{}", i + 1));
      call += fmt::format("a{}, ", i + 1);
      continue;
    }
    text +=
        fmt::format("{0} a{1}[{2}];\nload_{3}x{2}(p.x{1} + uint64_t(int64_t({4}) * {5}l), a{1});\n",
                    type,
                    i + 1,
                    width_,
                    glsl_suffix(dtype),
                    access_[i] == Access::linear ? "place" : fmt::format("o{}", i + 1),
                    size_bytes(dtype));
    call += fmt::format("a{}[k], ", i + 1);
  }
  call += "int64_t(place) + k";
  std::string stores;
  for (std::size_t i = 0; i < call_->outputs.size(); ++i) {
    const DType dtype = call_->outputs[i].dtype;
    text += fmt::format("{} r{}[{}];\n", glsl_compute_type(dtype), i, width_);
    call += fmt::format(", r{}[k]", i);
    stores += fmt::format("store_{0}x{1}(p.y{2} + uint64_t(int64_t(place)) * {3}ul, r{2});\n",
                          glsl_suffix(dtype),
                          width_,
                          i,
                          size_bytes(dtype));
  }
  return text + fmt::format("{} for (int k = 0; k < {}; ++k) {{\n{}{});\n}}\n{}}}\n",
                            is_rolled_ ? "ROLLED" : "UNROLLED",
                            width_,
                            is_ragged_ ? find_call("place + INDEX(k)") : std::string(),
                            call,
                            stores);
}

}  // namespace hearth::gpu
