// Whether a type has visit(), which HEARTH_MODULE gives a struct; what the compiler says where it
// is missing. Header-internal.
// Threads: any.
#pragma once

#include <string>

namespace hearth::detail {

/// Accepts whatever visit() hands out.
struct AnyVisitor {
  template <class T>
  void operator()(const std::string& path, T& tensor) const;
};

template <class T>
concept HasVisit = requires(T& part, const std::string& prefix, AnyVisitor& visitor) {
  part.visit(prefix, visitor);
};

/// For overloads and templates that take what is no module: the compiler says so in one sentence.
template <class Model>
constexpr bool refuse_no_module() {
  static_assert(sizeof(Model) == 0,
                "this model is no module: name its members with HEARTH_MODULE(Type, "
                "members...) in the public part of its struct");
  return true;
}

}  // namespace hearth::detail
