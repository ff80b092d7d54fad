// Reads public headers as text: the declared functions and structs, and their comments. It relies
// on the layout of clang-format and does not parse C++.
// Values. Threads: any.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hearth::docs {

/// A function that returns tensors.
struct DeclaredFunction {
  std::string name;
  std::vector<std::string> parameters;  ///< "axis = -1"; without the source location.
  std::string types;                    ///< The parameters as written.
  std::string section;                  ///< Section of the header: "creation".
  std::string doc;                      ///< The first sentence of its comment; may be empty.
};
/// All functions of a header, overloads too, in its order.
[[nodiscard]] std::vector<DeclaredFunction> functions_in(std::string_view header);

struct DeclaredField {
  std::string name;
  std::string type;
  std::string value;  ///< The default; may be empty.
  std::string doc;    ///< The comments above and after it.
};
struct DeclaredStruct {
  std::string name;
  std::string doc = {};                    ///< The comment above it.
  std::vector<std::string> lines = {};     ///< Its body.
  std::vector<DeclaredField> fields = {};  ///< Those of Config, or its own without one.
  std::string config = {};                 ///< `using Config = ...`, or empty.
  bool has_config = false;                 ///< `struct Config` in its body.
  bool is_class = false;
};
/// All structs and classes at namespace scope, except those in `detail`.
[[nodiscard]] std::vector<DeclaredStruct> structs_in(std::string_view header);

struct DeclaredEnum {
  std::string name;
  std::string doc;
  std::vector<DeclaredField> enumerators;  ///< Without types and values.
};
/// Every `enum class` at namespace scope, except those in `detail`.
[[nodiscard]] std::vector<DeclaredEnum> enums_in(std::string_view header);

/// The text after the first "Shapes:" in the comments of these lines, up to the next section.
[[nodiscard]] std::string shapes_in(const std::vector<std::string>& lines);
[[nodiscard]] std::string shapes_in(std::string_view doc);

/// The names in HEARTH_MODULE(Name, ...) of a header.
[[nodiscard]] std::vector<std::string> modules_in(std::string_view header);

}  // namespace hearth::docs
