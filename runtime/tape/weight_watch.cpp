#include "weight_watch.hpp"

#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "runtime/client/stream_state.hpp"
#include "runtime/client/tensor_impl.hpp"
#include "runtime/ops/op_submit.hpp"

#include <hearth/runtime/base/unique_number.hpp>
#include <hearth/runtime/tensor_access.hpp>

namespace hearth::detail {
namespace {

using Part = ModelPlaces::Part;

// Keeps the modules that no other one contains, in order.
void keep_outer(std::vector<Part>& parts) {
  std::ranges::sort(parts, [](const Part& a, const Part& b) {
    return a.begin != b.begin ? std::less<>()(a.begin, b.begin) : std::less<>()(b.end, a.end);
  });
  std::vector<Part> outer;
  for (const Part& part : parts) {
    if (outer.empty() || !std::less_equal<>()(part.end, outer.back().end)) {
      outer.push_back(part);
    }
  }
  parts = std::move(outer);
}

}  // namespace

// The number is above kUnseenWeight, which marks weights that no watch has seen.
WeightWatch::WeightWatch(ModelPlaces model)
    : model_(std::move(model)), number_(kUnseenWeight + unique_number()) {
  if (model_.name.empty()) {
    model_.name = "the model";
  }
  keep_outer(model_.parts);
  std::ranges::sort(model_.named, std::less<>());
}

WeightWatch::~WeightWatch() {
  for (const auto& [stream, before] : before_) {
    stream->exchange_weight_watch(before);
  }
}

void WeightWatch::watch(std::span<const Tensor> leaves, SourceLoc loc) {
  for (const Tensor& leaf : leaves) {
    DeviceEndpoint& endpoint = *TensorAccess::impl(leaf)->endpoint;
    if (endpoint.is_closed()) {
      continue;  // the ops report it
    }
    StreamState* const stream = current_client(endpoint, loc).current;
    if (stream->weight_watch() != this) {
      before_.emplace_back(stream, stream->weight_watch());  // first: it may throw
      stream->exchange_weight_watch(this);
    }
  }
}

bool WeightWatch::is_unnamed_member(const Tensor& tensor) const noexcept {
  const auto* const place = reinterpret_cast<const std::byte*>(&tensor);
  const auto behind = std::ranges::upper_bound(model_.parts, place, std::less<>(), &Part::begin);
  return behind != model_.parts.begin() && std::less<>()(place, std::prev(behind)->end) &&
         !std::ranges::binary_search(model_.named, &tensor, std::less<>());
}

void WeightWatch::inspect(const Submission& submission) const {
  for (const Arg& input : submission.inputs) {
    const Tensor& tensor = input.tensor();
    TensorImpl& weight = *TensorAccess::impl(tensor);
    const std::uint64_t seen = weight.unnamed_weight.load(std::memory_order_acquire);
    // A tensor that the program has named, for instance by set_paths(), is known to it.
    const bool is_known = seen == 0 && weight.path.load(std::memory_order_acquire).value != 0;
    if (!is_known && TensorAccess::tape(tensor) == nullptr && is_unnamed_member(tensor)) {
      weight.unnamed_weight.store(0, std::memory_order_release);  // partner: other watches
      report(submission, weight, true);
      continue;
    }
    if (seen == kUnseenWeight) {
      weight.unnamed_weight.store(number_, std::memory_order_release);  // partner: other watches
    } else if (seen != 0 && seen != number_) {
      weight.unnamed_weight.store(0, std::memory_order_release);
      report(submission, weight, false);
    }
  }
}

std::string WeightWatch::explain(const Tensor& operand) const {
  if (!operand.is_valid() || !is_unnamed_member(operand)) {
    return {};
  }
  return fmt::format(
      "{} is a member of {} that its HEARTH_MODULE leaves out: it is neither moved, "
      "trained nor saved with the model; name it there",
      describe(operand.dtype(), operand.shape()),
      model_.name);
}

void WeightWatch::report(const Submission& submission,
                         const TensorImpl& weight,
                         bool is_member) const {
  weight.endpoint->tables().log.write_counted(
      LogLevel::warn, fmt::format("a weight that is not in {}", model_.name), [&] {
        const std::string use =
            fmt::format("value_and_grad: {} at {}:{} uses",
                        submission.name.empty() ? op_info(submission.kind).name : submission.name,
                        submission.location.file,
                        submission.location.line);
        const std::string form = describe(weight.dtype, weight.layout->shape);
        if (is_member) {
          return fmt::format(
              "{} {}, a member that {} leaves out of HEARTH_MODULE: it is neither "
              "trained, moved nor saved. Name it there; as a Buffer, if it is not to "
              "be trained.",
              use,
              form,
              model_.name);
        }
        return fmt::format(
            "{} a weight, {}, that no model has named: if it is of a layer that {} leaves out of "
            "HEARTH_MODULE, it is neither trained, moved nor saved. If it belongs to another model "
            "that is not trained, call set_paths() for that one.",
            use,
            form,
            model_.name);
      });
}

}  // namespace hearth::detail
