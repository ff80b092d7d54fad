// The data set seam: what a DataLoader reads examples from.
// Owned by the program; it outlives its loaders.
// Threads: read() is called by several loader threads at once and must not change the data set.
#pragma once

#include <hearth/modules/host_array.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hearth {

struct NamedArray {
  std::string name;
  HostArray array;
};

/// Shapes of all arrays: [n, ...].
struct Examples {
  HostArray inputs;
  HostArray targets;
  /// Any number of further arrays, each under a name of its own: a mask, a weight, a second input.
  /// A data set that has some may leave inputs and targets out.
  std::vector<NamedArray> more = {};

  /// One of `more`, or "inputs" or "targets". Errors: ArgumentError with the names that there are.
  [[nodiscard]] const HostArray& at(std::string_view name,
                                    SourceLoc loc = SourceLoc::current()) const;
  [[nodiscard]] HostArray& at(std::string_view name, SourceLoc loc = SourceLoc::current());
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
  /// loader's reader, with its words.
  [[nodiscard]] virtual Examples read(std::span<const std::int64_t> indices) const = 0;
  /// The same in a certain epoch, counted from 0: what a DataLoader calls. It is read(), unless the
  /// data set makes other examples in each epoch, as a MappedDataset may that augments; one around
  /// another data set hands the epoch on.
  [[nodiscard]] virtual Examples read_in_epoch(std::span<const std::int64_t> indices,
                                               std::int64_t epoch) const;
  /// How errors call it. The name of its class, unless it says otherwise.
  [[nodiscard]] virtual std::string name() const;
};

}  // namespace hearth
