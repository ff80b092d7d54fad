// A module is a plain struct that owns its weights by value and names its members once, with
// HEARTH_MODULE. visit() walks them for initialisation, files, optimizers, moves and replication.
// Owned by its holder. Threads: one at a time; publish() and adopt() transfer it.
// Invariants: (1) visit() follows the order in which the members are named; (2) a copy shares its
// tensors' values, a fork() does not; (3) paths are unique: a member is named once; (4) members
// that hold the same Tensor are tied (`model.head = model.embedding`): one parameter, under the
// first of their names.
// Every function here updates, counts, saves and moves a tied parameter once, and keeps it tied.
// Copies of one layer, also in a std::vector, are therefore tied: fork() each copy that needs its
// own weights. Buffers are never tied.
#pragma once

#include <hearth/modules/module_parts.hpp>
#include <hearth/modules/named_tensor.hpp>
#include <hearth/modules/tensor_ref.hpp>
#include <hearth/modules/tensor_visitor.hpp>

#include <hearth/runtime/buffer.hpp>
#include <hearth/runtime/device.hpp>
#include <hearth/runtime/model_tensor.hpp>
#include <hearth/runtime/tensor.hpp>
#include <hearth/runtime/tensor_access.hpp>
#include <hearth/runtime/tied_tensors.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

/// Names the members of a module, any number of them, in the public part of the struct:
///
///   struct Classifier {
///     hearth::Linear inner, outer;
///     HEARTH_MODULE(Classifier, inner, outer)
///   };
///
/// Members that are not named are neither trained, moved nor saved. HEARTH_MODULE in a derived
/// class replaces that of its base, so it names the base's members too. Without its own
/// HEARTH_MODULE a derived class has its base's members only.
///
/// The macro adds visit(prefix, fn), which calls fn(path, tensor) for every tensor. Paths:
/// - "inner.weight" for a tensor `weight` of a member `inner`;
/// - "blocks.0.weight" in a std::vector, array, deque, list, pair or tuple;
/// - "heads.left.weight" in a std::map, in the order of its keys (strings or integers);
/// - the path of the content, if any, for a std::optional.
///
/// In a const module the tensor is const. If fn takes it as `auto&`, its type distinguishes a
/// Buffer (state that is not trained) from a Tensor. Members without tensors (options, numbers) are
/// skipped. Pointers, and tensors or layers in other types (std::variant, std::unordered_map), do
/// not compile. The struct may be local to a function. module_name() returns "Classifier", for
/// messages.
///
/// Errors: visit() throws ArgumentError if the key of a map is empty or has a dot.
#define HEARTH_MODULE(Type, ...)                                                               \
  static constexpr std::string_view module_name() noexcept {                                   \
    return #Type;                                                                              \
  }                                                                                            \
  void visit(const std::string& hearth_prefix, ::hearth::TensorVisitor hearth_fn) {            \
    static_assert(::hearth::detail::kBeginsWithItsStruct<Type, decltype(*this)>,               \
                  "HEARTH_MODULE begins with the name of its struct, before the members");     \
    static_assert(::hearth::detail::are_distinct(#__VA_ARGS__),                                \
                  "HEARTH_MODULE names a member twice");                                       \
    hearth_fn.enter_module(this, sizeof(*this));                                               \
    ::hearth::detail::visit_members(                                                           \
        hearth_prefix, #__VA_ARGS__, hearth_fn __VA_OPT__(, ) __VA_ARGS__);                    \
  }                                                                                            \
  void visit(const std::string& hearth_prefix, ::hearth::ConstTensorVisitor hearth_fn) const { \
    ::hearth::detail::visit_const(*this, hearth_prefix, hearth_fn);                            \
  }

namespace hearth {

/// A type with visit(): a layer, a model, or an optimizer (its state).
template <class T>
concept Module = detail::HasVisit<T> && detail::HasVisit<const T>;

/// Returns the tensor that was passed to a layer's forward(Arg x), moved out of an rvalue. For
/// layers that pass x on unchanged. `layer` is their name, for the error.
///
/// Errors: ArgumentError for a number.
[[nodiscard]] Tensor taken(const Arg& x, std::string_view layer);

namespace detail {
/// Copies the values to new memory on `device`, without a link to any tape.
[[nodiscard]] Tensor forked(const Tensor& tensor, const Device& device, SourceLoc loc);
/// Casts the values to another type; gradients flow through the cast.
[[nodiscard]] Tensor with_dtype(const Tensor& tensor, DType dtype, SourceLoc loc);
/// The dtype of a member in a module converted to `dtype`. A tensor of no floats keeps its own, and
/// a running statistic gets accumulation_dtype().
[[nodiscard]] DType member_dtype(const Tensor& member, DType dtype);
/// Checks that a copy of `from` can replace `to`.
/// Errors: ArgumentError naming the path otherwise.
void require_copyable(const std::string& from_path,
                      const Tensor& from,
                      const std::string& to_path,
                      const Tensor& to,
                      SourceLoc loc);
[[noreturn]] void throw_different_counts(std::size_t from, std::size_t to, SourceLoc loc);
}  // namespace detail

/// Like visit(), but calls fn once per tensor: a tied tensor is visited under its first name only.
template <Module Model, class Fn>
void visit_once(const Model& model, const std::string& prefix, Fn&& fn) {
  detail::TiedTensors tied;
  model.visit(prefix, [&]<class Part>(const std::string& path, Part& tensor) {
    if (std::is_same_v<Part, const Buffer> || tied.meet(tensor).is_first) {
      fn(path, tensor);
    }
  });
}

namespace detail {
/// The first names of all parameters that are frozen under at least one name.
template <Module Model>
[[nodiscard]] std::set<std::string> frozen_paths(const Model& model) {
  std::set<std::string> frozen;
  std::vector<std::string> paths;  // indexed by TiedTensors::Place::number
  TiedTensors tied;
  model.visit("", [&]<class Part>(const std::string& path, Part& tensor) {
    if constexpr (!std::is_same_v<Part, const Buffer>) {
      const TiedTensors::Place place = tied.meet(tensor);
      if (place.is_first) {
        paths.push_back(path);
      }
      if (TensorAccess::has_mark(tensor, MemberMark::frozen)) {
        frozen.insert(paths[place.number]);
      }
    }
  });
  return frozen;
}
}  // namespace detail

/// Returns a mutable reference to each tensor of a module, once each, in visit order.
template <Module Model>
[[nodiscard]] std::vector<TensorRef> tensor_refs(Model& model) {
  std::vector<TensorRef> all;
  std::vector<std::size_t> places;  // indexed by TiedTensors::Place::number
  detail::TiedTensors tied;
  model.visit("", [&]<class Part>(const std::string& path, Part& tensor) {
    if (std::is_same_v<Part, Buffer>) {
      all.push_back({.path = path, .tensor = &tensor});
    } else if (const detail::TiedTensors::Place place = tied.meet(tensor); place.is_first) {
      places.push_back(all.size());
      all.push_back({.path = path, .tensor = &tensor});
    } else {
      all[places[place.number]].others.push_back(&tensor);
    }
  });
  return all;
}

/// Returns a mutable reference to each parameter (all tensors but Buffers), once each, in visit
/// order. The gradients of value_and_grad have the same order. TensorRef::is_trained() selects
/// floats that are not frozen.
template <Module Model>
[[nodiscard]] std::vector<TensorRef> parameter_refs(Model& model) {
  std::vector<TensorRef> all;
  detail::TiedTensors tied;
  model.visit("", [&]<class Part>(const std::string& path, Part& tensor) {
    if constexpr (std::is_same_v<Part, Buffer>) {
      return;
    } else if (const detail::TiedTensors::Place place = tied.meet(tensor); place.is_first) {
      all.push_back({.path = path, .tensor = &tensor});
    } else {
      all[place.number].others.push_back(&tensor);
    }
  });
  return all;
}

/// Returns each tensor of a module with its path, once each, in visit order. The tensors share the
/// values.
template <Module Model>
[[nodiscard]] std::vector<NamedTensor> named_tensors(const Model& model) {
  std::vector<NamedTensor> all;
  visit_once(model, "", [&](const std::string& path, const Tensor& tensor) {
    all.push_back({path, tensor});
  });
  return all;
}
/// Returns each parameter (all tensors but Buffers) with its path, once each, in visit order.
template <Module Model>
[[nodiscard]] std::vector<NamedTensor> named_parameters(const Model& model) {
  std::vector<NamedTensor> all;
  visit_once(model, "", [&]<class Part>(const std::string& path, Part& tensor) {
    if constexpr (!std::is_same_v<Part, const Buffer>) {
      all.push_back({path, tensor});
    }
  });
  return all;
}

/// Counts the elements of all trained tensors. Tied tensors count once; Buffers and frozen tensors
/// do not count.
template <Module Model>
[[nodiscard]] std::int64_t parameter_count(const Model& model,
                                           SourceLoc loc = SourceLoc::current()) {
  std::int64_t count = 0;
  const std::set<std::string> frozen = detail::frozen_paths(model);
  visit_once(model, "", [&]<class Part>(const std::string& path, Part& tensor) {
    detail::require_tensor("parameter_count", path, tensor, loc);
    const bool is_trained = !std::is_same_v<Part, const Buffer> && !frozen.contains(path);
    count += is_trained ? tensor.element_count() : 0;
  });
  return count;
}

/// Sets each tensor's path, so that device errors name the parameter.
///
/// Threads: call before other threads share the tensors.
template <Module Model>
void set_paths(const Model& model,
               const std::string& prefix = "",
               SourceLoc loc = SourceLoc::current()) {
  visit_once(model, prefix, [loc](const std::string& path, const Tensor& tensor) {
    detail::require_tensor("set_paths", path, tensor, loc);
    tensor.set_path(path);
  });
}

namespace detail {
/// Sets paths relative to the layer, until a model sets full ones. Called by a layer's constructor.
template <Module Layer>
void set_first_paths(const Layer& layer, SourceLoc loc = SourceLoc::current()) {
  visit_once(layer, "", [loc](const std::string& path, const Tensor& tensor) {
    TensorAccess::set_first_path(tensor, path, loc);
  });
}
}  // namespace detail

/// Publishes all tensors, so that another thread may adopt and use the module. A flush point.
template <Module Model>
void publish(const Model& model, SourceLoc loc = SourceLoc::current()) {
  visit_once(model, "", [loc](const std::string& path, const Tensor& tensor) {
    detail::require_tensor("publish", path, tensor, loc);
    tensor.publish();
  });
}

/// Makes the calling thread's stream the home of a module that another thread published.
template <Module Model>
void adopt(Model& model, SourceLoc loc = SourceLoc::current()) {
  for (const TensorRef& ref : tensor_refs(model)) {
    detail::require_tensor("adopt", ref.path, *ref.tensor, loc);
    const detail::SoleName sole(ref);  // adopt() has no effect while copies exist
    ref.tensor->adopt();
  }
}

// Overloads for types that are no modules: each fails with a readable static_assert.
template <class Model>
requires(!Module<Model>) std::int64_t parameter_count(const Model& /*model*/) {
  static_assert(detail::refuse_no_module<Model>());
  return 0;
}
template <class Model>
requires(!Module<Model>) Model fork(const Model& model, const Device& /*device*/) {
  static_assert(detail::refuse_no_module<Model>());
  return model;
}
template <class Model>
requires(!Module<Model>) Model to_dtype(const Model& model, DType /*dtype*/) {
  static_assert(detail::refuse_no_module<Model>());
  return model;
}

/// Deep copy on `device`, which may be the module's own. Copy and original share nothing. Sets the
/// copy's paths.
///
/// Errors: ArgumentError naming a tensor that is empty or tracked by value_and_grad, since a fork
/// would cut its tape; DeviceError when the copy is read.
template <Module Model>
[[nodiscard]] Model fork(const Model& model,
                         const Device& device,
                         SourceLoc loc = SourceLoc::current()) {
  Model copy = model;
  for (const TensorRef& ref : tensor_refs(copy)) {
    detail::require_tensor("fork", ref.path, *ref.tensor, loc);
    const detail::SoleName sole(ref);
    const bool is_unnamed = detail::TensorAccess::is_unnamed_weight(*ref.tensor);
    detail::require_untracked("fork", ref.path, *ref.tensor, loc);
    *ref.tensor = detail::forked(*ref.tensor, device, loc);
    detail::TensorAccess::set_copied_path(*ref.tensor, is_unnamed, ref.path, loc);
  }
  return copy;
}

/// Copies the module with its float tensors in another dtype. Tensors that already have it are
/// shared. Running statistics (running_statistic()) become f32 if `dtype` has 16 bits.
///
/// Inside value_and_grad this casts each tensor, and gradients flow through the cast.
/// `to_dtype(tracked, DType::bf16).forward(x)` trains f32 weights by a forward pass in bf16.
template <Module Model>
[[nodiscard]] Model to_dtype(const Model& model,
                             DType dtype,
                             SourceLoc loc = SourceLoc::current()) {
  Model copy = model;
  for (const TensorRef& ref : tensor_refs(copy)) {
    Tensor& tensor = *ref.tensor;
    detail::require_tensor("to_dtype", ref.path, tensor, loc);
    const DType wanted = detail::member_dtype(tensor, dtype);
    if (tensor.dtype() != wanted) {
      const detail::SoleName sole(ref);
      const bool is_unnamed = detail::TensorAccess::is_unnamed_weight(tensor);
      tensor = detail::with_dtype(tensor, wanted, loc);
      detail::TensorAccess::set_copied_path(tensor, is_unnamed, ref.path, loc);
    }
  }
  return copy;
}

/// Copies the values of `from` into `to`, which keeps its own memory, device and dtypes.
///
/// Errors: ArgumentError when paths or shapes differ, or value_and_grad tracks `to`; `to` is then
/// unchanged.
template <Module From, Module To>
void copy_values(const From& from, To& to, SourceLoc loc = SourceLoc::current()) {
  const std::vector<NamedTensor> sources = named_tensors(from);
  const std::vector<TensorRef> targets = tensor_refs(to);
  for (std::size_t i = 0; i < std::min(sources.size(), targets.size()); ++i) {
    detail::require_untracked("copy_values", targets[i].path, *targets[i].tensor, loc);
    detail::require_copyable(
        sources[i].name, sources[i].tensor, targets[i].path, *targets[i].tensor, loc);
  }
  if (targets.size() != sources.size()) {
    detail::throw_different_counts(sources.size(), targets.size(), loc);
  }
  for (std::size_t i = 0; i < targets.size(); ++i) {
    Tensor& tensor = *targets[i].tensor;
    const detail::SoleName sole(targets[i]);
    const DType dtype = tensor.dtype();
    const Tensor values = detail::forked(sources[i].tensor, tensor.device(), loc);
    tensor = detail::with_dtype(values, dtype, loc);
    tensor.set_path(targets[i].path);
  }
}

}  // namespace hearth
