// The data set seam: what a DataLoader reads examples from.
// Owned by the program; it outlives its loaders.
// Threads: read() is called by several loader threads at once and must not change the data set.
#pragma once

#include <hearth/modules/host_array.hpp>

#include <cstdint>
#include <span>
#include <string>

namespace hearth {

/// Shapes: inputs [n, ...], targets [n, ...].
struct Examples {
  HostArray inputs;
  HostArray targets;
};

class Dataset {
 public:
  Dataset() = default;
  Dataset(const Dataset&) = default;
  Dataset(Dataset&&) = default;
  Dataset& operator=(const Dataset&) = default;
  Dataset& operator=(Dataset&&) = default;
  virtual ~Dataset() = default;

  /// How many examples there are. Always the same.
  [[nodiscard]] virtual std::int64_t size() const = 0;
  /// The examples with these numbers, in this order, with a target each; `indices` may be empty.
  /// Each is in [0, size()). The loader refuses other sizes than these. What it throws reaches the
  /// loader's reader.
  [[nodiscard]] virtual Examples read(std::span<const std::int64_t> indices) const = 0;
  /// How errors call it. The name of its class, unless it says otherwise.
  [[nodiscard]] virtual std::string name() const;
};

}  // namespace hearth
