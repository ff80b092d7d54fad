// Shared ownership with the count inside the object: one word a handle, no control block.
// For Tensor, Pending, DeviceEndpoint and Parker only; everything else has one owner.
// Threads: handles are values; distinct handles to one object may be copied and dropped by
// different threads. Invariant: the object dies with its last handle, after every access by other
// holders.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include <hearth/runtime/base/atomics.hpp>

namespace hearth {

/// Base of objects that IntrusivePtr counts: `class Parker final : public RefCounted<Parker>`. A
/// class with subclasses needs a virtual destructor.
template <class Derived, class Atomics = detail::StdAtomics>
class RefCounted {
 public:
  RefCounted() = default;
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;

  // Relaxed: the caller holds a handle already, which orders this after the object's construction.
  void retain() const noexcept { count_.fetch_add(1, std::memory_order_relaxed); }

  void release() const noexcept {
    // Release half: this holder's accesses happen before the delete. Acquire half: the last holder
    // sees the release of every earlier fetch_sub here.
    if (count_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      std::default_delete<const Derived>{}(static_cast<const Derived*>(this));
    }
  }

  /// Returns the number of handles. Only 1 is stable, and only for the one holder.
  [[nodiscard]] std::uint32_t use_count() const noexcept {
    // Partner: the fetch_sub of release(), so that a count of 1 means the others are done.
    return count_.load(std::memory_order_acquire);
  }

 protected:
  ~RefCounted() = default;

 private:
  mutable typename Atomics::template Atomic<std::uint32_t> count_{0};
};

template <class T>
class IntrusivePtr {
 public:
  IntrusivePtr() noexcept = default;
  IntrusivePtr(std::nullptr_t) noexcept {}  // NOLINT(google-explicit-constructor)
  /// Adds a holder to an object that is already held or was just made.
  explicit IntrusivePtr(T* object) noexcept : object_(object) {
    if (object_ != nullptr) {
      object_->retain();
    }
  }
  IntrusivePtr(const IntrusivePtr& other) noexcept : IntrusivePtr(other.object_) {}
  IntrusivePtr(IntrusivePtr&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  template <class U, class = std::enable_if_t<std::is_convertible_v<U*, T*>>>
  IntrusivePtr(IntrusivePtr<U> other) noexcept  // NOLINT(google-explicit-constructor)
      : object_(other.detach()) {}
  IntrusivePtr& operator=(const IntrusivePtr& other) noexcept {
    return *this = IntrusivePtr(other);
  }
  IntrusivePtr& operator=(IntrusivePtr&& other) noexcept {
    IntrusivePtr taken(std::move(other));
    std::swap(object_, taken.object_);
    return *this;
  }
  ~IntrusivePtr() {
    if (object_ != nullptr) {
      object_->release();
    }
  }

  /// Takes over a count from detach().
  [[nodiscard]] static IntrusivePtr adopt(T* object) noexcept {
    IntrusivePtr pointer;
    pointer.object_ = object;
    return pointer;
  }
  /// Releases ownership of the count, for a field of plain data.
  [[nodiscard]] T* detach() noexcept { return std::exchange(object_, nullptr); }

  [[nodiscard]] T* get() const noexcept { return object_; }
  [[nodiscard]] T& operator*() const noexcept { return *object_; }
  [[nodiscard]] T* operator->() const noexcept { return object_; }
  [[nodiscard]] explicit operator bool() const noexcept { return object_ != nullptr; }
  friend bool operator==(const IntrusivePtr& a, const IntrusivePtr& b) noexcept = default;

 private:
  T* object_ = nullptr;
};

template <class T, class... Args>
[[nodiscard]] IntrusivePtr<T> make_intrusive(Args&&... args) {
  return IntrusivePtr<T>(std::make_unique<T>(std::forward<Args>(args)...).release());
}

}  // namespace hearth
