// What visit() of a module calls for each of its tensors: any function of (path, tensor), without
// its type, so that a walk is compiled once a module, and a struct inside a function can be one.
// A parameter, never a variable: it refers to the function, which outlives the call. Threads: that
// of the call. Invariants: (1) a function sees which tensor is a Buffer; (2) a const module gives
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

/// Calls a function of some type with a path and a tensor.
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
  /// HEARTH_MODULE calls it first, with itself. Walks that have an enter_module() get it.
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
      return;  // the constructor says so
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

/// Made of any function that takes a const std::string& and a Tensor&, or a template's Part&.
class TensorVisitor final : public detail::VisitorCalls<Tensor, Buffer> {
 public:
  template <class Fn>
  requires(!std::same_as<std::remove_cvref_t<Fn>, TensorVisitor>)
      // NOLINTNEXTLINE(google-explicit-constructor, bugprone-forwarding-reference-overload)
      TensorVisitor(Fn&& fn)
  noexcept : VisitorCalls(fn) {}

  /// Of a module that is const, whose members are named in a function that is not.
  [[nodiscard]] static TensorVisitor reading(const ConstTensorVisitor& reader) noexcept {
    TensorVisitor visitor(reader);
    visitor.reader_ = &reader;
    return visitor;
  }
  /// That of reading(), or null.
  [[nodiscard]] const ConstTensorVisitor* reader() const noexcept { return reader_; }

 private:
  const ConstTensorVisitor* reader_ = nullptr;
};

/// The same of a function that takes a const Tensor&.
class ConstTensorVisitor final : public detail::VisitorCalls<const Tensor, const Buffer> {
 public:
  template <class Fn>
  requires(!std::same_as<std::remove_cvref_t<Fn>, ConstTensorVisitor>)
      // NOLINTNEXTLINE(google-explicit-constructor, bugprone-forwarding-reference-overload)
      ConstTensorVisitor(Fn&& fn)
  noexcept : VisitorCalls(fn) {}
};

}  // namespace hearth
