// LentRegion: a tensor's bytes on loan to a borrower other than the device (a collective engine).
// The lane that lent them waits until done() or the deadline; its actor serves other lanes
// meanwhile.
// Threads: move-only; one at a time, any. Destroying it without done() reports `cancelled`.
// Invariant: done() counts once; after the deadline the tensor is poisoned and done() has no
// effect.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <hearth/runtime/base/deadline.hpp>
#include <hearth/runtime/base/dtype.hpp>
#include <hearth/runtime/base/ids.hpp>
#include <hearth/runtime/base/intrusive_ptr.hpp>
#include <hearth/runtime/base/result.hpp>
#include <hearth/runtime/base/unique_function.hpp>
#include <hearth/runtime/tensor.hpp>

namespace hearth {

class DeviceEndpoint;

class LentRegion {
 public:
  LentRegion() noexcept;  ///< Empty: is_valid() is false.
  LentRegion(IntrusivePtr<DeviceEndpoint> endpoint,
             std::shared_ptr<const void> memory,
             LaneId lane,
             std::uint64_t loan,
             std::span<std::byte> bytes,
             DType dtype) noexcept;
  LentRegion(LentRegion&& other) noexcept;
  LentRegion& operator=(LentRegion&& other) noexcept;
  LentRegion(const LentRegion&) = delete;
  LentRegion& operator=(const LentRegion&) = delete;
  ~LentRegion();

  [[nodiscard]] bool is_valid() const noexcept { return static_cast<bool>(endpoint_); }
  /// Host bytes that the borrower may read and write until done().
  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return bytes_; }
  [[nodiscard]] DType dtype() const noexcept { return dtype_; }
  /// Returns the bytes; a failed status poisons the tensor with that error.
  void done(Status status = {});
  /// Runs `work` on the device's own cores (as the holder of its token), while the bytes are lent.
  /// `work` must not block. An exception from it poisons the tensor.
  void run_on_device(UniqueFunction<void()> work) const;

 private:
  friend class LoanRecall;
  IntrusivePtr<DeviceEndpoint> endpoint_;
  /// Keeps the bytes mapped, also if the device is lost or closed.
  std::shared_ptr<const void> memory_;
  LaneId lane_;
  std::uint64_t loan_ = 0;
  std::span<std::byte> bytes_;
  DType dtype_ = DType::f32;
};

/// Ends a loan early, for the code that watches the borrower. Copyable. Threads: any.
class LoanRecall final {
 public:
  /// Requires a valid region.
  explicit LoanRecall(const LentRegion& region);
  LoanRecall(const LoanRecall& other);
  LoanRecall& operator=(const LoanRecall& other);
  LoanRecall(LoanRecall&& other) noexcept;
  LoanRecall& operator=(LoanRecall&& other) noexcept;
  ~LoanRecall();

  /// Ends the loan as its deadline does: the tensor carries `error`, its lane continues, and the
  /// bytes stay the borrower's until done(). Has no effect if the loan has ended.
  void recall(ErrorRef error) const;

 private:
  IntrusivePtr<DeviceEndpoint> endpoint_;
  LaneId lane_;
  std::uint64_t loan_ = 0;
};

/// Lends the bytes of `tensor` once they are computed. Returns the tensor as it is after done():
/// the same memory in place if no other copy of the tensor exists, else a copy. `ready` runs on the
/// device's loop, so it must only pass the region on. An error of the tensor or the device goes to
/// `ready` and poisons the result.
/// Errors: ArgumentError on a tracked or empty tensor.
/// Threads: any; on the calling thread's stream.
[[nodiscard]] Tensor lend(Tensor tensor,
                          UniqueFunction<void(Result<LentRegion>)> ready,
                          Deadline deadline,
                          SourceLoc loc = SourceLoc::current());

}  // namespace hearth
