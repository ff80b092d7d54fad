// Compile-time walk of visit() over the members of a module: tensors, modules, and lists, maps,
// tuples and optionals of them. Members without tensors are skipped. Header-internal: users write
// HEARTH_MODULE.
// Threads: any.
// Invariants: (1) members are visited in declaration order; (2) one module always yields the same
// paths.
#pragma once

#include <hearth/modules/tensor_visitor.hpp>

#include <hearth/runtime/tensor.hpp>
#include <hearth/runtime/visit.hpp>

#include <algorithm>
#include <array>
#include <concepts>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace hearth::detail {

/// Whether a type has forward(), as every layer does, with or without HEARTH_MODULE.
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
struct ListOf : std::true_type {
  using Element = T;
};
template <class T>
struct IsList<std::vector<T>> : ListOf<T> {};
template <class T>
struct IsList<std::deque<T>> : ListOf<T> {};
template <class T>
struct IsList<std::list<T>> : ListOf<T> {};
template <class T, std::size_t kSize>
struct IsList<std::array<T, kSize>> : ListOf<T> {};
template <class T, std::size_t kSize>
struct IsList<T[kSize]> : ListOf<T> {};

/// A key type of a std::map that can be a component of a path.
template <class T>
concept PathKey = std::same_as<T, std::string> ||
    (std::integral<T> && !std::same_as<T, bool> && !std::same_as<T, char>);

template <class T>
struct IsMap : std::false_type {};
template <PathKey Key, class T, class Less>
struct IsMap<std::map<Key, T, Less>> : std::true_type {};

template <class T>
struct IsTuple : std::false_type {
  using Parts = std::tuple<>;
};
template <class... All>
struct IsTuple<std::tuple<All...>> : std::true_type {
  using Parts = std::tuple<All...>;
};
template <class A, class B>
struct IsTuple<std::pair<A, B>> : std::true_type {
  using Parts = std::tuple<A, B>;
};

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
  } else if constexpr (IsOptional<T>::value) {
    return holds_tensors<typename T::value_type>();
  } else if constexpr (IsList<T>::value) {
    return holds_tensors<typename IsList<T>::Element>();
  } else if constexpr (IsMap<T>::value) {
    return holds_tensors<typename T::mapped_type>();
  } else if constexpr (IsTuple<T>::value) {
    return any_holds_tensors(std::type_identity<typename IsTuple<T>::Parts>{});
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

/// Whether a member of this type is a layer without HEARTH_MODULE, or holds one. The walk would
/// skip it, so its weights would be neither trained nor saved. An empty struct has no weights.
template <class T>
constexpr bool is_unnamed_layer() {
  if constexpr (std::derived_from<T, Tensor> || HasVisit<T>) {
    return false;
  } else if constexpr (IsOptional<T>::value) {
    return is_unnamed_layer<typename T::value_type>();
  } else if constexpr (IsList<T>::value) {
    return is_unnamed_layer<typename IsList<T>::Element>();
  } else if constexpr (IsMap<T>::value) {
    return is_unnamed_layer<typename T::mapped_type>();
  } else if constexpr (IsTuple<T>::value) {
    return any_unnamed_layer(std::type_identity<typename IsTuple<T>::Parts>{});
  } else {
    return HasForward<T> && !std::is_empty_v<T>;
  }
}
template <class... Parts>
constexpr bool any_unnamed_layer(std::type_identity<std::tuple<Parts...>> /*tuple*/) {
  return (is_unnamed_layer<Parts>() || ...);
}

/// Whether a complete type is a layer, or holds tensors or layers.
template <class T>
constexpr bool is_worth_a_visit() {
  if constexpr (requires { sizeof(T); }) {
    return holds_tensors<T>() || is_unnamed_layer<T>();
  } else {
    return false;
  }
}

template <class... Parts>
constexpr bool any_hidden(std::type_identity<std::tuple<Parts...>>);
template <class T>
struct ArgumentsOf {
  static constexpr bool kHoldTensors = false;
};
template <template <class...> class Holder, class... Parts>
struct ArgumentsOf<Holder<Parts...>> {
  static constexpr bool kHoldTensors =
      (is_worth_a_visit<Parts>() || ...) || any_hidden(std::type_identity<std::tuple<Parts...>>{});
};

/// Whether a member of this type holds tensors that visit() cannot reach: in a std::unordered_map
/// (no order), a std::variant, or pointers in a list.
template <class T>
constexpr bool hides_tensors() {
  if constexpr (!requires { sizeof(T); }) {  // NOLINT(bugprone-branch-clone): asked first
    return false;
  } else if constexpr (std::is_pointer_v<T>) {
    return is_worth_a_visit<std::remove_cv_t<std::remove_pointer_t<T>>>();
  } else if constexpr (std::derived_from<T, Tensor> || HasVisit<T> || is_unnamed_layer<T>()) {
    return false;
  } else if constexpr (IsOptional<T>::value) {
    return hides_tensors<typename T::value_type>();
  } else if constexpr (IsList<T>::value) {
    return hides_tensors<typename IsList<T>::Element>();
  } else if constexpr (IsMap<T>::value) {
    return hides_tensors<typename T::mapped_type>();
  } else if constexpr (IsTuple<T>::value) {
    return any_hidden(std::type_identity<typename IsTuple<T>::Parts>{});
  } else {
    return !std::is_empty_v<T> && ArgumentsOf<T>::kHoldTensors;
  }
}
template <class... Parts>
constexpr bool any_hidden(std::type_identity<std::tuple<Parts...>> /*tuple*/) {
  return (hides_tensors<Parts>() || ...);
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

/// The path of a std::map element with this key.
/// Errors: ArgumentError if the key is empty or has a dot.
[[nodiscard]] std::string key_path(const std::string& prefix, const std::string& key);

/// Removes and returns the first name of a list like "inner, outer".
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
  } else if constexpr (IsMap<Plain>::value) {
    for (auto& element : part) {
      if constexpr (std::is_same_v<typename Plain::key_type, std::string>) {
        visit_part(key_path(path, element.first), element.second, fn);
      } else {
        visit_part(join_path(path, std::to_string(element.first)), element.second, fn);
      }
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

/// Whether HEARTH_MODULE(Struct, ...) names the struct in which it is written, or a base of it. A
/// member in its place does not compile, since it is no type; it would not be trained.
template <class Struct, class This>
inline constexpr bool kBeginsWithItsStruct = std::is_base_of_v<Struct, std::remove_cvref_t<This>>;

/// Whether all names in a list like "inner, outer" differ.
constexpr bool are_distinct(std::string_view names) {
  const auto next = [](std::string_view& rest) {
    const std::size_t end = std::min(rest.find(','), rest.size());
    std::string_view name = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    while (name.starts_with(' ')) {
      name.remove_prefix(1);
    }
    while (name.ends_with(' ')) {
      name.remove_suffix(1);
    }
    return name;
  };
  while (!names.empty()) {
    const std::string_view name = next(names);
    for (std::string_view rest = names; !rest.empty();) {
      if (next(rest) == name) {
        return false;
      }
    }
  }
  return true;
}

template <class... Members>
void visit_members([[maybe_unused]] const std::string& prefix,
                   [[maybe_unused]] std::string_view names,
                   [[maybe_unused]] const TensorVisitor& fn,
                   Members&... members) {
  static_assert((!is_unnamed_layer<std::remove_cv_t<Members>>() && ...),
                "a member has forward() and is no module: name its members with "
                "HEARTH_MODULE(Type, members...) in the public part of its struct");
  static_assert(((!hides_tensors<std::remove_cv_t<Members>>() ||
                  IsPointer<std::remove_cv_t<Members>>::value) &&
                 ...),
                "a member holds layers or tensors where visit() does not go, so they would be "
                "neither trained "
                "nor saved: hold them by value, in a std::vector, array, deque, list, optional, "
                "pair, tuple, or "
                "a std::map whose keys are strings or integers");
  static_assert(((!std::is_const_v<Members> || !holds_tensors<std::remove_cv_t<Members>>()) && ...),
                "a member with tensors is const: training, loading and moving replace them");
  (visit_member(join_path(prefix, take_name(names)), members, fn), ...);
}

/// Visits a const module through its mutable visit(), which alone names the members. The const_cast
/// is safe: a reading visitor writes nothing.
template <class Part>
void visit_const(const Part& part, const std::string& prefix, const ConstTensorVisitor& fn) {
  const_cast<Part&>(part).visit(prefix, TensorVisitor::reading(fn));
}

}  // namespace hearth::detail
