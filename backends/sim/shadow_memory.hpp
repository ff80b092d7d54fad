// Shadow of a device's memory: which bytes exist, which command wrote them, and which commands have
// read them since. Finds accesses that yield garbage on a real device.
// Owned by one device: no locks.
// Invariants: (1) cells do not overlap and lie within pages; (2) a byte's last writer and its
// readers since then are exact.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <hearth/runtime/base/error.hpp>

namespace hearth::sim {

/// A range of device bytes. An empty range overlaps no other.
struct ByteRange {
  const std::byte* data = nullptr;
  std::int64_t size_bytes = 0;

  [[nodiscard]] bool overlaps(const ByteRange& other) const noexcept {
    return size_bytes > 0 && other.size_bytes > 0 && data < other.data + other.size_bytes &&
           other.data < data + size_bytes;
  }
};

enum class ShadowFault : std::uint8_t {
  out_of_bounds,          ///< Bytes outside every page.
  uninitialised_read,     ///< A read of bytes that no command has written since the page was made.
  read_before_produce,    ///< A read of bytes whose writer need not have ended yet.
  host_bytes_changed,     ///< Host bytes of a copy changed before its end.
  reuse_before_timeline,  ///< A write or free of bytes that an earlier command may still use.
};

struct ShadowReport {
  ShadowFault fault = ShadowFault::out_of_bounds;
  std::uint64_t command = 0;  ///< The command at fault; 0 if a page was freed.
  std::uint64_t earlier = 0;  ///< The command that it did not wait for; 0 if none.
  std::string text;
};

class ShadowMemory {
 public:
  /// Whether a command is known to have ended before the accessing command begins.
  using IsOrderedFn = std::function<bool(std::uint64_t command)>;
  /// Stands for the host, whose accesses have ended when they are recorded.
  static constexpr std::uint64_t kHost = ~std::uint64_t{0};

  /// Adds a page. A page that grows may begin empty.
  void add_page(ByteRange page);
  /// Grows or shrinks the page at its end. Returns a fault if a command may still use removed
  /// bytes.
  [[nodiscard]] std::optional<ShadowReport> resize_page(ByteRange page,
                                                        std::int64_t size_bytes,
                                                        const IsOrderedFn& has_ended);
  /// Removes the page. Returns a fault if a command may still use it.
  [[nodiscard]] std::optional<ShadowReport> remove_page(ByteRange page,
                                                        const IsOrderedFn& has_ended);

  /// Records the reads and writes of a command and returns its first fault. A faulty access is
  /// recorded like a good one, so each fault is reported once.
  [[nodiscard]] std::optional<ShadowReport> access(std::uint64_t command,
                                                   std::span<const ByteRange> reads,
                                                   std::span<const ByteRange> writes,
                                                   const IsOrderedFn& is_ordered);

 private:
  using Address = std::uintptr_t;
  struct Cell {
    Address end = 0;
    std::uint64_t writer = 0;            // 0: never written
    std::vector<std::uint64_t> readers;  // since that write
  };
  using Cells = std::map<Address, Cell>;

  [[nodiscard]] std::optional<ShadowReport> find_bounds_fault(std::uint64_t command,
                                                              const ByteRange& range) const;
  [[nodiscard]] std::optional<ShadowReport> read(std::uint64_t command,
                                                 const ByteRange& range,
                                                 const IsOrderedFn& is_ordered);
  [[nodiscard]] std::optional<ShadowReport> write(std::uint64_t command,
                                                  const ByteRange& range,
                                                  const IsOrderedFn& is_ordered);
  /// Splits cells so that cells begin at both ends of the range; returns the range's first cell.
  Cells::iterator cut(const ByteRange& range);
  void cut_at(Address address);
  /// Removes the cells of the range.
  [[nodiscard]] std::optional<ShadowReport> forget(const ByteRange& range,
                                                   const IsOrderedFn& command_has_ended);

  std::map<Address, Address> pages_;  // begin to end
  Cells cells_;                       // tile the pages
};

[[nodiscard]] const char* name(ShadowFault fault) noexcept;
/// The report as an error of this device, with code internal.
[[nodiscard]] Error to_error(const ShadowReport& report, const std::string& device);

}  // namespace hearth::sim
