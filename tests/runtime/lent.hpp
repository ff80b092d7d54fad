// A loan for a test: the test receives the region itself, not a taker.
#pragma once

#include "stepped_runtime.hpp"

#include <memory>
#include <utility>

namespace hearth::testing {

/// A loan of a tensor.
struct Lent {
  Tensor result;
  Pending<LentRegion> region;
};

inline Lent lend_out(Tensor tensor, Deadline deadline = Deadline::never()) {
  auto promise = std::make_shared<Promise<LentRegion>>();
  Pending<LentRegion> region = promise->pending();
  Tensor result = lend(
      std::move(tensor),
      [promise](Result<LentRegion> lent) {
        if (lent.has_value()) {
          promise->set_value(std::move(lent).value());
        } else {
          promise->set_error(lent.shared_error());
        }
      },
      deadline);
  return {std::move(result), std::move(region)};
}

}  // namespace hearth::testing
