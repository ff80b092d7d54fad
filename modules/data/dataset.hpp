// Dataset: the seam from which a DataLoader reads examples.
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

/// Examples in host memory. Shapes of all arrays: [n, ...].
struct Examples {
  HostArray inputs;
  HostArray targets;
  /// Any number of further arrays under unique names: a mask, a weight, a second input. A data set
  /// with such arrays may omit inputs and targets.
  std::vector<NamedArray> more = {};

  /// Returns the array of this name: "inputs", "targets", or one of `more`.
  ///
  /// Errors: ArgumentError that lists the existing names.
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

  /// Number of examples. Constant.
  [[nodiscard]] virtual std::int64_t size() const = 0;
  /// Returns the examples with these indices, each in [0, size()), in this order, with a target
  /// each. `indices` may be empty. The loader rejects arrays of another length. An exception thrown
  /// here reaches the loader's caller with its text.
  [[nodiscard]] virtual Examples read(std::span<const std::int64_t> indices) const = 0;
  /// Reads examples in an epoch, counted from 0. Called by a DataLoader; the default calls read().
  /// Override it if examples differ between epochs (augmentation). A data set that wraps another
  /// one forwards the epoch.
  [[nodiscard]] virtual Examples read_in_epoch(std::span<const std::int64_t> indices,
                                               std::int64_t epoch) const;
  /// Name for error messages. Default: the name of the class.
  [[nodiscard]] virtual std::string name() const;
};

}  // namespace hearth
