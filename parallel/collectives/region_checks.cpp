#include "region_checks.hpp"

#include "reduce_loops.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <utility>

namespace hearth::detail {

Status check_regions(std::span<const LentRegion> regions, bool must_sum) {
  const auto problem = [](ErrorCode code, std::string text) {
    return Error{.code = code, .text = "collective: " + std::move(text)};
  };
  if (regions.empty()) {
    return problem(ErrorCode::invalid_argument, "there are no regions");
  }
  for (std::size_t rank = 0; rank < regions.size(); ++rank) {
    const LentRegion& region = regions[rank];
    if (!region.is_valid()) {
      return problem(ErrorCode::invalid_argument,
                     fmt::format("the region of rank {} was given back already", rank));
    }
    if (region.dtype() != regions[0].dtype() ||
        region.bytes().size() != regions[0].bytes().size()) {
      return problem(ErrorCode::invalid_argument,
                     fmt::format("rank 0 has {} bytes of {}, rank {} has {} bytes of {}",
                                 regions[0].bytes().size(),
                                 name(regions[0].dtype()),
                                 rank,
                                 region.bytes().size(),
                                 name(region.dtype())));
    }
  }
  if (must_sum && !can_sum(regions[0].dtype())) {
    return problem(ErrorCode::unsupported, fmt::format("cannot sum {}", name(regions[0].dtype())));
  }
  return {};
}

}  // namespace hearth::detail
