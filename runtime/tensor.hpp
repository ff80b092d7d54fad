// Tensor: a small counted reference to values that live, or will live, on a device.
// Shape and dtype are known at once; values come later: to_vector() and item() give or wait for
// them. A copy shares the same values (tensors never change under a reader: an op makes a new
// tensor). Moving a tensor into an op
// (`std::move(a) + b`) lets the device reuse its memory for the result.
// Threads: a Tensor object is used by one thread at a time; copies of it may live on many threads.
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
// A tracked tensor counts its tape, so that it may outlive the grad call that made it.
void retain_tape(Tape* tape) noexcept;
void release_tape(Tape* tape) noexcept;
[[nodiscard]] bool is_open(const Tape& tape) noexcept;
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

  // ---- making ----
  /// A tensor with these values, in row-major order. Copies them before it returns.
  /// Errors: ShapeError when values.size() is not the shape's element count; OutOfMemory when the
  /// copy finds no room.
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
  /// The same of numbers in a row in memory: std::span<float>, std::array, float[4].
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
  /// Numbers written as {1.0, 2.0}: f32, as tensors are that name no type, or what `dtype` says.
  /// `from<double>` and a std::vector<double> name f64.
  ///
  /// Errors: as from; ArgumentError when `dtype` cannot hold a value.
  [[nodiscard]] static Tensor from(const Device& device,
                                   std::initializer_list<double> values,
                                   const Shape& shape,
                                   DType dtype = DType::f32,
                                   SourceLoc loc = SourceLoc::current());
  /// The same, taking the vector over: its bytes are copied once, by the device.
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
  /// Without a shape values are one axis.
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
  /// For a std::vector<bool>: says in one sentence that there is none.
  template <std::same_as<bool> T>
  [[nodiscard]] static Tensor from(const Device& /*device*/,
                                   const std::vector<T>& /*values*/,
                                   const Shape& /*shape*/ = {},
                                   SourceLoc /*loc*/ = SourceLoc::current()) {
    static_assert(!std::is_same_v<T, bool>,
                  "a std::vector<bool> has no elements in memory: give {true, false} or an array");
    return {};
  }
  /// The same from bytes, as they lie in memory; bool has a byte an element.
  /// Errors: as from; ArgumentError when a byte of a bool tensor is neither 0 nor 1.
  [[nodiscard]] static Tensor from_bytes(const Device& device,
                                         std::span<const std::byte> bytes,
                                         DType dtype,
                                         const Shape& shape,
                                         SourceLoc loc = SourceLoc::current());
  /// As from_bytes, without the copy: `owner` keeps `bytes` alive until the device has read them.
  [[nodiscard]] static Tensor from_owned_bytes(const Device& device,
                                               std::span<const std::byte> bytes,
                                               std::shared_ptr<const void> owner,
                                               DType dtype,
                                               const Shape& shape,
                                               SourceLoc loc = SourceLoc::current());

  // ---- asking ----
  /// False for an empty tensor: a default one, or one that was moved from.
  [[nodiscard]] bool is_valid() const noexcept { return impl_ != nullptr; }
  [[nodiscard]] const Shape& shape(SourceLoc loc = SourceLoc::current()) const;
  [[nodiscard]] DType dtype(SourceLoc loc = SourceLoc::current()) const;
  [[nodiscard]] Device device(SourceLoc loc = SourceLoc::current()) const;
  [[nodiscard]] int rank(SourceLoc loc = SourceLoc::current()) const { return shape(loc).rank(); }
  /// Negative axes count from the end. Errors: ArgumentError when there is no such axis.
  [[nodiscard]] std::int64_t size(int axis, SourceLoc loc = SourceLoc::current()) const;
  [[nodiscard]] std::int64_t element_count(SourceLoc loc = SourceLoc::current()) const {
    return shape(loc).element_count();
  }
  /// True inside value_and_grad for whatever depends on what is differentiated.
  [[nodiscard]] bool is_tracked() const noexcept {
    return tape_ != nullptr && detail::is_open(*tape_);
  }
  /// The same values, cut from the tape.
  [[nodiscard]] Tensor detach() const;

  // ---- reading ----
  /// All values in row-major order, as bytes; comes when the device is done. The reading is queued
  /// now. Errors: OutOfMemory when the host has no room for them; then nothing was queued.
  [[nodiscard]] Pending<std::vector<std::byte>> read_bytes(
      SourceLoc loc = SourceLoc::current()) const;
  /// Fills `out` (its size must be the tensor's byte count) without a copy in between. `owner`
  /// keeps `out` alive until the device has written there or will never do, however early the
  /// program stops waiting: it owns what from_owned_bytes() would.
  ///
  /// Errors: ArgumentError when `owner` is null; ShapeError for another size.
  [[nodiscard]] Pending<void> read_into(std::span<std::byte> out,
                                        std::shared_ptr<void> owner,
                                        SourceLoc loc = SourceLoc::current()) const;
  /// All values in row-major order. Waits, at most up to the deadline of the calling thread's
  /// stream. Errors: DtypeError when T is not the tensor's type; OutOfMemory when the host has no
  /// room for them; DeviceError when it is poisoned.
  template <class T>
  [[nodiscard]] std::vector<T> to_vector(SourceLoc loc = SourceLoc::current()) const {
    return read_values<T>(loc, [](Pending<void> read) { std::move(read).get(); });
  }
  /// The same, waited for as the options say. Errors: DeadlineExceeded, DeviceError cancelled; what
  /// is queued still runs, unless Stream::cancel() gives it up.
  template <class T>
  [[nodiscard]] std::vector<T> to_vector(const WaitOptions& options,
                                         SourceLoc loc = SourceLoc::current()) const {
    return read_values<T>(loc, [&](Pending<void> read) { std::move(read).get(options); });
  }
  /// The one value of a tensor with one element, as a T. Waits. Integers come as they are; a float
  /// T rounds; an integer T drops the fraction of a float; bool says whether the value is not 0.
  /// Errors: ArgumentError when T cannot hold the value: NaN as an int, 300 as a uint8_t, 1e300 as
  /// a float.
  template <class T = double>
  [[nodiscard]] T item(SourceLoc loc = SourceLoc::current()) const {
    return item_value(loc).as<T>(loc);
  }
  /// The same, waited for as the options say; as to_vector().
  template <class T = double>
  [[nodiscard]] T item(const WaitOptions& options, SourceLoc loc = SourceLoc::current()) const {
    return item_value(options, loc).as<T>(loc);
  }
  /// The future of item(): queued now, read later. The loss of a step, for instance. Integers
  /// beyond 2^53 are rounded.
  [[nodiscard]] Pending<double> item_later(SourceLoc loc = SourceLoc::current()) const;
  /// Queues the copy to `device`; the same tensor when it is there already. Differentiable. It goes
  /// through host memory. Errors: OutOfMemory when the host has no room for it; DeviceError when
  /// the result is read.
  [[nodiscard]] Tensor to(const Device& device, SourceLoc loc = SourceLoc::current()) const;
  [[nodiscard]] Tensor to(DType dtype, SourceLoc loc = SourceLoc::current()) const;  ///< cast
  /// Data, shape, device and dtype, as PyTorch and NumPy print; long axes are shortened. Waits;
  /// `out << tensor` is the same.
  [[nodiscard]] std::string to_string(SourceLoc loc = SourceLoc::current()) const;

  // ---- threads ----
  /// A flush point in this thread's program: what the tensor needs may be used by another thread
  /// from here on.
  void publish(SourceLoc loc = SourceLoc::current()) const;
  /// Makes the calling thread's stream the tensor's home, so that its memory can be reused in place
  /// there. No effect while other copies of the tensor exist.
  void adopt(SourceLoc loc = SourceLoc::current());

  /// Names the tensor in error texts ("encoder.inner.weight"); modules do this for their
  /// parameters.
  void set_path(std::string_view path, SourceLoc loc = SourceLoc::current()) const;

  // ---- parts ----
  /// A part, as Python's a[1], a[1, 2:4]: a number takes one place along its axis, which goes away;
  /// a Range takes several, which stay an axis. Axes that are not named stay whole. Negative
  /// numbers count from the end. A view; gradients flow.
  ///
  /// Shapes: a[i] has one axis less. Errors: ShapeError for more indices than axes; ArgumentError
  /// for a number outside its axis.
  [[nodiscard]] Tensor operator[](const Indices& indices) const;

 private:
  friend class detail::TensorAccess;
  explicit Tensor(TensorImpl* adopted) noexcept : impl_(adopted) {}
  void publish(bool is_frozen, SourceLoc loc) const;
  /// `is_of_model`: a model's walk names it, and not the layer alone that has made it as a weight.
  void set_path(std::string_view path, bool is_of_model, SourceLoc loc) const;
  void require_dtype(DType wanted, SourceLoc loc) const;
  [[nodiscard]] ItemValue item_value(SourceLoc loc) const;
  /// Waits for the values with `wait`.
  template <class T, class Wait>
  [[nodiscard]] std::vector<T> read_values(SourceLoc loc, const Wait& wait) const {
    if constexpr (std::is_same_v<T, bool>) {
      static_assert(
          !std::is_same_v<T, bool>,
          "a std::vector<bool> has no elements in memory: read to_vector<std::uint8_t>()");
      return {};  // the sentence is enough
    } else {
      require_dtype(dtype_of<T>, loc);
      // Shared with the device: when the wait ends at its deadline, the read that is queued still
      // has somewhere to write.
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
  std::uint8_t marks_ = 0;  ///< MemberMark bits of a member of a module.
};

namespace detail {
/// A tensor on its way to a stream, with the line that sends it there.
struct PrintedTensor {
  // NOLINTNEXTLINE(google-explicit-constructor)
  PrintedTensor(const Tensor& printed, SourceLoc line = SourceLoc::current()) noexcept
      : tensor(printed), loc(line) {}

  const Tensor& tensor;
  SourceLoc loc;
};
}  // namespace detail

/// Prints to_string(): `out << tensor`. Waits. Errors: as to_string().
std::ostream& operator<<(std::ostream& out, const detail::PrintedTensor& tensor);

/// An operand of an op: a tensor (lvalue: stays; rvalue: may be reused) or a number, with the line
/// of the call.
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
  /// An integer of 2^63 or more: integer() has its bits.
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
