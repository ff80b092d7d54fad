// The page of options: each struct that a program fills in, with all its fields, as the headers
// declare them. Those of ops stand on the page of ops.
// Threads: any.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "header_text.hpp"

namespace hearth::docs {

/// A table of the fields, in the order in which an initialiser names them.
/// Errors: std::runtime_error naming a field without words.
[[nodiscard]] std::string field_table(const DeclaredStruct& declared);

/// The same of an enumeration's values.
[[nodiscard]] std::string value_table(const DeclaredEnum& declared);

/// `headers`: the texts of public headers by path.
/// Errors: std::runtime_error naming a struct of options that the page has not, one that no header
/// has, and a field without words.
[[nodiscard]] std::string options_page(const std::map<std::string, std::string>& headers);

}  // namespace hearth::docs
