// upload_in_pieces: a tensor whose bytes come piece by piece from a source that is larger than the
// host's memory, such as a file.
// Header-internal: for modules. Stateless. Threads: any; on the calling thread's stream.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include <hearth/runtime/base/dtype.hpp>
#include <hearth/runtime/base/result.hpp>
#include <hearth/runtime/base/shape.hpp>
#include <hearth/runtime/base/source_loc.hpp>
#include <hearth/runtime/tensor.hpp>

namespace hearth::detail {

/// Fills `piece` with the tensor's bytes from `offset_bytes` on, in row-major order.
using ReadPiece = std::function<Status(std::size_t offset_bytes, std::span<std::byte> piece)>;

/// The largest piece that upload_in_pieces() reads at once; a multiple of every element's size.
inline constexpr std::size_t kUploadPieceBytes = std::size_t{16} << 20U;

/// Makes a tensor from the pieces that `read` supplies, in order. Waits until they are on the
/// device.
///
/// A device that computes in host memory lends its bytes to `read`: no copy exists. Any other
/// device gets the pieces one after the other, and joins them.
/// Errors: the error of `read`, as a value; DeviceError when the device fails; ArgumentError on a
/// tape.
/// Cost: host memory of four pieces beside the tensor; on devices with memory of their own, twice
/// the tensor's bytes there.
[[nodiscard]] Result<Tensor> upload_in_pieces(const Device& device,
                                              DType dtype,
                                              const Shape& shape,
                                              const ReadPiece& read,
                                              SourceLoc loc = SourceLoc::current());

}  // namespace hearth::detail
