#include <hearth/runtime/host_upload.hpp>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/client/device_endpoint.hpp"

#include <hearth/runtime/base/host_memory.hpp>
#include <hearth/runtime/lent_region.hpp>
#include <hearth/runtime/ops.hpp>

namespace hearth::detail {
namespace {

constexpr std::size_t kPiecesInFlight = 4;

// Reads into the tensor's own memory.
Result<Tensor> fill_in_place(
    const Device& device, DType dtype, const Shape& shape, const ReadPiece& read, SourceLoc loc) {
  auto promise = std::make_shared<Promise<LentRegion>>();
  Pending<LentRegion> pending = promise->pending();
  Tensor filled = lend(
      zeros(device, shape, dtype, loc),
      [promise](Result<LentRegion> region) {
        if (region.has_value()) {
          promise->set_value(std::move(region).value());
        } else {
          promise->set_error(region.shared_error());
        }
      },
      Deadline::never(),
      loc);
  LentRegion region = std::move(pending).get();
  const std::span<std::byte> bytes = region.bytes();
  for (std::size_t begin = 0; begin < bytes.size(); begin += kUploadPieceBytes) {
    const std::size_t size = std::min(kUploadPieceBytes, bytes.size() - begin);
    const Status status = read(begin, bytes.subspan(begin, size));
    if (!status.has_value()) {
      region.done();  // the caller gets the error, and drops the tensor
      return status;
    }
  }
  region.done();
  return filled;
}

// Reads one piece into memory of its own and queues its upload, as a vector.
Result<Tensor> upload_piece(const Device& device,
                            DType dtype,
                            std::size_t begin_bytes,
                            std::size_t bytes_of_piece,
                            const ReadPiece& read,
                            SourceLoc loc) {
  HEARTH_TRY(std::vector<std::byte> bytes,
             host_vector<std::byte>(bytes_of_piece, "a piece of a file", loc));
  HEARTH_TRY_STATUS(read(begin_bytes, bytes));
  const auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  const auto count = static_cast<std::int64_t>(bytes_of_piece) / size_bytes(dtype);
  return Tensor::from_owned_bytes(device, *owner, owner, dtype, {count}, loc);
}

Result<Tensor> join_pieces(
    const Device& device, DType dtype, const Shape& shape, const ReadPiece& read, SourceLoc loc) {
  const auto all = static_cast<std::size_t>(shape.element_count() * size_bytes(dtype));
  std::vector<Tensor> pieces;
  for (std::size_t begin = 0; begin < all; begin += kUploadPieceBytes) {
    const std::size_t size = std::min(kUploadPieceBytes, all - begin);
    HEARTH_TRY(Tensor piece, upload_piece(device, dtype, begin, size, read, loc));
    pieces.push_back(std::move(piece));
    if (pieces.size() % kPiecesInFlight == 0) {
      device.catch_up_later(loc).get();
    }
  }
  device.catch_up_later(loc).get();
  return reshape(Arg(concat(pieces, 0, loc), loc), shape);
}

}  // namespace

Result<Tensor> upload_in_pieces(
    const Device& device, DType dtype, const Shape& shape, const ReadPiece& read, SourceLoc loc) {
  return device.endpoint().runs_inline() ? fill_in_place(device, dtype, shape, read, loc)
                                         : join_pieces(device, dtype, shape, read, loc);
}

}  // namespace hearth::detail
