#include "planned_faults.hpp"

#include <hearth/streams/op_table.hpp>

#include <fmt/format.h>

#include <hearth/streams/kernel/expression.hpp>

#include <utility>

namespace hearth::sim {
namespace {

/// Key of a kernel: equal for calls that one compiled kernel serves.
std::string kernel_key(const KernelCall& call) {
  std::string key(name(call.op.kind()));
  if (call.expression != nullptr) {
    key = fmt::format("{} {:016x}", call.expression->name, call.expression->hash);
  }
  for (const auto& views : {call.inputs, call.outputs}) {
    for (const TensorView& view : views) {
      key += fmt::format(" {}[", name(view.dtype));
      for (const std::int64_t size : view.shape().dims()) {
        key += fmt::format(" {}", size);
      }
      key += " ]";
    }
  }
  return key;
}

}  // namespace

PlannedFaults::PlannedFaults(FaultPlan plan, std::string device)
    : plan_(std::move(plan)), device_(std::move(device)) {}

Status PlannedFaults::compile_anew(const KernelCall& call) {
  const std::string key = kernel_key(call);
  if (compiled_.contains(key)) {
    return {};
  }
  ++compile_count_;
  if (names(plan_.failing_compiles, compile_count_)) {
    return failure(call, fmt::format("compile {} ({})", compile_count_, key));
  }
  compiled_.insert(key);
  return {};
}

Error PlannedFaults::submit_failure(const KernelCall& call, std::uint64_t submit) const {
  return failure(call, fmt::format("submit {}", submit));
}

Error PlannedFaults::failure(const KernelCall& call, const std::string& what) const {
  return {.code = ErrorCode::kernel_failed,
          .text = fmt::format("{}: {} fails by the fault plan", device_, what),
          .op = std::string(name(call.op.kind())),
          .device = device_};
}

Error PlannedFaults::loss(const std::string& when) const {
  return {.code = ErrorCode::device_lost,
          .text = fmt::format("{}: lost {} by the fault plan", device_, when),
          .device = device_};
}

std::string PlannedFaults::time_of_loss() const {
  return fmt::format("at {} ns", plan_.lost_at.count());
}

void corrupt(std::span<std::byte> bytes) noexcept {
  if (!bytes.empty()) {
    bytes.back() ^= std::byte{0x20};  // a bit of a float's exponent, so it is no rounding error
  }
}

}  // namespace hearth::sim
