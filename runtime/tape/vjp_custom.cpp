// The gradient of a custom kernel, by the program's own function.
#include <algorithm>
#include <cstring>
#include <exception>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <hearth/runtime/custom_kernel.hpp>
#include <hearth/streams/op_attributes.hpp>

#include "runtime/client/tensor_impl.hpp"
#include "vjp_table.hpp"

namespace hearth::vjp {
namespace {

// Calls the program's function. Its exceptions get the kernel's name in front; the library's own
// errors keep the rest, which locates them in the function.
std::vector<Tensor> gradients_of(const CustomDefinition& kernel,
                                 const CustomGradient& call,
                                 SourceLoc loc) {
  Error error{.code = ErrorCode::invalid_argument, .text = {}, .location = loc};
  try {
    return kernel.vjp(call);
  } catch (const Exception& thrown) {
    error = thrown.error();
  } catch (const std::exception& thrown) {
    error.text = thrown.what();
  }
  error.text = fmt::format("{}: its vjp threw: {}", kernel.code.name, error.text);
  error.op = kernel.code.name;
  throw_error(std::move(error));
}

// A vjp may use further results, which depend on the inputs in a way that no rule describes.
void require_one_real_result(const VjpNode& node,
                             const CustomGradient& call,
                             const CustomCode& code) {
  const auto is_tracked = [](const Tensor& each) { return each.is_tracked(); };
  if (!std::ranges::any_of(call.inputs, is_tracked)) {
    return;
  }
  for (std::size_t i = 1; i < call.outputs.size(); ++i) {
    if (is_float(call.outputs[i].dtype())) {
      throw_error(Error{
          .code = ErrorCode::invalid_argument,
          .text = fmt::format("{}: result '{}' has no gradient, so the kernel has no gradient "
                              "of its gradient: compute '{}' by another kernel",
                              code.name,
                              code.outputs[i],
                              code.outputs[i]),
          .op = code.name,
          .location = node.location()});
    }
  }
}

}  // namespace

void custom(const VjpNode& node, Tensor gradient) {
  const std::span<const std::byte> bytes = node.attribute_bytes();
  CustomAttributes attributes;
  std::memcpy(&attributes, bytes.data(), sizeof attributes);
  const CustomRef kernel =
      detail::TensorAccess::impl(gradient)->endpoint->tables().customs[CustomId{attributes.custom}];
  const CustomCode& code = kernel->code;
  CustomGradient call{.inputs = {},
                      .outputs = {},
                      .gradient = std::move(gradient),
                      .is_needed = {},
                      .numbers = std::vector<double>(attributes.number_count)};
  std::ranges::copy(bytes.subspan(sizeof attributes),
                    std::as_writable_bytes(std::span(call.numbers)).begin());
  for (int i = 0; i < node.operand_count(); ++i) {
    call.inputs.push_back(node.operand(i).tensor());
    call.is_needed.push_back(node.needs(i));
  }
  for (int i = 0; i < static_cast<int>(code.outputs.size()); ++i) {
    call.outputs.push_back(node.output(i).tensor());
  }
  require_one_real_result(node, call, code);
  const auto refuse = [&](std::string what) {
    throw_error(Error{.code = ErrorCode::invalid_argument,
                      .text = fmt::format("{}: {}", code.name, what),
                      .op = code.name,
                      .location = node.location()});
  };
  std::vector<Tensor> gradients = gradients_of(*kernel, call, node.location());
  if (gradients.size() != call.inputs.size()) {
    refuse(fmt::format(
        "its vjp gives {} gradients for {} inputs", gradients.size(), call.inputs.size()));
  }
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const auto operand = static_cast<int>(i);
    if (!node.needs(operand) || !gradients[i].is_valid()) {
      continue;
    }
    if (gradients[i].dtype() != node.dtype(operand) ||
        gradients[i].shape() != node.shape(operand)) {
      refuse(fmt::format("its vjp gives {} for '{}', which is {}",
                         describe(gradients[i].dtype(), gradients[i].shape()),
                         code.inputs[i].name,
                         describe(node.dtype(operand), node.shape(operand))));
    }
    node.give(operand, std::move(gradients[i]));
  }
}

}  // namespace hearth::vjp
