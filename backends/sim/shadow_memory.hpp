// What a device's memory means: which bytes exist, which were written, by which command, and who
// has read them since. It finds the accesses that a real device would answer with garbage.
// Owned by one device: no locks. Invariants: (1) cells do not overlap and lie within pages; (2) a
// byte's last writer and its readers since are exact.
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

/// Bytes on a device; empty ones touch nothing.
struct ByteRange {
  const std::byte* data = nullptr;
  std::int64_t size_bytes = 0;

  [[nodiscard]] bool overlaps(const ByteRange& other) const noexcept {
    return size_bytes > 0 && other.size_bytes > 0 && data < other.data + other.size_bytes &&
           other.data < data + size_bytes;
  }
};

enum class ShadowFault : std::uint8_t {
  out_of_bounds,          ///< Bytes that belong to no page.
  uninitialised_read,     ///< Bytes that nobody has written since the page was made.
  read_before_produce,    ///< Bytes whose writer need not have ended yet.
  host_bytes_changed,     ///< Of a copy, before its end.
  reuse_before_timeline,  ///< Written, or freed, while an earlier command may still use them.
};

struct ShadowReport {
  ShadowFault fault = ShadowFault::out_of_bounds;
  std::uint64_t command = 0;  ///< The one that did it; 0 = a page was freed.
  std::uint64_t earlier = 0;  ///< The one that it did not wait for; 0 = none.
  std::string text;
};

class ShadowMemory {
 public:
  /// Whether a command is known to have ended before the one that asks begins.
  using IsOrderedFn = std::function<bool(std::uint64_t command)>;
  /// Stands for the host, whose accesses are over when they are noted.
  static constexpr std::uint64_t kHost = ~std::uint64_t{0};

  /// May be empty, when it is one that grows.
  void add_page(ByteRange page);
  /// The page gets longer or shorter at its end. What may still use the bytes that go, if anything.
  [[nodiscard]] std::optional<ShadowReport> resize_page(ByteRange page,
                                                        std::int64_t size_bytes,
                                                        const IsOrderedFn& has_ended);
  /// What may still use the page, if anything.
  [[nodiscard]] std::optional<ShadowReport> remove_page(ByteRange page,
                                                        const IsOrderedFn& has_ended);

  /// Notes what a command reads and writes; its first fault, if any. The fault is noted as if it
  /// were none, so that it is reported once.
  [[nodiscard]] std::optional<ShadowReport> access(std::uint64_t command,
                                                   std::span<const ByteRange> reads,
                                                   std::span<const ByteRange> writes,
                                                   const IsOrderedFn& is_ordered);

 private:
  using Address = std::uintptr_t;
  struct Cell {
    Address end = 0;
    std::uint64_t writer = 0;            // 0: nobody yet
    std::vector<std::uint64_t> readers;  // since then
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
  /// Cuts cells so that one begins at each end of the range; the first of the range.
  Cells::iterator cut(const ByteRange& range);
  void cut_at(Address address);
  /// Takes the range's cells away.
  [[nodiscard]] std::optional<ShadowReport> forget(const ByteRange& range,
                                                   const IsOrderedFn& command_has_ended);

  std::map<Address, Address> pages_;  // begin to end
  Cells cells_;                       // tile the pages
};

[[nodiscard]] const char* name(ShadowFault fault) noexcept;
/// The report as a failure of this device, of code internal.
[[nodiscard]] Error to_error(const ShadowReport& report, const std::string& device);

}  // namespace hearth::sim
