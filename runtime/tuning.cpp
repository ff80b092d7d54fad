// Measurements of a device at a program's request: its peak rates, and trials of its kernels.
#include <hearth/runtime/runtime.hpp>

#include "runtime_impl.hpp"

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "runtime/client/ask.hpp"

namespace hearth {
namespace {

[[noreturn]] void refuse(std::string_view op,
                         const Device& device,
                         std::string_view why,
                         SourceLoc loc) {
  throw_error(Error{.code = ErrorCode::invalid_argument,
                    .text = fmt::format("{}: {} {}", op, device.name(), why),
                    .op = std::string(op),
                    .device = device.name(),
                    .location = loc});
}

template <class T>
T value_of(Result<T> result, SourceLoc loc) {
  if (!result.has_value()) {
    Error failed = result.error();
    failed.location = loc;
    throw_error(std::move(failed));
  }
  return std::move(result).value();
}

}  // namespace

const Runtime::Impl::Node& Runtime::Impl::node_of(const Device& device,
                                                  std::string_view op,
                                                  SourceLoc loc) const {
  const auto node = std::ranges::find_if(
      nodes, [&](const Node& each) { return each.endpoint.get() == &device.endpoint(); });
  if (node == nodes.end()) {
    refuse(op, device, "is a device of another runtime", loc);
  }
  return *node;
}

DevicePeaks Runtime::measure_peaks(const Device& device, SourceLoc loc) const {
  const Impl::Node& node = impl_->node_of(device, "measure_peaks", loc);
  if (!node.measured.open) {
    refuse(
        "measure_peaks", device, "has no speed of its own: it checks others, or keeps time", loc);
  }
  const DevicePeaks peaks = value_of(node.measured.measure_now(), loc);
  if (!impl_->tables->is_deterministic) {
    node.endpoint->set_peaks(peaks);
  }
  return peaks;
}

std::string TuneReport::to_string() const {
  return fmt::format("{} calls tuned, {} faster, {} unclear, {} left",
                     tuned_count,
                     improved_count,
                     unclear_count,
                     left_count);
}

AutotuneLevel Runtime::autotune() const noexcept {
  return impl_->autotune;
}

// Phases: the calls that the device met; trials on a backend of their own; the results to the
// device.
TuneReport Runtime::tune(const Device& device,
                         std::chrono::nanoseconds limit,
                         SourceLoc loc) const {
  const Impl::Node& node = impl_->node_of(device, "tune", loc);
  if (!node.tuned.open) {
    return {};
  }
  if (!node.tuned.has_trials()) {
    refuse("tune",
           device,
           fmt::format("runs no trials: autotune is {}", detail::name(node.tuned.level)),
           loc);
  }
  const std::shared_ptr<const WantedCalls> wanted =
      ask<AskWantedCalls>(*node.endpoint, std::nullopt, loc);
  std::optional<BackgroundTuner::Suspension> alone;
  if (node.tuner) {
    alone.emplace(*node.tuner);
  }
  TuneRound round =
      value_of(node.tuned.tune(*wanted, Deadline::in(limit), impl_->tables->log), loc);
  const TuneReport report{.tuned_count = static_cast<int>(round.tuned.entries.size()),
                          .improved_count = round.improved_count,
                          .unclear_count = round.unclear_count,
                          .left_count = round.left_count};
  if (node.tuner) {
    std::vector<detail::TuneKey> keys;
    std::ranges::transform(round.tuned.entries, std::back_inserter(keys), &detail::TuneEntry::key);
    node.tuner->settle(std::move(keys));
  }
  // Comes before all work that is submitted from now on.
  node.endpoint->post(UseEntries{std::make_shared<const TunedEntries>(std::move(round.tuned))});
  return report;
}

}  // namespace hearth
