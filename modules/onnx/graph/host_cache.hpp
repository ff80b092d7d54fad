// HostCache: values that only the shapes of a run's inputs decide, so that a later run with these
// shapes computes none of them. Append-only; entries live as long as the cache.
// Threads: any. A reader takes no lock and writes nothing.
// Invariants: (1) an entry never changes; (2) the cache keeps the first kMostEntries sets of
// shapes.
#pragma once

#include "modules/onnx/graph/executor.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace hearth::onnx {

/// Returns a key for types, shapes and elements on the host of these inputs. Empty: no key, for
/// sequences, strings and large arrays.
[[nodiscard]] std::vector<std::int64_t> cache_key(std::span<const OnnxValue> inputs);

class HostCache final {
 public:
  static constexpr std::size_t kMostEntries = 64;

  HostCache() = default;
  HostCache(const HostCache&) = delete;
  HostCache& operator=(const HostCache&) = delete;
  ~HostCache();

  /// Returns the entry with this key; null without one. Valid as long as the cache.
  [[nodiscard]] const KnownValues* find(std::span<const std::int64_t> key) const noexcept;
  /// Adds an entry, unless the cache is full, the key is empty, or another thread added it.
  void add(std::vector<std::int64_t> key, KnownValues values);

 private:
  struct Entry {
    std::vector<std::int64_t> key;
    KnownValues values;
  };

  std::array<std::atomic<const Entry*>, kMostEntries> entries_{};
};

}  // namespace hearth::onnx
