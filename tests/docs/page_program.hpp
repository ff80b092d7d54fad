// Makes the C++ program of some pages: each page becomes a test that compiles and runs its blocks.
// README.md of this folder states the rules for authors.
// Values. Threads: any.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "page.hpp"

namespace hearth::docs {

/// The text of the program. `examples`: the texts of the programs in examples/. A block that is the
/// end of one of them is left out, because that example is built and run as a program.
///
/// Errors: std::runtime_error naming page and line, for a block that breaks the rules.
[[nodiscard]] std::string page_program(const std::vector<Page>& pages,
                                       const std::vector<std::string>& examples);

}  // namespace hearth::docs
