#include "process_transfers.hpp"

#include <algorithm>
#include <utility>

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

Result<bool> ProcessTransfers::are_done() {
  std::vector<Open> left;
  for (const Open& each : open_) {
    if (!failure_.has_value()) {
      break;
    }
    const Result<bool> is_over = transport_.is_done(each.transfer);
    if (!is_over.has_value()) {
      failure_ = is_over.status();
    } else if (!is_over.value()) {
      left.push_back(each);
    }
  }
  if (!failure_.has_value()) {
    return failure_;
  }
  open_ = std::move(left);
  return open_.empty();
}

std::vector<int> ProcessTransfers::awaited() const {
  std::vector<int> peers;
  for (const Open& each : open_) {
    peers.push_back(each.peer);
  }
  std::ranges::sort(peers);
  const auto same = std::ranges::unique(peers);
  peers.erase(same.begin(), same.end());
  return peers;
}

}  // namespace hearth::detail
