#include <hearth/backends/sim/sim_backend.hpp>

#include <hearth/backends/reference/reference.hpp>
#include <hearth/streams/op_table.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace hearth::sim {

SimBackend::SimBackend(SimOptions options)
    : options_(std::move(options)),
      info_{.name = options_.name,
            .description = options_.computes ? "simulated: the oracle's results in virtual time"
                                             : "simulated: virtual time, no results",
            .is_host = options_.is_host,
            .core_count = 1,
            .computes = options_.computes},
      pages_({.budget_bytes = options_.budget_bytes,
              .fail_allocation = options_.faults.failing_allocation,
              .fail_count = options_.faults.failing_allocation_count}) {}

Support SimBackend::supports(const KernelCall& call) const {
  return reference::supports(call);
}

bool SimBackend::may_alias(OpKind /*kind*/, int /*input_index*/) const noexcept {
  return true;
}

Status SimBackend::submit(const KernelCall& call) {
  if (is_lost_) {
    return lost();
  }
  const std::uint64_t number = submitted_ + 1;
  if (number == options_.faults.lost_at_submit) {
    is_lost_ = true;
    return lost();
  }
  submitted_ = number;
  spend(call);
  if (std::ranges::count(options_.faults.failing_submits, number) != 0) {
    return Error{.code = ErrorCode::kernel_failed,
                 .text = fmt::format("{}: submit {} fails as planned", info_.name, number),
                 .op = std::string(name(call.op.kind())),
                 .device = info_.name};
  }
  if (!options_.computes) {
    return {};
  }
  const Status status = reference::evaluate(call);
  if (status.has_value()) {
    return status;
  }
  Error error = status.error();
  error.device = info_.name;
  return error;
}

Status SimBackend::upload(std::byte* to, std::span<const std::byte> from) {
  if (is_lost_) {
    return lost();
  }
  std::copy(from.begin(), from.end(), to);
  return {};
}

Status SimBackend::download(std::span<std::byte> to, const std::byte* from) {
  if (is_lost_) {
    return lost();
  }
  std::copy_n(from, to.size(), to.data());
  return {};
}

void SimBackend::advance(std::chrono::nanoseconds duration) {
  now_ += duration;
  complete();
}

Error SimBackend::lost() const {
  return {.code = ErrorCode::device_lost,
          .text = fmt::format(
              "{}: lost at submit {} as planned", info_.name, options_.faults.lost_at_submit),
          .device = info_.name};
}

void SimBackend::spend(const KernelCall& call) {
  busy_until_ = std::max(busy_until_, now_);
  if (options_.cost) {
    busy_until_ += options_.cost(call);
  }
  if (options_.clock == ClockMode::follows_work) {
    now_ = busy_until_;
    completed_ = submitted_;
    return;
  }
  ends_.push_back(busy_until_);
  complete();
}

void SimBackend::complete() {
  while (!is_lost_ && !ends_.empty() && ends_.front() <= now_) {
    ends_.pop_front();
    ++completed_;
  }
}

}  // namespace hearth::sim
