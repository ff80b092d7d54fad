// A module is a plain struct that owns its weights by value and names its members once, with
// HEARTH_MODULE. The walk over them, visit(), serves initialisation, files, optimizers, moves and
// replication.
// Owned by its holder. Threads: one at a time; publish() and adopt() hand it over.
// Invariants: (1) visit() goes through the members in the order in which they are named; (2) a
// copy shares its weights' values, fork() does not; (3) paths are unique: a member is named once;
// (4) members that hold one and the same Tensor (tied weights: `model.head = model.embedding`) are
// one parameter under the first of their names, and stay so: it is updated, counted, saved and
// moved once, and every function here leaves them tied. Copies of a layer, in a std::vector too,
// are tied therefore: fork() each that is to have weights of its own. Buffers are never tied.
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

/// Names the members of a module, any number of them, in a public part of the struct:
///
///   struct Classifier {
///     hearth::Linear inner, outer;
///     HEARTH_MODULE(Classifier, inner, outer)
///   };
///
/// A member that is not named is no part of the module: it is neither trained, moved nor saved. A
/// derived class names its base's members too: its HEARTH_MODULE takes the place of its base's, and
/// without one of its own it has its base's members alone.
///
/// It adds visit(prefix, fn), which calls fn(path, tensor) for every tensor: "inner.weight" for a
/// tensor `weight` of a member `inner`, "blocks.0.weight" in a std::vector, array, deque, list,
/// pair or tuple, "heads.left.weight" in a std::map, in the order of its keys (strings or
/// integers); a std::optional has its content's path, or none. The tensor is const where the module
/// is; fn may take it as an auto&, and sees then which one is a Buffer: state that is not trained.
/// Members without tensors (options, numbers) are passed by; pointers, and tensors or layers in
/// other types (std::variant, std::unordered_map), do not compile. The struct may stand inside a
/// function. module_name() is "Classifier", for messages.
///
/// Errors: visit() throws ArgumentError for a key of a map that is empty or has a dot.
#define HEARTH_MODULE(Type, ...)                                                               \
  static constexpr std::string_view module_name() noexcept {                                   \
    return #Type;                                                                              \
  }                                                                                            \
  void visit(const std::string& hearth_prefix, ::hearth::TensorVisitor hearth_fn) {            \
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

/// What has visit(): layers, models, optimizers (their state).
template <class T>
concept Module = detail::HasVisit<T> && detail::HasVisit<const T>;

/// The tensor that a layer's forward(Arg x) was given, moved out of an rvalue: for layers of your
/// own too, that pass x on as it is. `layer` is their name, for the error.
///
/// Errors: ArgumentError for a number.
[[nodiscard]] Tensor taken(const Arg& x, std::string_view layer);

namespace detail {
/// The same values in memory of their own on `device`, cut from any tape.
[[nodiscard]] Tensor forked(const Tensor& tensor, const Device& device, SourceLoc loc);
/// Casts the values to another type; gradients flow.
[[nodiscard]] Tensor with_dtype(const Tensor& tensor, DType dtype, SourceLoc loc);
/// The type of a member in a module of this type: its own where it is of no floats, and one that
/// adds up small changes where it has to.
[[nodiscard]] DType member_dtype(const Tensor& member, DType dtype);
/// Errors: ArgumentError naming the path, when a copy of `from` cannot stand in for `to`.
void require_copyable(const std::string& from_path,
                      const Tensor& from,
                      const std::string& to_path,
                      const Tensor& to,
                      SourceLoc loc);
[[noreturn]] void throw_different_counts(std::size_t from, std::size_t to, SourceLoc loc);
}  // namespace detail

/// visit(), but calls fn once for each tensor: tied weights have the first of their names alone.
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
/// The first names of the parameters that are frozen under one of their names.
template <Module Model>
[[nodiscard]] std::set<std::string> frozen_paths(const Model& model) {
  std::set<std::string> frozen;
  std::vector<std::string> paths;  // by number of the tied
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

/// The tensors of a module that can be replaced through these, each once, in visit order.
template <Module Model>
[[nodiscard]] std::vector<TensorRef> tensor_refs(Model& model) {
  std::vector<TensorRef> all;
  std::vector<std::size_t> places;  // by number of the tied
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

/// Those of them that are parameters: all but Buffers. The gradients of value_and_grad stand in
/// this order. TensorRef::is_trained() holds for floats that are not frozen.
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

/// Every tensor of a module with its path, each once, in visit order. The tensors share the values.
template <Module Model>
[[nodiscard]] std::vector<NamedTensor> named_tensors(const Model& model) {
  std::vector<NamedTensor> all;
  visit_once(model, "", [&](const std::string& path, const Tensor& tensor) {
    all.push_back({path, tensor});
  });
  return all;
}
/// Those of them that are parameters: all but Buffers.
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

/// How many numbers a module trains: those of its tensors, tied ones once, without Buffers and
/// without those that are frozen.
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

/// Gives every tensor its path, so that errors on a device name the parameter.
/// Threads: before other threads share the tensors.
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
/// What a layer's constructor calls: paths in the layer itself, until a model names it.
template <Module Layer>
void set_first_paths(const Layer& layer, SourceLoc loc = SourceLoc::current()) {
  visit_once(layer, "", [loc](const std::string& path, const Tensor& tensor) {
    TensorAccess::set_first_path(tensor, path, loc);
  });
}
}  // namespace detail

/// A flush point: from here on another thread may use the module.
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
    const detail::SoleName sole(ref);  // adopt() does nothing while there are copies
    ref.tensor->adopt();
  }
}

// For what is no module.
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

/// A deep copy on `device` (the module's own device too): the two share nothing. Sets paths.
///
/// Errors: ArgumentError naming a tensor that is empty, or that value_and_grad tracks: a fork is
/// cut from the tape; DeviceError when the copy is read.
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

/// A copy whose float tensors have another type. Those that have it already are shared. Running
/// statistics (running_statistic()) become f32 where the type has 16 bits.
///
/// Inside value_and_grad it is a cast of each tensor, through which gradients flow:
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

/// Gives `to` the values of `from`, in memory of its own, on its own device and in its own types.
///
/// Errors: ArgumentError when paths or shapes differ, or value_and_grad tracks `to`; then `to` is
/// as it was.
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
