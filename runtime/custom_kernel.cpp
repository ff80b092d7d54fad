#include <hearth/runtime/custom_kernel.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/base/checked_file.hpp>
#include <hearth/runtime/device.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/tensor_access.hpp>

#include "runtime/client/custom_table.hpp"
#include "runtime/client/tensor_impl.hpp"
#include "runtime/ops/custom_names.hpp"
#include "runtime/ops/op_submit.hpp"

namespace hearth {

struct CustomKernel::State {
  CustomRef definition;
  std::function<std::vector<TensorForm>(std::span<const TensorForm>)> rule;
  std::function<std::vector<Tensor>(std::span<const Tensor>, std::span<const double>)> reference;

  [[nodiscard]] const CustomCode& code() const noexcept { return definition->code; }
};

namespace {

[[noreturn]] void refuse_kernel(const std::string& op,
                                ErrorCode code,
                                std::string what,
                                SourceLoc loc) {
  throw_error(Error{.code = code, .text = op + ": " + std::move(what), .op = op, .location = loc});
}

// ---- construction ----

void check_config(const CustomKernelConfig& config, SourceLoc loc) {
  const auto fail = [&](std::string what) {
    refuse_kernel(config.name.empty() ? "custom_op" : config.name,
                  ErrorCode::invalid_argument,
                  std::move(what),
                  loc);
  };
  const auto check_count = [&](std::size_t count, std::size_t least, std::size_t most, auto what) {
    if (count < least || count > most) {
      fail(fmt::format("{} {}; {} to {} are possible", count, what, least, most));
    }
  };
  if (config.name.empty() || !config.rule) {
    fail("it needs a name and a rule for the types and shapes of its results");
  }
  if (!config.host && config.glsl.text.empty() && config.cuda.text.empty()) {
    fail("it has no code: give it a host function, GLSL text, CUDA text or several of them");
  }
  check_count(config.inputs.size(), 1, kMostCustomInputs, "inputs");
  check_count(config.outputs.size(), 1, kMostCustomOutputs, "results");
  check_count(config.numbers.size(), 0, kMostCustomNumbers, "numbers");
  for (const GpuKernel* const kernel : {&config.glsl, &config.cuda}) {
    check_count(kernel->threads < 0 ? 0 : static_cast<std::size_t>(kernel->threads),
                1,
                1024,
                "threads in a workgroup");
  }
  detail::check_names(config, loc);
}

/// Editors write it in front of UTF-8; compilers of GLSL reject it.
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

std::uint64_t hash_of(const CustomKernelConfig& config) {
  std::string all = fmt::format("{} {}", config.glsl.threads, config.glsl.groups ? 1 : 0);
  for (const CustomInput& input : config.inputs) {
    all += "\n" + input.name;
  }
  for (const std::string& output : config.outputs) {
    all += "\nto " + output;
  }
  for (const CustomNumber& number : config.numbers) {
    all += fmt::format("\nby {} {}", number.name, name(number.dtype));
  }
  all += "\n" + config.glsl.text;
  if (!config.cuda.text.empty()) {
    all += fmt::format("\nCUDA {} {}\n", config.cuda.threads, config.cuda.groups ? 1 : 0);
    all += config.cuda.text;
  }
  return xxh64(std::as_bytes(std::span(all)));
}

// ---- calls ----

std::string described(const CustomCode& code, std::span<const TensorForm> inputs) {
  std::string text;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    text += fmt::format("{}{} {}",
                        i == 0 ? "" : ", ",
                        code.inputs[i].name,
                        describe(inputs[i].dtype, inputs[i].shape));
  }
  return text;
}

std::vector<TensorForm> forms_of(const CustomCode& code,
                                 std::span<const Tensor> inputs,
                                 SourceLoc loc) {
  if (inputs.size() != code.inputs.size()) {
    refuse_kernel(code.name,
                  ErrorCode::invalid_argument,
                  fmt::format("takes {} inputs, was given {}", code.inputs.size(), inputs.size()),
                  loc);
  }
  std::vector<TensorForm> forms;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const CustomInput& wanted = code.inputs[i];
    if (!inputs[i].is_valid()) {
      refuse_kernel(code.name,
                    ErrorCode::invalid_argument,
                    fmt::format("input '{}' is an empty tensor", wanted.name),
                    loc);
    }
    forms.push_back({inputs[i].dtype(), inputs[i].shape()});
    if (!wanted.dtypes.empty() &&
        std::ranges::find(wanted.dtypes, forms.back().dtype) == wanted.dtypes.end()) {
      std::string possible;
      for (const DType dtype : wanted.dtypes) {
        possible += (possible.empty() ? "" : ", ") + std::string(name(dtype));
      }
      refuse_kernel(code.name,
                    ErrorCode::dtype_mismatch,
                    fmt::format("input '{}' is {}; it takes {}",
                                wanted.name,
                                describe(forms.back().dtype, forms.back().shape),
                                possible),
                    loc);
    }
  }
  return forms;
}

void check_numbers(const CustomCode& code, std::span<const double> numbers, SourceLoc loc) {
  if (numbers.size() != code.numbers.size()) {
    refuse_kernel(
        code.name,
        ErrorCode::invalid_argument,
        fmt::format("takes {} numbers, was given {}", code.numbers.size(), numbers.size()),
        loc);
  }
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (code.numbers[i].dtype == DType::i32 && !fits(numbers[i], DType::i32)) {
      refuse_kernel(
          code.name,
          ErrorCode::invalid_argument,
          fmt::format("the number '{}' is {}, which is no i32", code.numbers[i].name, numbers[i]),
          loc);
    }
  }
}

std::vector<TensorSpec> results_of(const CustomCode& code,
                                   std::span<const TensorForm> results,
                                   std::span<const TensorForm> inputs,
                                   SourceLoc loc) {
  if (results.size() != code.outputs.size()) {
    refuse_kernel(code.name,
                  ErrorCode::invalid_argument,
                  fmt::format("its rule gives {} results for {}, it has {}",
                              results.size(),
                              described(code, inputs),
                              code.outputs.size()),
                  loc);
  }
  std::vector<TensorSpec> specs;
  for (const TensorForm& result : results) {
    specs.push_back({.dtype = result.dtype, .shape = result.shape});
  }
  return specs;
}

void check_device(const CustomDefinition& kernel,
                  const Tensor& input,
                  bool is_tracked,
                  SourceLoc loc) {
  const CustomCode& code = kernel.code;
  DeviceEndpoint& endpoint = *detail::TensorAccess::impl(input)->endpoint;
  const auto fail = [&](std::string what) {
    refuse_kernel(code.name, ErrorCode::invalid_argument, std::move(what), loc);
  };
  if (endpoint.is_capture()) {
    fail(fmt::format("'{}' is captured from plain ops, and this is a kernel", endpoint.captured()));
  }
  const bool needs_glsl = endpoint.name().starts_with("vulkan");
  const bool needs_cuda = endpoint.name().starts_with("cuda");
  const bool lacks_code = needs_glsl   ? code.glsl.text.empty()
                          : needs_cuda ? code.cuda.text.empty()
                                       : !code.host;
  if (lacks_code) {
    fail(fmt::format("the kernel has no {}; {} needs one",
                     needs_glsl   ? "GLSL text"
                     : needs_cuda ? "CUDA text"
                                  : "host function",
                     endpoint.name()));
  }
  if (endpoint.tables().recorder.is_on()) {
    fail("its code can be no part of a recording, which is under way: stop it first");
  }
  if (is_tracked && !kernel.vjp) {
    fail("it has no vjp, and an input is tracked: detach() it, or give the kernel one");
  }
}

}  // namespace

CustomKernel::CustomKernel(CustomKernelConfig config, SourceLoc loc) {
  for (GpuKernel* const kernel : {&config.glsl, &config.cuda}) {
    if (kernel->text.starts_with(kByteOrderMark)) {
      kernel->text.erase(0, kByteOrderMark.size());
    }
  }
  check_config(config, loc);
  auto definition = std::make_shared<CustomDefinition>();
  const std::uint64_t hash = hash_of(config);
  definition->code = {.name = std::move(config.name),
                      .inputs = std::move(config.inputs),
                      .outputs = std::move(config.outputs),
                      .numbers = std::move(config.numbers),
                      .host = std::move(config.host),
                      .glsl = std::move(config.glsl),
                      .cuda = std::move(config.cuda),
                      .text_hash = hash};
  definition->vjp = std::move(config.vjp);
  auto state = std::make_shared<State>();
  state->definition = std::move(definition);
  state->rule = std::move(config.rule);
  state->reference = std::move(config.reference);
  state_ = std::move(state);
}

const std::string& CustomKernel::name() const noexcept {
  return state_->code().name;
}

Tensor CustomKernel::operator()(std::initializer_list<Tensor> inputs,
                                std::initializer_list<double> numbers,
                                SourceLoc loc) const {
  if (state_->code().outputs.size() != 1) {
    refuse_kernel(name(),
                  ErrorCode::invalid_argument,
                  fmt::format("it has {} results: call all()", state_->code().outputs.size()),
                  loc);
  }
  return run({inputs.begin(), inputs.size()}, {numbers.begin(), numbers.size()}, loc)[0];
}

std::vector<Tensor> CustomKernel::all(std::span<const Tensor> inputs,
                                      std::span<const double> numbers,
                                      SourceLoc loc) const {
  return run(inputs, numbers, loc);
}

// Phases: check the operands; call the rule, whose exceptions are mistakes of the call; submit the
// record.
std::vector<Tensor> CustomKernel::run(std::span<const Tensor> inputs,
                                      std::span<const double> numbers,
                                      SourceLoc loc) const {
  const CustomCode& code = state_->code();
  const std::vector<TensorForm> forms = forms_of(code, inputs, loc);
  check_numbers(code, numbers, loc);
  std::vector<TensorForm> results;
  std::string mistake;
  try {
    results = state_->rule(forms);
  } catch (const Exception& thrown) {
    mistake = thrown.error().text;
  } catch (const std::exception& thrown) {
    mistake = thrown.what();
  }
  if (!mistake.empty()) {
    refuse_kernel(code.name,
                  ErrorCode::shape_mismatch,
                  fmt::format("{}: {}", mistake, described(code, forms)),
                  loc);
  }
  const std::vector<TensorSpec> specs = results_of(code, results, forms, loc);
  const bool is_tracked =
      std::ranges::any_of(inputs, [](const Tensor& each) { return each.is_tracked(); });
  check_device(*state_->definition, inputs[0], is_tracked, loc);

  std::vector<Arg> args;
  for (const Tensor& input : inputs) {
    args.emplace_back(input, loc);
  }
  RuntimeTables& tables = detail::TensorAccess::impl(inputs[0])->endpoint->tables();
  const Result<CustomId> id = tables.customs.intern(state_->definition);
  if (!id.has_value()) {
    throw_error(id.error());
  }
  const CustomAttributes attributes{.custom = id.value().value,
                                    .number_count = static_cast<std::uint32_t>(numbers.size())};
  std::vector<Tensor> tensors(specs.size());
  detail::submit({.kind = OpKind::custom,
                  .location = loc,
                  .inputs = args,
                  .attributes = detail::bytes_of(attributes),
                  .parameters = std::as_bytes(numbers),
                  .name = code.name},
                 specs,
                 tensors);
  return tensors;
}

// ---- checks ----

namespace {

std::vector<double> values_of(const Tensor& tensor) {
  std::vector<double> values;
  visit_dtype(tensor.dtype(), [&](auto zero) {
    using T =
        std::conditional_t<std::is_same_v<decltype(zero), bool>, std::uint8_t, decltype(zero)>;
    for (const T value : tensor.to_vector<T>()) {
      if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16>) {
        values.push_back(static_cast<double>(static_cast<float>(value)));
      } else {
        values.push_back(static_cast<double>(value));
      }
    }
  });
  return values;
}

std::string place_of(std::size_t element, const Shape& shape) {
  std::string text;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    const auto size = static_cast<std::size_t>(shape[axis]);
    text = fmt::format("{}{}{}", element % size, text.empty() ? "" : ", ", text);
    element /= size;
  }
  return "[" + text + "]";
}

// Compares one result with its reference.
struct Comparison {
  const std::string& op;
  double tolerance = 0;
  SourceLoc loc;

  void operator()(std::string_view what, const Tensor& got, const Tensor& want) const {
    if (got.dtype() != want.dtype() || got.shape() != want.shape()) {
      refuse_kernel(op,
                    ErrorCode::invalid_argument,
                    fmt::format("{} is {}, the reference's is {}",
                                what,
                                describe(got.dtype(), got.shape()),
                                describe(want.dtype(), want.shape())),
                    loc);
    }
    const std::vector<double> values = values_of(got);
    const std::vector<double> wanted = values_of(want);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const bool is_same =
          values[i] == wanted[i] || (std::isnan(values[i]) && std::isnan(wanted[i]));
      if (is_same || std::abs(values[i] - wanted[i]) <= tolerance * (1 + std::abs(wanted[i]))) {
        continue;
      }
      refuse_kernel(
          op,
          ErrorCode::invalid_argument,
          fmt::format("{} differs from the reference's at {}: {}, should be {} (tolerance {})",
                      what,
                      place_of(i, got.shape()),
                      values[i],
                      wanted[i],
                      tolerance),
          loc);
    }
  }
};

// Weights that distinguish neighbouring elements of a result: 0.5, 1.25, 1.0, 0.75, repeated.
Tensor varied_weights(const Tensor& like) {
  std::vector<float> weights(static_cast<std::size_t>(like.element_count()));
  for (std::size_t i = 0; i < weights.size(); ++i) {
    weights[i] = 0.5F + 0.25F * static_cast<float>(i * 7 % 4);
  }
  return cast(Tensor::from(like.device(), weights, like.shape()), like.dtype());
}

}  // namespace

// Phases: compare the results; compare the gradients of the float inputs, if both functions have
// some.
void CustomKernel::check(std::initializer_list<Tensor> inputs,
                         std::initializer_list<double> numbers,
                         double tolerance,
                         SourceLoc loc) const {
  const CustomCode& code = state_->code();
  if (!state_->reference) {
    refuse_kernel(
        code.name, ErrorCode::invalid_argument, "it has no reference to be checked against", loc);
  }
  const std::span<const Tensor> given(inputs.begin(), inputs.size());
  const std::span<const double> values(numbers.begin(), numbers.size());
  const Comparison compare{.op = code.name, .tolerance = tolerance, .loc = loc};
  const std::vector<Tensor> got = run(given, values, loc);
  const std::vector<Tensor> want = state_->reference(given, values);
  if (want.size() != got.size()) {
    refuse_kernel(code.name,
                  ErrorCode::invalid_argument,
                  fmt::format("its reference gives {} results, it has {}", want.size(), got.size()),
                  loc);
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (!want[i].is_valid()) {
      refuse_kernel(code.name,
                    ErrorCode::invalid_argument,
                    fmt::format("its reference gives no tensor for '{}'", code.outputs[i]),
                    loc);
    }
    compare(fmt::format("'{}'", code.outputs[i]), got[i], want[i]);
  }
  if (!state_->definition->vjp || !is_float(got[0].dtype())) {
    return;
  }
  const Tensor weights = varied_weights(got[0]);
  const std::vector<Tensor> points(given.begin(), given.end());
  const auto gradients_of = [&](const auto& function) {
    return grad(
        [&](const std::vector<Tensor>& tracked) { return sum(function(tracked)[0] * weights); },
        points,
        loc);
  };
  const std::vector<Tensor> mine =
      gradients_of([&](const std::vector<Tensor>& tracked) { return run(tracked, values, loc); });
  const std::vector<Tensor> theirs = gradients_of(
      [&](const std::vector<Tensor>& tracked) { return state_->reference(tracked, values); });
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (is_float(points[i].dtype())) {
      compare(fmt::format("the gradient of '{}'", code.inputs[i].name), mine[i], theirs[i]);
    }
  }
}

}  // namespace hearth
