// The comparison of settings that all processes of a group must have in common. Private to
// parallel. Stateless. Threads: the program's.
#pragma once

#include <hearth/parallel/process_group.hpp>
#include <hearth/runtime/base/source_loc.hpp>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hearth::detail {

/// Name and value of each setting.
using SettingWords = std::vector<std::pair<std::string, std::string>>;

/// Compares the settings of all processes. Every process throws alike.
///
/// Errors: ArgumentError that names the first process and setting that differ from process 0's;
/// collective_failed.
void require_common(const ProcessGroup& group,
                    const SettingWords& words,
                    std::string_view who,
                    SourceLoc where);

}  // namespace hearth::detail
