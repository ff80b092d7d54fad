// Type-erased visitor: wraps any function of (path, tensor) for visit() of a module. Each walk is
// compiled once per module, and a struct inside a function can be a module.
// A parameter, never a variable: it refers to the function, which must outlive the call.
// Threads: those of the call.
// Invariants: (1) the function distinguishes a Buffer from a Tensor; (2) a const module passes
// const tensors.
#pragma once

#include <hearth/runtime/buffer.hpp>
#include <hearth/runtime/tensor.hpp>

#include <concepts>
#include <cstddef>
#include <memory>
#include <string>
#include <type_traits>

namespace hearth {

class ConstTensorVisitor;

namespace detail {

/// Calls a type-erased function with a path and a tensor.
template <class AnyTensor, class AnyBuffer>
class VisitorCalls {
 public:
  template <class Fn>
  explicit VisitorCalls(Fn& fn) noexcept
      : fn_(address_of(fn)),
        on_tensor_(&call<Fn, AnyTensor>),
        on_buffer_(&call<Fn, AnyBuffer>),
        on_module_(&enter<Fn>) {
    constexpr bool kCanBeCalled = std::is_invocable_v<Fn&, const std::string&, AnyTensor&> &&
                                  std::is_invocable_v<Fn&, const std::string&, AnyBuffer&>;
    static_assert(kCanBeCalled,
                  "visit() calls a function of (const std::string& path, Tensor& tensor), of a "
                  "const module with a const Tensor&");
  }

  void operator()(const std::string& path, AnyTensor& tensor) const {
    on_tensor_(fn_, path, tensor);
  }
  void operator()(const std::string& path, AnyBuffer& buffer) const {
    on_buffer_(fn_, path, buffer);
  }
  /// Called first by HEARTH_MODULE, with the address and size of the module. Forwarded to walks
  /// that have an enter_module().
  void enter_module(const void* module, std::size_t size_bytes) const {
    on_module_(fn_, module, size_bytes);
  }

 private:
  template <class Fn>
  static void* address_of(Fn& fn) noexcept {
    if constexpr (std::is_function_v<Fn>) {
      return reinterpret_cast<void*>(&fn);
    } else {
      return const_cast<void*>(static_cast<const void*>(std::addressof(fn)));
    }
  }
  template <class Fn, class Part>
  static void call([[maybe_unused]] void* fn,
                   [[maybe_unused]] const std::string& path,
                   [[maybe_unused]] Part& part) {
    if constexpr (!std::is_invocable_v<Fn&, const std::string&, Part&>) {
      return;  // refused by the static_assert in the constructor
    } else if constexpr (std::is_function_v<Fn>) {
      reinterpret_cast<Fn*>(fn)(path, part);
    } else {
      (*static_cast<Fn*>(fn))(path, part);
    }
  }

  template <class Fn>
  static void enter([[maybe_unused]] void* fn,
                    [[maybe_unused]] const void* module,
                    [[maybe_unused]] std::size_t size_bytes) {
    if constexpr (requires(Fn & walk) { walk.enter_module(module, size_bytes); }) {
      static_cast<Fn*>(fn)->enter_module(module, size_bytes);
    }
  }

  void* fn_;
  void (*on_tensor_)(void*, const std::string&, AnyTensor&);
  void (*on_buffer_)(void*, const std::string&, AnyBuffer&);
  void (*on_module_)(void*, const void*, std::size_t);
};

}  // namespace detail

/// Visitor of a mutable module. Wraps a function that takes (const std::string&, Tensor&), or a
/// template that takes any Part&.
class TensorVisitor final : public detail::VisitorCalls<Tensor, Buffer> {
 public:
  template <class Fn>
  requires(!std::same_as<std::remove_cvref_t<Fn>, TensorVisitor>)
      // NOLINTNEXTLINE(google-explicit-constructor, bugprone-forwarding-reference-overload)
      TensorVisitor(Fn&& fn)
  noexcept : VisitorCalls(fn) {}

  /// A visitor for a const module, whose members are named in the mutable visit() alone.
  [[nodiscard]] static TensorVisitor reading(const ConstTensorVisitor& reader) noexcept {
    TensorVisitor visitor(reader);
    visitor.reader_ = &reader;
    return visitor;
  }
  /// The visitor that was given to reading(), or null.
  [[nodiscard]] const ConstTensorVisitor* reader() const noexcept { return reader_; }

 private:
  const ConstTensorVisitor* reader_ = nullptr;
};

/// Visitor of a const module. Wraps a function that takes (const std::string&, const Tensor&).
class ConstTensorVisitor final : public detail::VisitorCalls<const Tensor, const Buffer> {
 public:
  template <class Fn>
  requires(!std::same_as<std::remove_cvref_t<Fn>, ConstTensorVisitor>)
      // NOLINTNEXTLINE(google-explicit-constructor, bugprone-forwarding-reference-overload)
      ConstTensorVisitor(Fn&& fn)
  noexcept : VisitorCalls(fn) {}
};

}  // namespace hearth
