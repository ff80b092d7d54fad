#include "runner.hpp"

#include "device_mirror.hpp"
#include "prepared_call.hpp"

#include "tests/support/run_call.hpp"

#include <hearth/backends/reference/reference.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace hearth::conformance {
namespace {

constexpr std::size_t kKeptTexts = 12;
constexpr std::int64_t kLargeElements = 20'000;
constexpr std::size_t kInputsAlone = 4;  ///< Only the first few of a concat of many.

// Large calls test how work is split, which does not depend on the type: one type of each kind is
// enough.
bool is_large_type(OpKind kind, DType dtype) {
  return (kind == OpKind::matmul && dtype == DType::i8) || dtype == DType::f32 ||
         dtype == DType::bf16 || dtype == DType::i64 || dtype == DType::boolean;
}

using Layouts = std::vector<LayoutKind>;

std::int64_t largest_input(const CallSpec& spec) {
  std::int64_t largest = 0;
  for (const InputSpec& input : spec.inputs) {
    largest = std::max(largest, input.shape.element_count());
  }
  return largest;
}

/// All inputs dense; then, for each other layout, each input alone and all inputs together. Large
/// calls get only the dense layouts and all inputs transposed.
std::vector<Layouts> layouts_of(const CallSpec& spec) {
  const std::size_t count = spec.inputs.size();
  const bool is_large = largest_input(spec) > kLargeElements;
  std::vector<Layouts> all{Layouts(count, LayoutKind::dense)};
  for (const LayoutKind kind : kLayoutKinds) {
    if (kind == LayoutKind::dense || (is_large && kind != LayoutKind::transposed)) {
      continue;
    }
    Layouts together(count, LayoutKind::dense);
    std::size_t changed = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (!is_distinct(kind, spec.inputs[i].shape)) {
        continue;
      }
      together[i] = kind;
      ++changed;
      if (!is_large && i < kInputsAlone) {
        Layouts alone(count, LayoutKind::dense);
        alone[i] = kind;
        all.push_back(std::move(alone));
      }
    }
    if (changed > 1 || (is_large && changed == 1)) {
      all.push_back(std::move(together));
    }
  }
  return all;
}

struct OutputCheck {
  DType dtype;
  testing::Tolerance tolerance;
  bool has_signed_zeros;  ///< Zeros must agree in their sign.

  [[nodiscard]] bool accepts(const Number& got, const Number& want) const {
    if (!is_float(dtype)) {
      return got.integer == want.integer;
    }
    const bool is_other_zero =
        got.real == 0 && want.real == 0 && std::signbit(got.real) != std::signbit(want.real);
    return tolerance.accepts(got.real, want.real) && !(has_signed_zeros && is_other_zero);
  }
};

/// The first difference between two outputs as text; empty if there is none.
std::string difference(const OutputCheck& check,
                       const std::vector<Number>& got,
                       const std::vector<Number>& want) {
  std::size_t wrong = 0;
  std::string first;
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (!check.accepts(got[i], want[i]) && wrong++ == 0) {
      first =
          is_float(check.dtype)
              ? fmt::format(
                    "element {} is {:.9g}, expected {:.9g} (tolerance {:.3g} relative + {:.3g})",
                    i,
                    got[i].real,
                    want[i].real,
                    check.tolerance.relative,
                    check.tolerance.absolute)
              : fmt::format("element {} is {}, expected {}", i, got[i].integer, want[i].integer);
    }
  }
  return wrong == 0 ? first
                    : fmt::format("{} of {} elements differ; {}", wrong, want.size(), first);
}

class CaseRun {
 public:
  CaseRun(const Target& target, const OpCase& op_case, bool is_dense)
      : target_(target), case_(op_case), is_dense_(is_dense) {}

  Report run() {
    if (target_.precompile) {
      for_each_call([this](const CallSpec& spec, DType dtype) { announce(spec, dtype); });
    }
    for_each_call([this](const CallSpec& spec, DType dtype) { run_call(spec, dtype); });
    return std::move(report_);
  }

 private:
  template <class Body>
  void for_each_call(Body body) const {
    for (const DType dtype : case_.dtypes()) {
      for (const CallSpec& spec : case_.calls) {
        const bool is_left_out =
            largest_input(spec) > kLargeElements && !is_large_type(case_.kind, dtype);
        if ((spec.dtypes & dtype_bit(dtype)) != 0 && !is_left_out) {
          body(spec, dtype);
        }
      }
    }
  }

  std::vector<Layouts> chosen_layouts(const CallSpec& spec) const {
    std::vector<Layouts> all = layouts_of(spec);
    all.resize(is_dense_ ? 1 : all.size());  // the first is dense
    return all;
  }

  void announce(const CallSpec& spec, DType dtype) const {
    for (const Layouts& layouts : chosen_layouts(spec)) {
      target_.precompile(PreparedCall(case_.kind, spec, dtype, layouts).call());
    }
  }

  void run_call(const CallSpec& spec, DType dtype) {
    std::vector<std::vector<Number>> dense;
    for (const Layouts& layouts : chosen_layouts(spec)) {
      PreparedCall prepared(case_.kind, spec, dtype, layouts);
      if (prepared.has_repeats()) {
        check(spec, prepared, oracle(spec, dtype, layouts));
        continue;
      }
      if (dense.empty()) {
        dense = oracle(spec, dtype, layouts);
      }
      check(spec, prepared, dense);
    }
    for (const auto& pairs : aliasings(spec, dtype)) {
      PreparedCall prepared(case_.kind, spec, dtype);
      for (const auto& [output, input] : pairs) {
        prepared.alias(output, input);
      }
      check(spec, prepared, dense);
      ++report_.aliased;
    }
  }

  std::vector<std::vector<Number>> oracle(const CallSpec& spec,
                                          DType dtype,
                                          const Layouts& layouts) {
    PreparedCall prepared(case_.kind, spec, dtype, layouts);
    const Status status = reference::evaluate(prepared.call());
    std::vector<std::vector<Number>> out;
    for (std::size_t i = 0; i < spec.outputs.size(); ++i) {
      out.push_back(prepared.output_values(static_cast<int>(i)));
    }
    if (!status.has_value()) {
      fail(prepared, "the oracle failed: " + status.error().to_string());
    }
    return out;
  }

  /// The in-place variants: output 0 over each input that the target allows, and an optimizer's
  /// whole state over itself.
  std::vector<std::vector<std::pair<int, int>>> aliasings(const CallSpec& spec, DType dtype) const {
    std::vector<std::vector<std::pair<int, int>>> all;
    const auto fits = [&](std::size_t output, std::size_t input) {
      return spec.outputs[output].shape == spec.inputs[input].shape &&
             spec.outputs[output].dtype.value_or(dtype) ==
                 spec.inputs[input].dtype.value_or(dtype) &&
             target_.may_alias(case_.kind, static_cast<int>(input));
    };
    for (std::size_t input = 0; input < spec.inputs.size(); ++input) {
      if (fits(0, input)) {
        all.push_back({{0, static_cast<int>(input)}});
      }
    }
    if (op_info(case_.kind).op_class == OpClass::optimizer && fits(0, 0)) {
      std::vector<std::pair<int, int>> state{{0, 0}};
      for (std::size_t output = 1; output < spec.outputs.size(); ++output) {
        state.emplace_back(static_cast<int>(output),
                           static_cast<int>(output) + 1);  // after the gradient
      }
      all.push_back(state);
    }
    return all;
  }

  void check(const CallSpec& spec,
             const PreparedCall& prepared,
             const std::vector<std::vector<Number>>& want) {
    const Support support = target_.supports(prepared.call());
    if (!support.yes) {
      ++report_.unsupported;
      if (support.reason.empty()) {
        fail(prepared, "refused without a reason");
      } else if (report_.refusals.size() < kKeptTexts) {
        report_.refusals.push_back(prepared.to_string() + ": " + support.reason);
      }
      return;
    }
    std::vector<std::vector<std::byte>> before;
    for (const CaseTensor& input : prepared.inputs()) {
      before.emplace_back(input.bytes().begin(), input.bytes().end());
    }
    ++report_.calls;
    if (const Status status = target_.submit(prepared.call()); !status.has_value()) {
      fail(prepared, status.error().to_string());
      return;
    }
    for (std::size_t i = 0; i < before.size(); ++i) {
      const CaseTensor& input = prepared.inputs()[i];
      if (prepared.is_aliased(static_cast<int>(i))
              ? !input.margins_are_whole()
              : !std::ranges::equal(before[i], input.bytes())) {
        fail(prepared, fmt::format("wrote into input {}", i));
      }
    }
    for (std::size_t i = 0; i < spec.outputs.size(); ++i) {
      check_output(spec, prepared, i, want[i]);
    }
  }

  void check_output(const CallSpec& spec,
                    const PreparedCall& prepared,
                    std::size_t i,
                    const std::vector<Number>& want) {
    if (!prepared.outputs()[i].margins_are_whole()) {
      fail(prepared, fmt::format("wrote outside output {}", i));
    }
    const DType dtype = prepared.call().outputs[i].dtype;
    const testing::Precision precision = spec.outputs[i].precision.value_or(case_.precision);
    // Equal terms round in one direction, so the error grows with the square of their number; this
    // allows a quarter of the bound for a sum in order.
    const double length =
        prepared.has_repeats() ? spec.length * (1 + spec.length / 16) : spec.length;
    const std::string text =
        difference({.dtype = dtype,
                    .tolerance = testing::tolerance(precision, dtype, length, spec.term),
                    .has_signed_zeros = precision != testing::Precision::sum &&
                                        precision != testing::Precision::normal},
                   prepared.output_values(static_cast<int>(i)),
                   want);
    if (!text.empty()) {
      fail(prepared, fmt::format("output {}: {}", i, text));
    }
  }

  void fail(const PreparedCall& prepared, const std::string& text) {
    ++report_.failed;
    if (report_.failures.size() < kKeptTexts) {
      report_.failures.push_back(prepared.to_string() + ": " + text);
    }
  }

  const Target& target_;
  const OpCase& case_;
  bool is_dense_;
  Report report_;
};

}  // namespace

Target target_of(Backend& backend) {
  const KernelFacts& facts = backend.facts();
  return {.supports = [&backend](const KernelCall& call) { return backend.supports(call); },
          .submit =
              [&backend](const KernelCall& call) {
                return backend.info().has_host_memory ? testing::run_call(backend, call)
                                                      : testing::run_mirrored(backend, call);
              },
          .may_alias = [&facts](OpKind kind, int input) { return facts.may_alias(kind, input); }};
}

Target precompiling_target_of(Backend& backend) {
  Target target = target_of(backend);
  target.precompile = [&backend](const KernelCall& call) { backend.kernels().precompile(call); };
  return target;
}

std::string Report::to_string() const {
  std::string text = fmt::format("{} calls, {} of them in place, {} unsupported, {} failed",
                                 calls,
                                 aliased,
                                 unsupported,
                                 failed);
  for (const std::string& failure : failures) {
    text += "\n  " + failure;
  }
  for (const std::string& refusal : refusals) {
    text += "\n  refused: " + refusal;
  }
  return text;
}

Report run_case(const Target& target, const OpCase& op_case) {
  return CaseRun(target, op_case, false).run();
}

Report run_dense(const Target& target, const OpCase& op_case) {
  return CaseRun(target, op_case, true).run();
}

}  // namespace hearth::conformance
