// UniqueFunction: a move-only callable, so it may own promises, tensors and threads. Callables up
// to 48 bytes that move without throwing are stored inside; larger ones on the heap. Threads: a
// value; one at a time. Invariant: a moved-from function is empty.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include <hearth/runtime/base/assert.hpp>

namespace hearth {

template <class Signature>
class UniqueFunction;

template <class R, class... Args>
class UniqueFunction<R(Args...)> {
 public:
  static constexpr std::size_t kInlineBytes = 48;

  UniqueFunction() noexcept = default;
  UniqueFunction(std::nullptr_t) noexcept {}  // NOLINT(google-explicit-constructor)

  template <class F,
            class = std::enable_if_t<std::conjunction_v<
                std::negation<std::is_same<std::remove_cvref_t<F>, UniqueFunction>>,
                std::is_invocable_r<R, std::decay_t<F>&, Args...>>>>
  UniqueFunction(F&& function) {  // NOLINT(google-explicit-constructor)
    using Stored = std::decay_t<F>;
    if constexpr (kFitsInside<Stored>) {
      ::new (static_cast<void*>(storage_.bytes)) Stored(std::forward<F>(function));
      table_ = &kInsideTable<Stored>;
    } else {
      using Owner = std::unique_ptr<Stored>;
      ::new (static_cast<void*>(storage_.bytes))
          Owner(std::make_unique<Stored>(std::forward<F>(function)));
      table_ = &kHeapTable<Stored>;
    }
  }

  UniqueFunction(UniqueFunction&& other) noexcept { take(other); }
  UniqueFunction& operator=(UniqueFunction&& other) noexcept {
    if (this != &other) {
      clear();
      take(other);
    }
    return *this;
  }
  UniqueFunction(const UniqueFunction&) = delete;
  UniqueFunction& operator=(const UniqueFunction&) = delete;
  ~UniqueFunction() { clear(); }

  /// Calls the function. It must not be empty.
  R operator()(Args... args) {
    HEARTH_ASSERT(table_ != nullptr, "an empty UniqueFunction was called");
    return table_->call(storage_.bytes, std::forward<Args>(args)...);
  }

  [[nodiscard]] explicit operator bool() const noexcept { return table_ != nullptr; }

 private:
  struct Storage {
    Storage() noexcept {}  // NOLINT: not cleared, that would cost more than the call
    alignas(std::max_align_t) std::byte bytes[kInlineBytes];
  };
  struct Table {
    R (*call)(void* storage, Args&&... args);
    void (*move)(void* to, void* from) noexcept;  // destroys `from`
    void (*destroy)(void* storage) noexcept;
  };

  template <class Stored>
  static constexpr bool kFitsInside =
      sizeof(Stored) <= kInlineBytes &&
      alignof(Stored) <= alignof(std::max_align_t) && std::is_nothrow_move_constructible_v<Stored>;

  template <class Held>
  static Held& held(void* storage) noexcept {
    return *std::launder(static_cast<Held*>(storage));
  }
  template <class Held>
  static void move_held(void* to, void* from) noexcept {
    ::new (to) Held(std::move(held<Held>(from)));
    held<Held>(from).~Held();
  }
  template <class Held>
  static void destroy_held(void* storage) noexcept {
    held<Held>(storage).~Held();
  }
  template <class Stored>
  static R invoke(Stored& function, Args&&... args) {
    if constexpr (std::is_void_v<R>) {
      static_cast<void>(std::invoke(function, std::forward<Args>(args)...));
    } else {
      return std::invoke(function, std::forward<Args>(args)...);
    }
  }
  template <class Stored>
  static R call_inside(void* storage, Args&&... args) {
    return invoke(held<Stored>(storage), std::forward<Args>(args)...);
  }
  template <class Stored>
  static R call_heap(void* storage, Args&&... args) {
    return invoke(*held<std::unique_ptr<Stored>>(storage), std::forward<Args>(args)...);
  }

  template <class Stored>
  static constexpr Table kInsideTable{
      &call_inside<Stored>, &move_held<Stored>, &destroy_held<Stored>};
  template <class Stored>
  static constexpr Table kHeapTable{&call_heap<Stored>,
                                    &move_held<std::unique_ptr<Stored>>,
                                    &destroy_held<std::unique_ptr<Stored>>};

  void take(UniqueFunction& other) noexcept {
    table_ = std::exchange(other.table_, nullptr);
    if (table_ != nullptr) {
      table_->move(storage_.bytes, other.storage_.bytes);
    }
  }
  void clear() noexcept {
    if (const Table* const table = std::exchange(table_, nullptr)) {
      table->destroy(storage_.bytes);
    }
  }

  Storage storage_;
  const Table* table_ = nullptr;
};

}  // namespace hearth
