#include "stored_call.hpp"

#include <hearth/backends/reference/reference.hpp>

#include <algorithm>

namespace hearth::sim {
namespace {

bool share_bytes(const std::vector<ByteRange>& some, const std::vector<ByteRange>& others) {
  return std::ranges::any_of(some, [&](const ByteRange& a) {
    return std::ranges::any_of(others, [&](const ByteRange& b) { return a.overlaps(b); });
  });
}

}  // namespace

StoredCall::StoredCall(const KernelCall& call)
    : record_(call.op.record()),
      input_count_(call.inputs.size()),
      expression_(call.expression),
      custom_(call.custom) {
  if (record_.blob_size_bytes > 0) {
    blob_.assign(call.op.blob(), call.op.blob() + record_.blob_size_bytes);
  }
  const std::span<const TensorView> beside =
      call.epilogue != nullptr ? call.epilogue->inputs : std::span<const TensorView>();
  beside_count_ = beside.size();
  // The views point into `layouts_`.
  layouts_.reserve(call.inputs.size() + beside.size() + call.outputs.size() + 1);
  for (const std::span<const TensorView> views : {call.inputs, beside, call.outputs}) {
    for (const TensorView& view : views) {
      keep(view);
    }
  }
  if (call.epilogue != nullptr) {
    parameters_.assign(call.epilogue->parameters.begin(), call.epilogue->parameters.end());
    layouts_.push_back(*call.epilogue->result);
    epilogue_ = Epilogue{.expression = call.epilogue->expression,
                         .result = &layouts_.back(),
                         .inputs = std::span(views_).subspan(input_count_, beside_count_),
                         .parameters = parameters_};
  }
}

void StoredCall::keep(const TensorView& view) {
  layouts_.push_back(*view.layout);
  views_.push_back({view.data, &layouts_.back(), view.dtype});
}

KernelCall StoredCall::call() const noexcept {
  const std::span<const TensorView> views(views_);
  return {.op = OpView(record_, blob_.data()),
          .inputs = views.first(input_count_),
          .outputs = views.subspan(input_count_ + beside_count_),
          .expression = expression_,
          .epilogue = epilogue_ ? &*epilogue_ : nullptr,
          .custom = custom_};
}

bool Access::conflicts_with(const Access& other) const noexcept {
  return share_bytes(writes, other.reads) || share_bytes(writes, other.writes) ||
         share_bytes(reads, other.writes);
}

bool Access::overlaps(const ByteRange& range) const noexcept {
  const auto is_in_range = [&](const ByteRange& bytes) { return bytes.overlaps(range); };
  return std::ranges::any_of(reads, is_in_range) || std::ranges::any_of(writes, is_in_range);
}

Access access_of(const KernelCall& call) {
  Access access;
  const int made = call.prologue != nullptr ? call.prologue->input : -1;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    if (static_cast<int>(i) != made) {
      access.reads.push_back(range_of(call.inputs[i]));
    }
  }
  if (call.prologue != nullptr) {
    const std::vector<ByteRange> reads = access_of(*call.prologue->call).reads;
    access.reads.insert(access.reads.end(), reads.begin(), reads.end());
  }
  for (const TensorView& view :
       call.epilogue != nullptr ? call.epilogue->inputs : std::span<const TensorView>()) {
    access.reads.push_back(range_of(view));
  }
  for (const TensorView& view : call.outputs) {
    access.writes.push_back(range_of(view));
  }
  return access;
}

Status run_with_oracle(const KernelCall& call, const std::string& device) {
  const Status status = reference::evaluate(call);
  if (status.has_value()) {
    return status;
  }
  Error error = status.error();
  error.device = device;
  return error;
}

std::vector<std::byte> elements_of(const TensorView& view) {
  const auto size = static_cast<std::size_t>(size_bytes(view.dtype));
  const auto count = static_cast<std::size_t>(view.element_count());
  std::vector<std::byte> bytes(count * size);
  for (std::size_t i = 0; i < count; ++i) {
    auto rest = static_cast<std::int64_t>(i);
    std::int64_t place = 0;
    for (int axis = view.shape().rank() - 1; axis >= 0; --axis) {
      place += rest % view.shape()[axis] * view.strides()[static_cast<std::size_t>(axis)];
      rest /= view.shape()[axis];
    }
    std::copy_n(view.data + place * static_cast<std::int64_t>(size),
                size,
                bytes.begin() + static_cast<std::ptrdiff_t>(i * size));
  }
  return bytes;
}

ByteRange range_of(const TensorView& view) noexcept {
  if (view.element_count() == 0) {
    return {};
  }
  std::int64_t first = 0;
  std::int64_t last = 0;
  for (int axis = 0; axis < view.shape().rank(); ++axis) {
    const std::int64_t reach =
        (view.shape()[axis] - 1) * view.strides()[static_cast<std::size_t>(axis)];
    (reach < 0 ? first : last) += reach;
  }
  const std::int64_t size = size_bytes(view.dtype);
  return {view.data + first * size, (last - first + 1) * size};
}

}  // namespace hearth::sim
