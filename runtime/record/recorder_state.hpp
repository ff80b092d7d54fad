// Recorder::State: the data of a recording under way. Private to runtime/record. Guarded by the
// recorder's mutex.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include <hearth/runtime/base/failure_book.hpp>
#include <hearth/streams/op_attributes.hpp>
#include <hearth/streams/trace/op_trace.hpp>

#include "recorder.hpp"
#include "runtime/client/tickets.hpp"

namespace hearth {

struct Recorder::State {
  OpTrace trace;
  RecordOptions options;
  std::map<std::uint64_t, std::uint32_t> devices;  // by endpoint key
  std::map<Name, std::uint32_t> values;            // live ones
  std::uint32_t next_value = 1;
  std::unordered_map<std::uint32_t, std::uint32_t> shapes;
  std::unordered_map<std::uint32_t, std::uint32_t> places;
  std::unordered_map<std::uint32_t, std::uint32_t> paths;
  std::unordered_map<std::uint32_t, std::uint32_t> expressions;
  std::map<const Transfer*, std::uint32_t> transfers;  // the source half's read, numbered from 1
  std::map<std::uint32_t, std::size_t> loans;          // by value: the op that lent it
  std::set<std::pair<std::uint32_t, std::uint64_t>> groups;  // open ones, by device and lane
  std::set<std::size_t> cancelled;
  /// An op that failed by itself, not because of an input.
  struct FailedOp {
    std::size_t op = 0;
    ErrorCode code = ErrorCode::internal;
    std::shared_ptr<const detail::Failure> failure;
  };
  std::vector<FailedOp> failed;
  std::int64_t size_bytes = 0;

  [[nodiscard]] std::uint32_t add_data(std::vector<std::byte> bytes) {
    size_bytes += static_cast<std::int64_t>(bytes.size());
    trace.data.push_back(std::move(bytes));
    return static_cast<std::uint32_t>(trace.data.size());
  }
};

namespace detail {
/// The ticket of a record before its push; the record keeps it.
template <class Ticket>
[[nodiscard]] Ticket* ticket_of(const OpView& op) noexcept {
  return static_cast<Ticket*>(op.attributes<TicketAttributes>().ticket);
}
}  // namespace detail

}  // namespace hearth
