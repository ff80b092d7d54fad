#include "call.hpp"

#include <algorithm>
#include <utility>

#include <hearth/runtime/base/error.hpp>

namespace hearth::onnx {

Call::Call(const NodeInfo& node, RunContext& context, Frame& frame, std::vector<OnnxValue> inputs)
    : node_(node),
      context_(context),
      frame_(frame),
      inputs_(std::move(inputs)),
      results_(std::max<std::size_t>(node.is_wanted.size(), 1)) {}

void Call::refuse_text(std::string text) const {
  throw_error(Error{
      .code = ErrorCode::invalid_argument, .text = std::move(text), .location = context_.loc});
}

const OnnxValue& Call::value(std::size_t i) const {
  if (i >= inputs_.size()) {
    refuse("input {} is missing, the node has {}", i, inputs_.size());
  }
  return inputs_[i];
}

const Tensor& Call::tensor(std::size_t i) {
  const OnnxValue& given = value(i);
  if (!given.has_tensor()) {
    if (!given.has_host()) {
      refuse("input {} is {}, not a tensor", i, given.is_sequence() ? "a sequence" : "missing");
    }
    OnnxValue uploaded(upload(given.host(), context_.device, context_.loc), given.type());
    if (given.has_host()) {
      uploaded.set_host(std::make_shared<const HostArray>(given.host()));
    }
    inputs_[i] = std::move(uploaded);
  }
  return inputs_[i].tensor(context_.loc);
}

Tensor Call::take(std::size_t i) {
  static_cast<void>(tensor(i));
  return inputs_[i].take_tensor();
}

const HostArray& Call::host(std::size_t i) {
  const OnnxValue& given = value(i);
  if (!given.has_host()) {
    if (!given.has_tensor()) {
      refuse("input {} is {}, not a tensor", i, given.is_sequence() ? "a sequence" : "missing");
    }
    ++context_.sync_points;
    inputs_[i].set_host(std::make_shared<const HostArray>(
        download(given.tensor(), given.type(), context_.wait, context_.loc)));
  }
  return inputs_[i].host(context_.loc);
}

std::int64_t Call::integer(std::size_t i) {
  const std::vector<std::int64_t> values = integers(i);
  if (values.size() != 1) {
    refuse("input {} has {} elements, not one", i, values.size());
  }
  return values.front();
}

double Call::real(std::size_t i) {
  const HostArray& array = host(i);
  if (has_strings(array) || array.shape.element_count() != 1) {
    refuse("input {} has {} elements, not one number", i, array.shape.element_count());
  }
  return real_at(array, 0);
}

std::optional<std::vector<std::int64_t>> Call::integers(std::size_t i, std::string_view attribute) {
  if (has(i)) {
    return integers(i);
  }
  if (const auto* const given = node_.integers(attribute); given != nullptr) {
    return *given;
  }
  return {};
}

int Call::axis(std::int64_t axis, int rank) const {
  if (axis < -rank || axis >= rank) {
    refuse("axis {} is outside [{}, {}]", axis, -rank, rank - 1);
  }
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

std::vector<int> Call::axes(const std::vector<std::int64_t>& axes, int rank) const {
  std::vector<int> result;
  for (const std::int64_t each : axes) {
    result.push_back(axis(each, rank));
  }
  std::ranges::sort(result);
  if (std::ranges::adjacent_find(result) != result.end()) {
    refuse("an axis is named twice");
  }
  return result;
}

void Call::give(std::size_t i, OnnxValue value) {
  if (i < results_.size()) {
    results_[i] = std::move(value);
  }
}

void Call::give(std::size_t i, Tensor tensor, OnnxType type) {
  const std::optional<DType> wanted = device_type(type);
  if (wanted && tensor.dtype() != *wanted) {
    tensor = cast(std::move(tensor), *wanted);
  }
  give(i, OnnxValue(std::move(tensor), type));
}

void Call::give_wrapped(Tensor tensor, OnnxType type) {
  give(0, wrapped(std::move(tensor), type), type);
}

bool Call::has_body(std::string_view attribute) const noexcept {
  return node_.attribute<std::shared_ptr<const Plan>>(attribute) != nullptr;
}

std::vector<OnnxValue> Call::run_body(std::string_view attribute, std::vector<OnnxValue> inputs) {
  const auto* const body = node_.attribute<std::shared_ptr<const Plan>>(attribute);
  if (body == nullptr) {
    refuse("attribute {} with a graph is missing", attribute);
  }
  return context_.run_body(**body, frame_, context_, std::move(inputs));
}

Tensor wrapped(Tensor tensor, OnnxType type) {
  const auto modulo = [&tensor](std::int64_t count) { return remainder(std::move(tensor), count); };
  switch (type) {
    case OnnxType::u16:
      return modulo(65'536);
    case OnnxType::u32:
      return modulo(std::int64_t{1} << 32);
    case OnnxType::i16:
      return sub(remainder(add(std::move(tensor), 32'768), 65'536), 32'768);
    default:
      return tensor;
  }
}

}  // namespace hearth::onnx
