#include "device_mirror.hpp"

#include "tests/support/run_call.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace hearth::testing {
namespace {

struct Piece {
  std::byte* begin;
  std::byte* end;
  std::byte* device = nullptr;
};

Piece piece_of(const TensorView& view) {
  std::int64_t first = 0;
  std::int64_t last = 0;
  for (int axis = 0; axis < view.shape().rank(); ++axis) {
    const std::int64_t size = view.shape()[axis];
    const std::int64_t reach =
        size == 0 ? 0 : (size - 1) * view.strides()[static_cast<std::size_t>(axis)];
    (reach < 0 ? first : last) += reach;
  }
  const std::int64_t bytes = size_bytes(view.dtype);
  const std::int64_t count = view.element_count() == 0 ? 0 : last + 1;
  return {.begin = view.data + first * bytes - kMirroredMargin,
          .end = view.data + count * bytes + kMirroredMargin};
}

// Joins pieces that overlap, so that operands that share bytes share them on the device too.
std::vector<Piece> merged(std::vector<Piece> pieces) {
  std::ranges::sort(pieces, {}, &Piece::begin);
  std::vector<Piece> out;
  for (const Piece& piece : pieces) {
    if (!out.empty() && piece.begin < out.back().end) {
      out.back().end = std::max(out.back().end, piece.end);
    } else {
      out.push_back(piece);
    }
  }
  return out;
}

class Mirror {
 public:
  Mirror(Backend& backend, std::vector<Piece> pieces)
      : backend_(backend), pieces_(std::move(pieces)) {}
  Mirror(const Mirror&) = delete;
  Mirror& operator=(const Mirror&) = delete;
  ~Mirror() {
    if (page_.data != nullptr) {
      backend_.pages().free_page(page_);
    }
  }

  /// Copies the pieces up; their offsets are those of the host modulo kAlignment.
  Status up() {
    constexpr std::int64_t kAlignment = 256;
    std::int64_t size = 0;
    std::vector<std::int64_t> offsets;
    for (const Piece& piece : pieces_) {
      const auto odd = static_cast<std::int64_t>(
          reinterpret_cast<std::uintptr_t>(piece.begin) %  // NOLINT: alignment only
          static_cast<std::uintptr_t>(kAlignment));
      offsets.push_back(size + odd);
      size += (odd + (piece.end - piece.begin) + kAlignment - 1) / kAlignment * kAlignment;
    }
    HEARTH_TRY(page_, backend_.pages().allocate_page(std::max(size, kAlignment)));
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      pieces_[i].device = page_.data + offsets[i];
      std::size_t done = 0;
      while (done < host(pieces_[i]).size()) {
        HEARTH_TRY(
            const CopyPart part,
            backend_.copies().upload(pieces_[i].device + done, host(pieces_[i]).subspan(done), {}));
        HEARTH_TRY_STATUS(wait(part.point));
        done += part.size_bytes;
      }
    }
    return {};
  }
  Status down() {
    for (const Piece& piece : pieces_) {
      std::size_t done = 0;
      while (done < host(piece).size()) {
        HEARTH_TRY(const CopyPart part,
                   backend_.copies().download(host(piece).subspan(done), piece.device + done, {}));
        HEARTH_TRY_STATUS(wait(part.point));
        done += part.size_bytes;
      }
    }
    return {};
  }
  [[nodiscard]] TensorView of(TensorView view) const {
    for (const Piece& piece : pieces_) {
      if (view.data >= piece.begin && view.data < piece.end) {
        view.data = piece.device + (view.data - piece.begin);
        return view;
      }
    }
    return view;
  }

 private:
  static std::span<std::byte> host(const Piece& piece) { return {piece.begin, piece.end}; }
  Status wait(TimelinePoint point) {
    return point.is_done() ? Status() : backend_.wait({&point, 1}, Deadline::in(kDefaultWait));
  }

  Backend& backend_;
  std::vector<Piece> pieces_;
  Page page_;
};

}  // namespace

Status run_mirrored(Backend& backend, const KernelCall& call) {
  std::vector<Piece> pieces;
  for (const TensorView& view : call.inputs) {
    pieces.push_back(piece_of(view));
  }
  for (const TensorView& view : call.outputs) {
    pieces.push_back(piece_of(view));
  }
  Mirror mirror(backend, merged(std::move(pieces)));
  HEARTH_TRY_STATUS(mirror.up());
  std::vector<TensorView> inputs;
  std::vector<TensorView> outputs;
  for (const TensorView& view : call.inputs) {
    inputs.push_back(mirror.of(view));
  }
  for (const TensorView& view : call.outputs) {
    outputs.push_back(mirror.of(view));
  }
  KernelCall there = call;
  there.inputs = inputs;
  there.outputs = outputs;
  HEARTH_TRY_STATUS(run_call(backend, there));
  return mirror.down();
}

}  // namespace hearth::testing
