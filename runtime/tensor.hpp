// Tensor: a small counted reference to values on a device, which may not be computed yet. Shape and
// dtype are known at once; to_vector() and item() wait for the values. Copies share the same
// values. A tensor never changes under a reader: each op makes a new tensor. Moving a tensor into
// an op (`std::move(a) + b`) lets the device reuse its memory for the result.
// Threads: one thread at a time uses a Tensor object; its copies may live on many threads.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <ranges>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <hearth/runtime/base/dtype.hpp>
#include <hearth/runtime/base/host_memory.hpp>
#include <hearth/runtime/base/intrusive_ptr.hpp>
#include <hearth/runtime/base/pending.hpp>
#include <hearth/runtime/base/shape.hpp>
#include <hearth/runtime/base/source_loc.hpp>
#include <hearth/runtime/indices.hpp>
#include <hearth/runtime/item_value.hpp>

namespace hearth {

class Device;
struct TensorImpl;
namespace detail {
class Tape;
void release_tensor(TensorImpl* impl) noexcept;  // the last reference is gone: sends the drop
void retain_tensor(TensorImpl* impl) noexcept;
// A tracked tensor counts its tape, so it may outlive the grad call that made it.
void retain_tape(Tape* tape) noexcept;
void release_tape(Tape* tape) noexcept;
[[nodiscard]] bool is_tracked_by(const Tape& tape, std::uint32_t node) noexcept;
class TensorAccess;  // tensor_access.hpp
}  // namespace detail

class Tensor {
 public:
  Tensor() noexcept = default;  ///< Empty: is_valid() is false, every use throws.
  Tensor(const Tensor& other) noexcept
      : impl_(other.impl_), tape_(other.tape_), node_(other.node_), marks_(other.marks_) {
    if (impl_ != nullptr) {
      detail::retain_tensor(impl_);
    }
    if (tape_ != nullptr) {
      detail::retain_tape(tape_);
    }
  }
  Tensor(Tensor&& other) noexcept
      : impl_(std::exchange(other.impl_, nullptr)),
        tape_(std::exchange(other.tape_, nullptr)),
        node_(std::exchange(other.node_, 0)),
        marks_(std::exchange(other.marks_, std::uint8_t{0})) {}
  Tensor& operator=(const Tensor& other) & noexcept {
    Tensor copy(other);
    swap(copy);
    return *this;
  }
  Tensor& operator=(Tensor&& other) & noexcept {
    Tensor taken(std::move(other));
    swap(taken);
    return *this;
  }
  ~Tensor() {
    if (impl_ != nullptr) {
      detail::release_tensor(impl_);
    }
    if (tape_ != nullptr) {
      detail::release_tape(tape_);
    }
  }
  void swap(Tensor& other) noexcept {
    std::swap(impl_, other.impl_);
    std::swap(tape_, other.tape_);
    std::swap(node_, other.node_);
    std::swap(marks_, other.marks_);
  }

  // ---- creation ----
  /// Makes a tensor of these values, in row-major order. Copies them before it returns.
  /// Errors: ShapeError if values.size() is not the shape's element count; OutOfMemory if there is
  /// no room for the copy.
  template <class T>
  [[nodiscard]] static Tensor from(const Device& device,
                                   std::span<const T> values,
                                   const Shape& shape,
                                   SourceLoc loc = SourceLoc::current()) {
    return from_bytes(device, std::as_bytes(values), dtype_of<std::remove_cv_t<T>>, shape, loc);
  }
  template <class T>
  requires(!std::is_same_v<T, bool>) [[nodiscard]] static Tensor
      from(const Device& device,
           const std::vector<T>& values,
           const Shape& shape,
           SourceLoc loc = SourceLoc::current()) {
    return from(device, std::span<const T>(values), shape, loc);
  }
  /// Makes a tensor of contiguous numbers: std::span<float>, std::array, float[4].
  template <std::ranges::contiguous_range R>
  requires std::is_arithmetic_v<std::ranges::range_value_t<R>>
  [[nodiscard]] static Tensor from(const Device& device,
                                   const R& values,
                                   const Shape& shape,
                                   SourceLoc loc = SourceLoc::current()) {
    using T = std::ranges::range_value_t<R>;
    return from(device, std::span<const T>(values), shape, loc);
  }
  template <class T>
  [[nodiscard]] static Tensor from(const Device& device,
                                   std::initializer_list<T> values,
                                   const Shape& shape,
                                   SourceLoc loc = SourceLoc::current()) {
    return from(device, std::span<const T>(values.begin(), values.size()), shape, loc);
  }
  /// Makes a tensor of numbers written as {1.0, 2.0}, with the given dtype. For f64, pass
  /// DType::f64, write `from<double>` or pass a std::vector<double>.
  ///
  /// Errors: as from; ArgumentError if `dtype` cannot hold a value.
  [[nodiscard]] static Tensor from(const Device& device,
                                   std::initializer_list<double> values,
                                   const Shape& shape,
                                   DType dtype = DType::f32,
                                   SourceLoc loc = SourceLoc::current());
  /// Makes a tensor of a moved-in vector: the device copies its bytes once.
  template <class T>
  requires(!std::is_same_v<T, bool>) [[nodiscard]] static Tensor
      from(const Device& device,
           std::vector<T>&& values,
           const Shape& shape,
           SourceLoc loc = SourceLoc::current()) {
    auto owner = std::make_shared<const std::vector<T>>(std::move(values));
    const std::span<const std::byte> bytes = std::as_bytes(std::span<const T>(*owner));
    return from_owned_bytes(device, bytes, std::move(owner), dtype_of<T>, shape, loc);
  }
  /// Makes a tensor of rank 1, if no shape is given.
  template <class T>
  requires(!std::is_same_v<T, bool>) [[nodiscard]] static Tensor
      from(const Device& device,
           const std::vector<T>& values,
           SourceLoc loc = SourceLoc::current()) {
    return from(device, values, Shape{static_cast<std::int64_t>(values.size())}, loc);
  }
  template <std::ranges::contiguous_range R>
  requires std::is_arithmetic_v<std::ranges::range_value_t<R>>
  [[nodiscard]] static Tensor from(const Device& device,
                                   const R& values,
                                   SourceLoc loc = SourceLoc::current()) {
    return from(device, values, Shape{static_cast<std::int64_t>(std::ranges::size(values))}, loc);
  }
  template <class T>
  [[nodiscard]] static Tensor from(const Device& device,
                                   std::initializer_list<T> values,
                                   SourceLoc loc = SourceLoc::current()) {
    return from(device, values, Shape{static_cast<std::int64_t>(values.size())}, loc);
  }
  [[nodiscard]] static Tensor from(const Device& device,
                                   std::initializer_list<double> values,
                                   SourceLoc loc = SourceLoc::current()) {
    return from(device, values, Shape{static_cast<std::int64_t>(values.size())}, DType::f32, loc);
  }
  /// Rejects std::vector<bool> at compile time, with a readable message.
  template <std::same_as<bool> T>
  [[nodiscard]] static Tensor from(const Device& /*device*/,
                                   const std::vector<T>& /*values*/,
                                   const Shape& /*shape*/ = {},
                                   SourceLoc /*loc*/ = SourceLoc::current()) {
    static_assert(!std::is_same_v<T, bool>,
                  "a std::vector<bool> has no elements in memory: give {true, false} or an array");
    return {};
  }
  /// Makes a tensor of raw bytes in memory order; a bool takes one byte.
  /// Errors: as from; ArgumentError if a byte of a bool tensor is neither 0 nor 1.
  [[nodiscard]] static Tensor from_bytes(const Device& device,
                                         std::span<const std::byte> bytes,
                                         DType dtype,
                                         const Shape& shape,
                                         SourceLoc loc = SourceLoc::current());
  /// Makes a tensor as from_bytes() does, without the copy: `owner` keeps `bytes` alive until the
  /// device has read them.
  [[nodiscard]] static Tensor from_owned_bytes(const Device& device,
                                               std::span<const std::byte> bytes,
                                               std::shared_ptr<const void> owner,
                                               DType dtype,
                                               const Shape& shape,
                                               SourceLoc loc = SourceLoc::current());

  // ---- properties ----
  /// False for an empty tensor, default-constructed or moved-from.
  [[nodiscard]] bool is_valid() const noexcept { return impl_ != nullptr; }
  [[nodiscard]] const Shape& shape(SourceLoc loc = SourceLoc::current()) const;
  [[nodiscard]] DType dtype(SourceLoc loc = SourceLoc::current()) const;
  [[nodiscard]] Device device(SourceLoc loc = SourceLoc::current()) const;
  [[nodiscard]] int rank(SourceLoc loc = SourceLoc::current()) const { return shape(loc).rank(); }
  /// Size of one axis; negative axes count from the end. Errors: ArgumentError if there is no such
  /// axis.
  [[nodiscard]] std::int64_t size(int axis, SourceLoc loc = SourceLoc::current()) const;
  [[nodiscard]] std::int64_t element_count(SourceLoc loc = SourceLoc::current()) const {
    return shape(loc).element_count();
  }
  /// True inside value_and_grad for every tensor that depends on its differentiated inputs.
  [[nodiscard]] bool is_tracked() const noexcept {
    return tape_ != nullptr && detail::is_tracked_by(*tape_, node_);
  }
  /// Returns the values without their gradient history: constants for all open grad calls.
  [[nodiscard]] Tensor detach() const;

  // ---- reading ----
  /// Queues a read of all values as bytes, in row-major order. The pending is ready when the device
  /// has written them.
  /// Errors: OutOfMemory if the host has no room for them; then nothing is queued.
  [[nodiscard]] Pending<std::vector<std::byte>> read_bytes(
      SourceLoc loc = SourceLoc::current()) const;
  /// Reads the values into `out`, whose size must be the tensor's byte count, without an
  /// intermediate copy. `owner` keeps `out` alive until the device has written it or never will,
  /// even if the program stops waiting earlier.
  ///
  /// Errors: ArgumentError if `owner` is null; ShapeError for another size.
  [[nodiscard]] Pending<void> read_into(std::span<std::byte> out,
                                        std::shared_ptr<void> owner,
                                        SourceLoc loc = SourceLoc::current()) const;
  /// All values in row-major order. Waits, at most until the deadline of the calling thread's
  /// stream.
  /// Errors: DtypeError if T is not the tensor's type; OutOfMemory if the host has no room for
  /// them; DeviceError if the tensor is poisoned.
  template <class T>
  [[nodiscard]] std::vector<T> to_vector(SourceLoc loc = SourceLoc::current()) const {
    return read_values<T>(loc, [](Pending<void> read) { std::move(read).get(); });
  }
  /// Returns all values; waits under the given options. If the wait ends early, queued work still
  /// runs, unless Stream::cancel() cancels it.
  /// Errors: as to_vector(); DeadlineExceeded; DeviceError cancelled.
  template <class T>
  [[nodiscard]] std::vector<T> to_vector(const WaitOptions& options,
                                         SourceLoc loc = SourceLoc::current()) const {
    return read_values<T>(loc, [&](Pending<void> read) { std::move(read).get(options); });
  }
  /// The value of a tensor with one element, as a T. Waits. A float T rounds; an integer T
  /// truncates a float; bool is true if the value is not 0.
  /// Errors: ArgumentError if T cannot hold the value: NaN as an int, 300 as a uint8_t, 1e300 as a
  /// float.
  template <class T = double>
  [[nodiscard]] T item(SourceLoc loc = SourceLoc::current()) const {
    return item_value(loc).as<T>(loc);
  }
  /// The value of a tensor with one element; waits under the given options, like to_vector().
  template <class T = double>
  [[nodiscard]] T item(const WaitOptions& options, SourceLoc loc = SourceLoc::current()) const {
    return item_value(options, loc).as<T>(loc);
  }
  /// Queues a read of the one value, such as the loss of a step, and returns its pending. Rounds
  /// integers beyond 2^53.
  [[nodiscard]] Pending<double> item_later(SourceLoc loc = SourceLoc::current()) const;
  /// Queues a copy to `device` through host memory; returns this tensor if it is already there.
  /// Differentiable.
  /// Errors: OutOfMemory if the host has no room for it; DeviceError when the result is read.
  [[nodiscard]] Tensor to(const Device& device, SourceLoc loc = SourceLoc::current()) const;
  [[nodiscard]] Tensor to(DType dtype, SourceLoc loc = SourceLoc::current()) const;  ///< cast
  /// Formats data, shape, device and dtype as PyTorch and NumPy do, with long axes shortened.
  /// Waits. `out << tensor` prints the same text.
  [[nodiscard]] std::string to_string(SourceLoc loc = SourceLoc::current()) const;

  // ---- threads ----
  /// Marks a flush point in this thread's program: from here on another thread may use what the
  /// tensor depends on.
  void publish(SourceLoc loc = SourceLoc::current()) const;
  /// Makes the calling thread's stream the tensor's home, so that its memory can be reused in place
  /// there. Has no effect while other copies of the tensor exist.
  void adopt(SourceLoc loc = SourceLoc::current());

  /// Names the tensor in error texts ("encoder.inner.weight"); modules name their parameters.
  void set_path(std::string_view path, SourceLoc loc = SourceLoc::current()) const;

  // ---- indexing ----
  /// Returns a part of the tensor, like Python's a[1] or a[1, 2:4]. A number selects one position
  /// and removes its axis; a Range selects several and keeps it. Unnamed axes stay whole. Negative
  /// numbers count from the end. The result is a view; gradients flow.
  ///
  /// Shapes: a[i] has one axis less.
  /// Errors: ShapeError for more indices than axes; ArgumentError for a number outside its axis.
  [[nodiscard]] Tensor operator[](const Indices& indices) const;

 private:
  friend class detail::TensorAccess;
  explicit Tensor(TensorImpl* adopted) noexcept : impl_(adopted) {}
  void publish(bool is_frozen, SourceLoc loc) const;
  /// `is_of_model`: the path comes from a walk of a model, not only from the layer that made the
  /// weight.
  void set_path(std::string_view path, bool is_of_model, SourceLoc loc) const;
  void require_dtype(DType wanted, SourceLoc loc) const;
  [[nodiscard]] ItemValue item_value(SourceLoc loc) const;
  /// Reads the values; `wait` waits for the pending read.
  template <class T, class Wait>
  [[nodiscard]] std::vector<T> read_values(SourceLoc loc, const Wait& wait) const {
    if constexpr (std::is_same_v<T, bool>) {
      static_assert(
          !std::is_same_v<T, bool>,
          "a std::vector<bool> has no elements in memory: read to_vector<std::uint8_t>()");
      return {};  // the message above is enough
    } else {
      require_dtype(dtype_of<T>, loc);
      // Shared with the device: if the wait ends at its deadline, the queued read still has a valid
      // target.
      const auto out = std::make_shared<std::vector<T>>(
          host_vector<T>(static_cast<std::size_t>(element_count()), "to_vector", loc).value());
      wait(read_into(std::as_writable_bytes(std::span<T>(*out)), out, loc));
      return std::move(*out);
    }
  }
  [[nodiscard]] ItemValue item_value(const WaitOptions& options, SourceLoc loc) const;

  TensorImpl* impl_ = nullptr;
  detail::Tape* tape_ = nullptr;
  std::uint32_t node_ = 0;
  std::uint8_t marks_ = 0;  ///< MemberMark bits, if it is a member of a module
};

namespace detail {
/// A tensor passed to operator<<, with the caller's line.
struct PrintedTensor {
  // NOLINTNEXTLINE(google-explicit-constructor)
  PrintedTensor(const Tensor& printed, SourceLoc line = SourceLoc::current()) noexcept
      : tensor(printed), loc(line) {}

  const Tensor& tensor;
  SourceLoc loc;
};
}  // namespace detail

/// Prints to_string(). Waits. Errors: as to_string().
std::ostream& operator<<(std::ostream& out, const detail::PrintedTensor& tensor);

/// An operand of an op: a tensor (an rvalue's memory may be reused) or a number, with the line of
/// the call.
class Arg {
 public:
  Arg(const Tensor& tensor,
      SourceLoc loc = SourceLoc::current()) noexcept  // NOLINT(google-explicit-constructor)
      : tensor_(&tensor), loc_(loc) {}
  Arg(Tensor&& tensor,
      SourceLoc loc = SourceLoc::current()) noexcept  // NOLINT(google-explicit-constructor)
      : tensor_(&tensor), movable_(&tensor), loc_(loc) {}
  template <class Number, class = std::enable_if_t<std::is_arithmetic_v<Number>>>
  Arg(Number value,
      SourceLoc loc = SourceLoc::current()) noexcept  // NOLINT(google-explicit-constructor)
      : real_(static_cast<double>(value)), loc_(loc) {
    if constexpr (std::is_integral_v<Number>) {
      integer_ = static_cast<std::int64_t>(value);
      is_integer_ = true;
      is_beyond_i64_ = std::is_unsigned_v<Number> && integer_ < 0;
    }
  }

  [[nodiscard]] bool is_scalar() const noexcept { return tensor_ == nullptr; }
  [[nodiscard]] const Tensor& tensor() const noexcept { return *tensor_; }
  [[nodiscard]] Tensor* movable() const noexcept { return movable_; }
  [[nodiscard]] double real() const noexcept { return real_; }
  [[nodiscard]] std::int64_t integer() const noexcept { return integer_; }
  [[nodiscard]] bool is_integer() const noexcept { return is_integer_; }
  /// True for an integer of 2^63 or more; integer() holds its bits.
  [[nodiscard]] bool is_beyond_i64() const noexcept { return is_beyond_i64_; }
  [[nodiscard]] SourceLoc location() const noexcept { return loc_; }

 private:
  const Tensor* tensor_ = nullptr;
  Tensor* movable_ = nullptr;
  double real_ = 0;
  std::int64_t integer_ = 0;
  bool is_integer_ = false;
  bool is_beyond_i64_ = false;
  SourceLoc loc_;
};

}  // namespace hearth
