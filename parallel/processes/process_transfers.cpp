#include "process_transfers.hpp"

#include <algorithm>
#include <cstddef>

namespace hearth::detail {

void ProcessTransfers::send(int to, std::span<const std::byte> bytes) {
  while (!bytes.empty() && failure_.has_value()) {
    const std::size_t count = std::min(bytes.size(), ProcessTransport::kMostBytes);
    add(to, transport_.send(to, channel_, bytes.first(count)));
    bytes = bytes.subspan(count);
  }
}

void ProcessTransfers::receive(int from, std::span<std::byte> bytes) {
  while (!bytes.empty() && failure_.has_value()) {
    const std::size_t count = std::min(bytes.size(), ProcessTransport::kMostBytes);
    add(from, transport_.receive(from, channel_, bytes.first(count)));
    bytes = bytes.subspan(count);
  }
}

void ProcessTransfers::add(int peer, Result<ProcessTransport::Transfer> started) {
  if (started.has_value()) {
    open_.push_back({.transfer = started.value(), .peer = peer});
  } else {
    failure_ = started.status();
  }
}

// Stops at the first transfer that is not over: one poll moves all of them on.
Result<bool> ProcessTransfers::are_done() {
  std::size_t over_count = 0;
  while (failure_.has_value() && over_count < open_.size()) {
    const Result<bool> is_over = transport_.is_done(open_[over_count].transfer);
    if (!is_over.has_value()) {
      failure_ = is_over.status();
    } else if (!is_over.value()) {
      break;
    }
    ++over_count;
  }
  if (!failure_.has_value()) {
    return failure_;
  }
  open_.erase(open_.begin(), open_.begin() + static_cast<std::ptrdiff_t>(over_count));
  return open_.empty();
}

std::vector<int> ProcessTransfers::awaited() const {
  std::vector<int> peers;
  for (const Open& each : open_) {
    peers.push_back(each.peer);
  }
  std::ranges::sort(peers);
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  return peers;
}

}  // namespace hearth::detail
