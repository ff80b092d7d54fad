// Checks of the regions that an engine receives. Private to parallel. Stateless. Threads: any.
#pragma once

#include <hearth/runtime/base/result.hpp>
#include <hearth/runtime/lent_region.hpp>

#include <span>

namespace hearth::detail {

/// Errors: invalid_argument when there are no regions, or they differ; unsupported if `must_sum`
/// and the type has no sum.
[[nodiscard]] Status check_regions(std::span<const LentRegion> regions, bool must_sum);

}  // namespace hearth::detail
