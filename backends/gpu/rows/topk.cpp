// Entries sort with the place below the key (entry_sort.hpp), so of equal values the first comes
// first. Values are copied by their places, bit by bit.
#include "topk.hpp"

#include <hearth/streams/op_attributes.hpp>

#include "backends/gpu/movement/entry_sort.hpp"
#include "backends/gpu/movement/movement.hpp"

namespace hearth::gpu {

Support supports_topk(const KernelCall& call, const DeviceLimits& limits) {
  constexpr std::int64_t kSharedBytes = 32768;
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  if (limits.shared_bytes < kSharedBytes) {
    return {.yes = false, .reason = "the device has less than 32 KiB of shared memory"};
  }
  if (call.inputs[0].shape()[call.op.attributes<TopkAttributes>().axis] >= kMost) {
    return {.yes = false, .reason = "the axis has 2^31 elements or more"};
  }
  return {};
}

Status encode_topk(const KernelCall& call, KernelEncoder& encoder) {
  HEARTH_TRY_STATUS(check_no_guard(call, encoder));
  const TensorView& x = call.inputs[0];
  const TensorView& values = call.outputs[0];
  const auto attributes = call.op.attributes<TopkAttributes>();
  if (values.element_count() == 0) {
    return {};
  }
  const SortOf sort{.lines = AxisLines(x, attributes.axis),
                    .dtype = x.dtype,
                    .order = attributes.smallest != 0 ? KeyOrder::ascending : KeyOrder::descending};
  const std::int64_t kept = values.shape()[attributes.axis];
  const std::int64_t bytes = sort_scratch_bytes(sort, kept);
  std::uint64_t scratch = 0;
  if (bytes > 0) {
    HEARTH_TRY(scratch, encoder.scratch(bytes));
  }
  const SortTarget target{
      .values = reinterpret_cast<std::uintptr_t>(values.data),               // NOLINT: a device
      .positions = reinterpret_cast<std::uintptr_t>(call.outputs[1].data)};  // NOLINT: address
  return encode_first(sort, kept, target, scratch, encoder);
}

}  // namespace hearth::gpu
