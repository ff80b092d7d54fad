// The page of options: each struct that a program fills in, with all its fields, as the headers
// declare them. The page of ops has the options of ops.
// Threads: any.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "header_text.hpp"

namespace hearth::docs {

/// A table of the fields, in the order in which an initialiser names them.
///
/// Errors: std::runtime_error naming a field without a comment.
[[nodiscard]] std::string field_table(const DeclaredStruct& declared);

/// A table of an enumeration's values, with the same errors.
[[nodiscard]] std::string value_table(const DeclaredEnum& declared);

/// The text of the page. `headers`: the texts of public headers by path.
///
/// Errors: std::runtime_error naming a struct of options that the page lacks, one that no header
/// declares, and a field without a comment.
[[nodiscard]] std::string options_page(const std::map<std::string, std::string>& headers);

}  // namespace hearth::docs
