#include "weight_watch.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "runtime/client/stream_state.hpp"
#include "runtime/client/tensor_impl.hpp"
#include "runtime/ops/op_submit.hpp"

#include <hearth/runtime/base/unique_number.hpp>
#include <hearth/runtime/tensor_access.hpp>

namespace hearth::detail {

// Above what marks a weight that no watch has seen.
WeightWatch::WeightWatch(std::string_view model)
    : model_(model.empty() ? "the model" : model), number_(kUnseenWeight + unique_number()) {}

WeightWatch::~WeightWatch() {
  for (const auto& [stream, before] : before_) {
    stream->exchange_weight_watch(before);
  }
}

void WeightWatch::watch(std::span<const Tensor> leaves, SourceLoc loc) {
  for (const Tensor& leaf : leaves) {
    DeviceEndpoint& endpoint = *TensorAccess::impl(leaf)->endpoint;
    if (endpoint.is_closed()) {
      continue;  // the ops say so
    }
    StreamState* const stream = current_client(endpoint, loc).current;
    if (stream->weight_watch() != this) {
      before_.emplace_back(stream, stream->weight_watch());  // first: it may find no memory
      stream->exchange_weight_watch(this);
    }
  }
}

void WeightWatch::look_at(const Submission& submission) const {
  for (const Arg& input : submission.inputs) {
    TensorImpl& weight = *TensorAccess::impl(input.tensor());
    const std::uint64_t seen = weight.unnamed_weight.load(std::memory_order_acquire);
    if (seen == kUnseenWeight) {
      weight.unnamed_weight.store(number_, std::memory_order_release);  // partner: other watches
    } else if (seen != 0 && seen != number_) {
      weight.unnamed_weight.store(0, std::memory_order_release);
      tell(submission, weight);
    }
  }
}

void WeightWatch::tell(const Submission& submission, const TensorImpl& weight) const {
  weight.endpoint->tables().log.write_counted(
      LogLevel::warn, "a weight that is not in " + model_, [&] {
        return fmt::format(
            "value_and_grad: {} at {}:{} uses a weight, {}, that no model has named: if it is of a "
            "layer that {} leaves out of HEARTH_MODULE, it is neither trained, moved nor saved. If "
            "it belongs to another model that is not trained, call set_paths() for that one.",
            submission.name.empty() ? op_info(submission.kind).name : submission.name,
            submission.location.file,
            submission.location.line,
            describe(weight.dtype, weight.layout->shape),
            model_);
      });
}

}  // namespace hearth::detail
