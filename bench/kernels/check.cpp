#include "check.hpp"

#include <hearth/backends/reference/reference.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>

#include <fmt/format.h>

namespace hearth::bench {
namespace {

using detail::Candidate;

constexpr double kMostReferenceWork = 2e8;  // some seconds: the reference is plain loops in f64
constexpr std::int64_t kLeastLines = 4;

/// The axis along which a call is cut: of its first result, and of each input (-1: not cut).
struct Cut {
  int output = 0;
  std::array<int, kMostExpressionInputs> inputs{};
};

// Axes whose elements depend on no other elements of the axis.
std::optional<Cut> cut_of(const Problem& problem) {
  const int rank = problem.outputs[0].shape.rank();
  if (rank == 0) {
    return {};
  }
  Cut cut;
  cut.inputs.fill(-1);
  switch (problem.kind) {
    case OpKind::matmul:
      cut.output = rank - 2;
      cut.inputs.at(0) = rank - 2;
      return cut;
    case OpKind::conv2d:
    case OpKind::conv2d_backward_input:
    case OpKind::max_pool2d:
    case OpKind::avg_pool2d:
      cut.inputs.at(0) = 0;
      return cut;
    case OpKind::conv2d_backward_weight:
      if (problem.outputs[0].shape[1] != problem.inputs[0].shape[1]) {
        return {};  // in groups
      }
      cut.inputs.at(1) = 1;
      return cut;
    case OpKind::index_select:
      cut.inputs.at(1) = 0;
      return cut;
    case OpKind::attention:
      cut.output = 1;
      cut.inputs.fill(1);
      return cut;
    case OpKind::copy:
    case OpKind::expression:
      cut.inputs.fill(0);
      return cut;
    default:
      break;
  }
  const OpClass group = op_info(problem.kind).op_class;
  if (group == OpClass::unary || group == OpClass::binary) {
    cut.inputs.fill(0);
    return cut;
  }
  return {};
}

/// A view of every `step`-th index along an axis, up to the last one.
struct Thinned {
  detail::Layout layout;
  TensorView view;

  Thinned(const TensorView& whole, int axis, std::int64_t step) : view(whole) {
    if (axis < 0) {
      layout = *whole.layout;
    } else {
      const std::int64_t size = whole.shape()[axis];
      const std::int64_t count = (size + step - 1) / step;
      const std::int64_t first = size - 1 - (count - 1) * step;
      Shape shape = whole.shape();
      shape.set(axis, count);
      Strides strides = whole.strides();
      auto& stride = strides[static_cast<std::size_t>(axis)];
      view.data += first * stride * size_bytes(whole.dtype);
      stride *= step;
      layout = detail::Layout(shape, strides);
    }
  }
};

double value_of(const std::byte* at, DType dtype) noexcept {
  return visit_dtype(dtype, [&](auto zero) {
    using T = decltype(zero);
    T value;
    std::memcpy(&value, at, sizeof(T));
    if constexpr (requires { value.bits; }) {
      return static_cast<double>(static_cast<float>(value));
    } else {
      return static_cast<double>(value);
    }
  });
}

/// Calls fn(offset in elements) for each element, in row-major order; stops when it returns false.
template <class Fn>
void for_each_offset(const detail::Layout& layout, const Fn& fn) {
  std::array<std::int64_t, kMaxRank> index{};
  for (std::int64_t i = 0; i < layout.shape.element_count(); ++i) {
    std::int64_t offset = 0;
    for (int axis = 0; axis < layout.shape.rank(); ++axis) {
      const auto a = static_cast<std::size_t>(axis);
      offset += index[a] * layout.strides[a];
    }
    if (!fn(offset)) {
      return;
    }
    for (int axis = layout.shape.rank() - 1; axis >= 0; --axis) {
      const auto a = static_cast<std::size_t>(axis);
      if (++index[a] < layout.shape[axis]) {
        break;
      }
      index[a] = 0;
    }
  }
}

/// Returns the first difference; empty if there is none. `got` has the whole result's layout.
std::string difference(const Thinned& got,
                       const std::vector<std::byte>& expected,
                       DType dtype,
                       const Problem& problem) {
  const testing::Tolerance tolerance =
      testing::tolerance(problem.precision, dtype, problem.length, 1.0);
  std::string text;
  std::int64_t place = 0;
  for_each_offset(got.layout, [&](std::int64_t offset) {
    const double is = value_of(got.view.data + offset * size_bytes(dtype), dtype);
    const double should = value_of(expected.data() + place * size_bytes(dtype), dtype);
    if (!tolerance.accepts(is, should)) {
      text = fmt::format("element {} is {:.7g}, the reference has {:.7g}", place, is, should);
    }
    ++place;
    return text.empty();
  });
  return text;
}

}  // namespace

// Phases: the step of the cut by the reference's work; the thinned call on host memory; the
// comparison of its result with that of the device.
Result<Checked> check_reference(Operands& operands,
                                const Problem& problem,
                                const Operands::Results& results) {
  if (problem.custom != nullptr) {
    return Checked{.text = "no reference"};
  }
  const KernelCall whole = operands.host_call();
  const OperandSpec& result = problem.outputs[0];
  std::int64_t count = 0;
  for (const OperandSpec& each : problem.inputs) {
    count += each.shape.element_count();
  }
  count += result.shape.element_count();
  const double work = std::max(problem.cost.flops, 8 * static_cast<double>(count));
  const std::optional<Cut> cut = cut_of(problem);
  std::int64_t step = 1;
  if (cut && work > kMostReferenceWork) {
    const std::int64_t size = result.shape[cut->output];
    const auto wanted = static_cast<std::int64_t>(std::ceil(work / kMostReferenceWork));
    step = std::clamp<std::int64_t>(wanted, 1, std::max<std::int64_t>(size / kLeastLines, 1));
  }
  if (step == 1 && work > 20 * kMostReferenceWork) {
    return Checked{.text = "too large for the reference"};
  }
  std::vector<std::unique_ptr<Thinned>> inputs;
  std::vector<TensorView> views;
  for (std::size_t i = 0; i < whole.inputs.size(); ++i) {
    inputs.push_back(std::make_unique<Thinned>(whole.inputs[i], cut ? cut->inputs[i] : -1, step));
    inputs.back()->view.layout = &inputs.back()->layout;
    views.push_back(inputs.back()->view);
  }
  TensorView on_device{.layout = whole.outputs[0].layout, .dtype = result.dtype};
  on_device.data = const_cast<std::byte*>(operands.output(results, 0).data());  // NOLINT: read only
  const Thinned got(on_device, cut ? cut->output : -1, step);
  const detail::Layout dense(got.layout.shape);
  std::vector<std::byte> expected(
      static_cast<std::size_t>(dense.shape.element_count() * size_bytes(result.dtype)));
  const TensorView output{.data = expected.data(), .layout = &dense, .dtype = result.dtype};
  KernelCall call = whole;
  call.inputs = views;
  call.outputs = {&output, 1};
  Epilogue epilogue;
  if (whole.epilogue != nullptr) {
    epilogue = *whole.epilogue;
    epilogue.result = &dense;
    call.epilogue = &epilogue;
  }
  HEARTH_TRY_STATUS(reference::evaluate(call));
  const std::string wrong = difference(got, expected, result.dtype, problem);
  if (!wrong.empty()) {
    return Checked{.is_right = false, .text = wrong};
  }
  return Checked{.text = step == 1 ? "reference"
                                   : fmt::format("reference, {} of {}",
                                                 dense.shape[cut->output],
                                                 result.shape[cut->output])};
}

namespace {

/// Runs one candidate on set 0 after clearing the results.
Result<Operands::Results> run_once(BenchDevice& device,
                                   Operands& operands,
                                   detail::CandidateId pick) {
  HEARTH_TRY_STATUS(operands.clear_results());
  HEARTH_TRY_STATUS(device.run(operands.call(0), pick));
  return operands.results();
}

bool have_equal_bytes(const Operands& operands,
                      const Problem& problem,
                      const Operands::Results& a,
                      const Operands::Results& b) {
  for (std::size_t i = 0; i < problem.outputs.size(); ++i) {
    if (!are_equal(operands.output(a, i), operands.output(b, i), problem.outputs[i].dtype)) {
      return false;
    }
  }
  return true;
}

void add_text(Checked& checked, const std::string& text) {
  checked.text += checked.text.empty() ? text : ", " + text;
}

}  // namespace

// The rule runs anew on each set of data. Its results are copied out before a candidate runs: one
// that writes out of bounds may hit anything in its page.
Result<std::vector<Checked>> check_candidates(BenchDevice& device,
                                              Operands& operands,
                                              const Problem& problem,
                                              std::span<const Candidate> candidates) {
  std::vector<Checked> all(candidates.size());
  constexpr std::array kData{Data::special, Data::one_hot, Data::uniform};
  for (const Data data : kData) {
    HEARTH_TRY_STATUS(operands.fill(data));
    HEARTH_TRY(const Operands::Results expected, run_once(device, operands, candidates[0].id));
    const bool is_last = data == kData.back();
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      Checked& checked = all[i];
      if (!checked.is_right || checked.is_refused) {
        continue;
      }
      Operands::Results got = expected;
      if (i > 0) {
        const Result<Operands::Results> ran = run_once(device, operands, candidates[i].id);
        if (!ran.has_value()) {
          const bool is_refused = ran.error().code == ErrorCode::unsupported;
          checked = {.is_right = is_refused, .is_refused = is_refused, .text = ran.error().text};
          continue;
        }
        got = ran.value();
      }
      const bool is_of_class = candidates[i].bits == candidates[0].bits;
      if (got.has_broken_guard) {
        checked = {.is_right = false, .text = "writes out of the bounds of its result"};
      } else if (i > 0 && is_of_class && !have_equal_bytes(operands, problem, got, expected)) {
        checked = {.is_right = false, .text = "other bytes than the rule"};
      } else if (is_last && (i == 0 || !is_of_class)) {
        HEARTH_TRY(checked, check_reference(operands, problem, got));
      } else if (is_last) {
        add_text(checked, fmt::format("equal bytes, {} sets", kData.size()));
      }
    }
  }
  return all;
}

}  // namespace hearth::bench
