// The part of a backend that copies between host memory and the device. Copies run on
// kUploadStream and kDownloadStream; on inline backends they have ended when the call returns.
// Owned by the backend. Threads: owner only, except pinned_bytes().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <hearth/backends/timeline.hpp>
#include <hearth/runtime/base/result.hpp>

namespace hearth {

/// The accepted part of a copy: its first bytes, possibly all.
struct CopyPart {
  TimelinePoint point = {};    ///< Completion of this part.
  std::size_t size_bytes = 0;  ///< 0 of a non-empty copy: no room before `point`.
};

/// Shared ownership of host memory. Threads: values.
struct HostBytes {
  std::shared_ptr<std::byte> first = {};
  std::size_t size = 0;

  [[nodiscard]] std::span<std::byte> span() const noexcept { return {first.get(), size}; }
  explicit operator bool() const noexcept { return first != nullptr; }
  /// Allocates ordinary memory, uninitialised.
  [[nodiscard]] static HostBytes make(std::size_t size) {
    return {std::shared_ptr<std::byte>(new std::byte[size], std::default_delete<std::byte[]>()),
            size};
  }
};

class CopyEngine {
 public:
  CopyEngine() = default;
  CopyEngine(const CopyEngine&) = delete;
  CopyEngine& operator=(const CopyEngine&) = delete;
  virtual ~CopyEngine() = default;

  /// Copies between host memory and the device on kUploadStream and kDownloadStream, after all
  /// points of `after`. `to` of upload() and `from` of download() are device addresses, as in
  /// TensorView::data. Neither function waits for the device. A call may accept only the first
  /// bytes, at most one piece; the caller repeats it for the rest. The backend uses the accepted
  /// host bytes until the part's point. Inline backends accept everything.
  ///
  /// Errors: device_lost.
  /// Cost: the host's copy of at most one piece, and the recording of submitted work; inline: the
  /// whole copy.
  [[nodiscard]] virtual Result<CopyPart> upload(std::byte* to,
                                                std::span<const std::byte> from,
                                                std::span<const TimelinePoint> after) = 0;
  [[nodiscard]] virtual Result<CopyPart> download(std::span<std::byte> to,
                                                  const std::byte* from,
                                                  std::span<const TimelinePoint> after) = 0;
  /// Cancels a partly accepted download: nothing is written to these bytes any more. For backends
  /// that accept downloads in parts.
  virtual void forget_target(std::span<std::byte> target) noexcept { static_cast<void>(target); }
  /// Returns the point of the newest copy submitted to the device on this stream. Even the copy of
  /// a failed upload() or download() may have begun. Until this point, the device may access its
  /// own bytes of that copy, but not the host's bytes.
  [[nodiscard]] virtual TimelinePoint newest_copy(std::uint8_t stream) const noexcept {
    return {.value = 0, .stream = stream};
  }
  /// Allocates uninitialised host memory that upload() and download() reach without an extra host
  /// copy. It may outlive the backend, and any thread may release it.
  [[nodiscard]] virtual HostBytes host_bytes(std::size_t size) { return HostBytes::make(size); }
  /// Returns the bytes of host_bytes() that are pinned for the device, in use or cached. Threads:
  /// any.
  [[nodiscard]] virtual std::int64_t pinned_bytes() const noexcept { return 0; }
  /// Frees the cached memory of host_bytes() that is not in use. Returns its size in bytes.
  virtual std::int64_t trim() noexcept { return 0; }
};

}  // namespace hearth
