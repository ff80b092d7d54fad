#include "weight_watch.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "runtime/client/stream_state.hpp"
#include "runtime/client/tensor_impl.hpp"
#include "runtime/ops/op_submit.hpp"

#include <hearth/runtime/tensor_access.hpp>

namespace hearth::detail {

WeightWatch::WeightWatch(std::string_view model, std::span<const Tensor> leaves) : model_(model) {
  for (const Tensor& leaf : leaves) {
    DeviceEndpoint& endpoint = *TensorAccess::impl(leaf)->endpoint;
    if (endpoint.is_closed()) {
      continue;  // the ops say so
    }
    StreamState* const stream = &current_stream(endpoint);
    if (std::ranges::find(before_, stream, [](const auto& each) { return each.first; }) ==
        before_.end()) {
      before_.emplace_back(stream, stream->exchange_weight_watch(this));
    }
  }
}

WeightWatch::~WeightWatch() {
  for (const auto& [stream, before] : before_) {
    stream->exchange_weight_watch(before);
  }
}

void WeightWatch::look_at(const Submission& submission) const {
  for (const Arg& input : submission.inputs) {
    const TensorImpl& impl = *TensorAccess::impl(input.tensor());
    if (!impl.is_unnamed_weight.load(std::memory_order_acquire)) {  // partner: set_path
      continue;
    }
    const std::string_view op =
        submission.name.empty() ? op_info(submission.kind).name : submission.name;
    const std::string what = describe(impl.dtype, impl.layout->shape);
    const std::string where =
        fmt::format("{}:{}", submission.location.file, submission.location.line);
    const auto text = [&] {
      return fmt::format(
          "value_and_grad: {} at {} uses a weight, {}, that {} does not name in HEARTH_MODULE: it "
          "is neither trained, moved nor saved. Name the member that holds it, or give the weight "
          "a path with set_path() if it is to stay as it is.",
          op,
          where,
          what,
          model_.empty() ? "the model" : model_);
    };
    impl.endpoint->tables().log.write_counted(
        LogLevel::warn, fmt::format("weight {} {} {}", op, where, what), text);
  }
}

}  // namespace hearth::detail
