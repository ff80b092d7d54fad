// Makes the C++ program of some pages: each page becomes a test that compiles and runs its blocks.
// What an author has to know stands in README.md of this folder.
// Values. Threads: any.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "page.hpp"

namespace hearth::docs {

/// `examples`: the texts of the programs in examples/; a block that is the end of one of them is
/// left out, for it is built and run there.
///
/// Errors: std::runtime_error naming page and line, for what the convention does not allow.
[[nodiscard]] std::string page_program(const std::vector<Page>& pages,
                                       const std::vector<std::string>& examples);

}  // namespace hearth::docs
