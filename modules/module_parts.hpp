// How visit() walks the members of a module: tensors, modules, and lists, tuples and optionals of
// them; members of other types are passed by. Header-internal: users write HEARTH_MODULE.
// Threads: any. Invariants: (1) the order is that of the members, front to back; (2) the same
// module always gives the same paths.
#pragma once

#include <hearth/modules/tensor_visitor.hpp>

#include <hearth/runtime/tensor.hpp>
#include <hearth/runtime/visit.hpp>

#include <array>
#include <concepts>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace hearth::detail {

/// What a layer has, with HEARTH_MODULE or without.
template <class T>
concept HasForward = requires {
  &T::forward;
}
|| requires(T& part, const Tensor& x) {
  part.forward(x);
};

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};

template <class T>
struct IsList : std::false_type {};
template <class T>
struct IsList<std::vector<T>> : std::true_type {};
template <class T, std::size_t kSize>
struct IsList<std::array<T, kSize>> : std::true_type {};

template <class T>
struct IsTuple : std::false_type {};
template <class... Parts>
struct IsTuple<std::tuple<Parts...>> : std::true_type {};

template <class T>
struct IsPointer : std::is_pointer<T> {};
template <class T>
struct IsPointer<std::unique_ptr<T>> : std::true_type {};
template <class T>
struct IsPointer<std::shared_ptr<T>> : std::true_type {};

template <class... Parts>
constexpr bool any_holds_tensors(std::type_identity<std::tuple<Parts...>>);

/// Whether a member of this type may contain parameters.
template <class T>
constexpr bool holds_tensors() {
  if constexpr (std::derived_from<T, Tensor> || HasVisit<T>) {
    return true;
  } else if constexpr (IsOptional<T>::value || IsList<T>::value) {
    return holds_tensors<typename T::value_type>();
  } else if constexpr (IsTuple<T>::value) {
    return any_holds_tensors(std::type_identity<T>{});
  } else {
    return false;
  }
}
template <class... Parts>
constexpr bool any_holds_tensors(std::type_identity<std::tuple<Parts...>> /*tuple*/) {
  return (holds_tensors<Parts>() || ...);
}

template <class... Parts>
constexpr bool any_unnamed_layer(std::type_identity<std::tuple<Parts...>>);

/// Whether a member of this type is a layer, or holds layers, without HEARTH_MODULE. Passed by, its
/// weights would be neither trained nor saved; an empty struct has none.
template <class T>
constexpr bool is_unnamed_layer() {
  if constexpr (std::derived_from<T, Tensor> || HasVisit<T>) {
    return false;
  } else if constexpr (IsOptional<T>::value || IsList<T>::value) {
    return is_unnamed_layer<typename T::value_type>();
  } else if constexpr (IsTuple<T>::value) {
    return any_unnamed_layer(std::type_identity<T>{});
  } else {
    return HasForward<T> && !std::is_empty_v<T>;
  }
}
template <class... Parts>
constexpr bool any_unnamed_layer(std::type_identity<std::tuple<Parts...>> /*tuple*/) {
  return (is_unnamed_layer<Parts>() || ...);
}

inline std::string join_path(const std::string& prefix, std::string_view name) {
  if (prefix.empty()) {
    return std::string(name);
  }
  std::string path;
  path.reserve(prefix.size() + 1 + name.size());
  path.append(prefix).append(1, '.').append(name);
  return path;
}

/// Takes the first name off a list like "inner, outer".
inline std::string_view take_name(std::string_view& names) {
  const std::size_t end = names.find(',');
  const std::string_view name = names.substr(0, end);
  names = end == std::string_view::npos ? std::string_view{} : names.substr(end + 1);
  names.remove_prefix(names.empty() ? 0 : names.find_first_not_of(' '));
  return name;
}

template <class Part, class Fn>
void visit_part(const std::string& path, Part& part, Fn& fn) {
  using Plain = std::remove_cv_t<Part>;
  static_assert(!IsPointer<Plain>::value,
                "a module owns its parts by value: no pointers in HEARTH_MODULE");
  if constexpr (std::derived_from<Plain, Tensor>) {
    fn(path, part);
  } else if constexpr (HasVisit<Part>) {
    part.visit(path, fn);
  } else if constexpr (!holds_tensors<Plain>()) {
    return;
  } else if constexpr (IsOptional<Plain>::value) {
    if (part.has_value()) {
      visit_part(path, *part, fn);
    }
  } else if constexpr (IsList<Plain>::value) {
    std::size_t index = 0;
    for (auto& element : part) {
      visit_part(join_path(path, std::to_string(index++)), element, fn);
    }
  } else {
    const auto visit_each = [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
      (visit_part(join_path(path, std::to_string(kIndex)), std::get<kIndex>(part), fn), ...);
    };
    visit_each(std::make_index_sequence<std::tuple_size_v<Plain>>{});
  }
}

template <class Member>
void visit_member(const std::string& path, Member& member, const TensorVisitor& fn) {
  if (fn.reader() != nullptr) {
    visit_part(path, std::as_const(member), *fn.reader());
  } else if constexpr (!std::is_const_v<Member>) {
    visit_part(path, member, fn);
  }
}

template <class... Members>
void visit_members([[maybe_unused]] const std::string& prefix,
                   [[maybe_unused]] std::string_view names,
                   [[maybe_unused]] const TensorVisitor& fn,
                   Members&... members) {
  static_assert((!is_unnamed_layer<std::remove_cv_t<Members>>() && ...),
                "a member has forward() and is no module: name its members with "
                "HEARTH_MODULE(Type, members...) inside of its struct");
  static_assert(((!std::is_const_v<Members> || !holds_tensors<std::remove_cv_t<Members>>()) && ...),
                "a member with tensors is const: training, loading and moving replace them");
  (visit_member(join_path(prefix, take_name(names)), members, fn), ...);
}

/// Names are said once, in the visit() of a module that is not const: nothing is written by it.
template <class Part>
void visit_const(const Part& part, const std::string& prefix, const ConstTensorVisitor& fn) {
  const_cast<Part&>(part).visit(prefix, TensorVisitor::reading(fn));
}

}  // namespace hearth::detail
