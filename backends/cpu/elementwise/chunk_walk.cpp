#include "chunk_walk.hpp"

#include "backends/cpu/machine/collapse.hpp"
#include "cast_loops.hpp"
#include "move_loops.hpp"

#include <algorithm>
#include <cstddef>

namespace hearth::cpu {

namespace {

constexpr std::int64_t kBufferElements =
    512;  // 4 KiB of the widest type; all buffers of a walk stay in L1
constexpr std::int64_t kTileRows =
    16;  // a whole cache line of 4-byte elements, read along the other axis
constexpr std::int64_t kTileColumns = kBufferElements / kTileRows;
constexpr std::int64_t kShortRow =
    48;  // below, a call per row costs more than packing several rows together

bool is_same_loop_type(DType a, DType b) noexcept {
  return a == b || (size_bytes(a) == 1 && size_bytes(b) == 1);
}

// State shared by all chunks of one call.
class Walk {
 public:
  Walk(const WalkSpec& spec, KernelContext& context, ChunkFn fn, const void* body)
      : spec_(spec),
        context_(context),
        moves_(move_loops(context.isa)),
        casts_(cast_loops(context.isa)),
        fn_(fn),
        body_(body),
        input_count_(spec.inputs.size()),
        count_(spec.outputs[0].element_count()) {}

  void run() {
    if (count_ == 0) {
      return;
    }
    if (is_flat()) {
      run_flat();
      return;
    }
    std::array<Strides, Chunk::kMaxInputs> strides;
    const Shape& shape = spec_.outputs[0].shape();
    for (std::size_t i = 0; i < input_count_; ++i) {
      strides[i] = broadcast_strides(*spec_.inputs[i].layout, shape);
    }
    space_ = Collapsed(shape, std::span(strides).first(input_count_));
    find_conversions();
    find_streams();
    if (space_.inner_size() < kShortRow && space_.rank > 1) {
      fork_elements([this](std::int64_t begin, std::int64_t end) { run_short_rows(begin, end); });
    } else if (is_transposed()) {
      run_tiles();
    } else {
      fork_elements([this](std::int64_t begin, std::int64_t end) { run_rows(begin, end); });
    }
  }

 private:
  struct Buffers {
    alignas(64) std::byte in[Chunk::kMaxInputs][kBufferElements * 8];
    alignas(64) std::byte out[Chunk::kMaxOutputs][kBufferElements * 8];
    alignas(64) std::byte raw[kBufferElements * 8];
  };

  template <class Fn>
  void fork_elements(const Fn& fn) {
    context_.arena.parallel_for(count_, spec_.grain, fn);
  }

  // Whether all operands are contiguous or one element, in the wanted types: then no gathering or
  // conversion is needed.
  [[nodiscard]] bool is_flat() {
    for (std::size_t i = 0; i < input_count_; ++i) {
      const TensorView& view = spec_.inputs[i];
      const std::int64_t elements = view.element_count();
      const bool is_one = elements == 1 && count_ != 1;
      if (!is_same_loop_type(view.dtype, spec_.input_types[i]) ||
          (is_one ? (spec_.may_be_one_element >> i & 1U) == 0
                  : elements != count_ || !view.layout->contiguous)) {
        return false;
      }
      one_element_ |= is_one ? 1U << i : 0U;
    }
    for (std::size_t i = 0; i < spec_.outputs.size(); ++i) {
      if (!is_same_loop_type(spec_.outputs[i].dtype, spec_.output_types[i])) {
        one_element_ = 0;
        return false;
      }
    }
    return true;
  }

  void run_flat() {
    find_streams();
    if (has_streams_) {
      fork_elements([this](std::int64_t begin, std::int64_t end) {
        alignas(64) std::byte buffers[Chunk::kMaxOutputs][kBufferElements * 8];
        for (std::int64_t at = begin; at < end; at += kBufferElements) {
          Chunk chunk = flat_chunk(at, std::min(kBufferElements, end - at));
          for (std::size_t i = 0; i < spec_.outputs.size(); ++i) {
            const std::int64_t size = size_bytes(spec_.outputs[i].dtype);
            std::byte* const target = spec_.outputs[i].data + at * size;
            chunk.out[i] = streams_[i] ? buffers[i] : target;
          }
          fn_(body_, chunk);
          for (std::size_t i = 0; i < spec_.outputs.size(); ++i) {
            if (streams_[i]) {
              const std::int64_t size = size_bytes(spec_.outputs[i].dtype);
              moves_.stream(spec_.outputs[i].data + at * size, buffers[i], chunk.count * size);
            }
          }
        }
        moves_.fence();
      });
      return;
    }
    fork_elements([this](std::int64_t begin, std::int64_t end) {
      fn_(body_, flat_chunk(begin, end - begin));
    });
  }

  [[nodiscard]] Chunk flat_chunk(std::int64_t begin, std::int64_t count) const {
    Chunk chunk{.one_element = one_element_, .count = count, .begin = begin};
    for (std::size_t i = 0; i < input_count_; ++i) {
      const TensorView& view = spec_.inputs[i];
      const bool is_one = (one_element_ >> i & 1U) != 0;
      chunk.in[i] = view.data + (is_one ? 0 : begin * size_bytes(view.dtype));
    }
    for (std::size_t i = 0; i < spec_.outputs.size(); ++i) {
      chunk.out[i] = spec_.outputs[i].data + begin * size_bytes(spec_.outputs[i].dtype);
    }
    return chunk;
  }

  void find_conversions() {
    for (std::size_t i = 0; i < input_count_; ++i) {
      converts_in_[i] = !is_same_loop_type(spec_.inputs[i].dtype, spec_.input_types[i]);
    }
    for (std::size_t i = 0; i < spec_.outputs.size(); ++i) {
      converts_out_[i] = !is_same_loop_type(spec_.outputs[i].dtype, spec_.output_types[i]);
    }
  }

  void find_streams() {
    for (std::size_t i = 0; i < spec_.outputs.size(); ++i) {
      const TensorView& out = spec_.outputs[i];
      bool shares = false;
      for (const TensorView& in : spec_.inputs) {
        shares = shares || in.data == out.data;
      }
      streams_[i] = !shares && count_ * size_bytes(out.dtype) >= MoveLoops::kStreamBytes;
      has_streams_ = has_streams_ || streams_[i];
    }
  }

  [[nodiscard]] bool is_transposed() const {
    for (std::size_t i = 0; i < input_count_; ++i) {
      const std::int64_t step = space_.inner_stride(i);
      if (step != 0 && step != 1 && space_.rank > 1) {
        return true;
      }
    }
    return false;
  }

  void run_rows(std::int64_t begin, std::int64_t end) {
    Buffers buffers;
    const std::int64_t inner = space_.inner_size();
    Place place(space_, begin / inner);
    std::int64_t column = begin % inner;
    while (begin < end) {
      const std::int64_t count = std::min(inner - column, end - begin);
      const bool is_buffered = needs_buffers();
      for (std::int64_t done = 0; done < count;) {
        const std::int64_t piece = is_buffered ? std::min(kBufferElements, count - done) : count;
        block(place, column + done, 1, piece, begin + done, buffers);
        done += piece;
      }
      begin += count;
      column = 0;
      place.advance();
    }
    finish_streams();
  }

  // Cuts the result into tiles of rows and columns, so that an input that is contiguous along the
  // rows is read by whole cache lines.
  void run_tiles() {
    const std::int64_t columns = space_.inner_size();
    const std::int64_t rows = space_.size[static_cast<std::size_t>(space_.rank) - 2];
    const std::int64_t groups = (rows + kTileRows - 1) / kTileRows;
    const std::int64_t planes = count_ / (rows * columns);
    const std::int64_t grain = std::max<std::int64_t>(1, spec_.grain / (kTileRows * columns));
    context_.arena.parallel_for(planes * groups, grain, [&](std::int64_t begin, std::int64_t end) {
      Buffers buffers;
      for (std::int64_t group = begin; group < end; ++group) {
        const std::int64_t row = group / groups * rows + group % groups * kTileRows;
        const std::int64_t height = std::min(kTileRows, rows - group % groups * kTileRows);
        const Place place(space_, row);
        for (std::int64_t column = 0; column < columns; column += kTileColumns) {
          const std::int64_t width = std::min(kTileColumns, columns - column);
          block(place, column, height, width, row * columns + column, buffers);
        }
      }
      finish_streams();
    });
  }

  [[nodiscard]] bool is_one_element(std::size_t i) const {
    return space_.inner_stride(i) == 0 && (spec_.may_be_one_element >> i & 1U) != 0;
  }

  [[nodiscard]] bool needs_buffers() const {
    for (std::size_t i = 0; i < input_count_; ++i) {
      if (!is_one_element(i) && (converts_in_[i] || space_.inner_stride(i) != 1)) {
        return true;
      }
    }
    for (std::size_t i = 0; i < spec_.outputs.size(); ++i) {
      if (converts_out_[i] || streams_[i]) {
        return true;
      }
    }
    return false;
  }

  // Runs `rows` rows from `place` on, columns [column, column + columns) of each.
  void block(const Place& place,
             std::int64_t column,
             std::int64_t rows,
             std::int64_t columns,
             std::int64_t begin,
             Buffers& buffers) {
    std::array<const std::byte*, Chunk::kMaxInputs> first{};
    std::array<std::int64_t, Chunk::kMaxInputs> row_bytes{};
    std::uint32_t one_element = 0;
    for (std::size_t i = 0; i < input_count_; ++i) {
      const std::int64_t step = space_.inner_stride(i);
      const std::int64_t row_step =
          space_.rank > 1 ? space_.stride[i][static_cast<std::size_t>(space_.rank) - 2] : 0;
      const std::int64_t stored = size_bytes(spec_.inputs[i].dtype);
      const std::int64_t wanted = size_bytes(spec_.input_types[i]);
      const std::byte* source = spec_.inputs[i].data + (place.offset[i] + column * step) * stored;
      const bool is_one = is_one_element(i);
      one_element |= is_one ? 1U << i : 0U;
      if (!converts_in_[i] && (is_one || step == 1)) {
        first[i] = source;
        row_bytes[i] = row_step * stored;
        continue;
      }
      const std::int64_t width = is_one ? 1 : columns;
      if (step != 1 || rows > 1) {
        std::byte* const packed = converts_in_[i] ? buffers.raw : buffers.in[i];
        moves_.gathers[MoveLoops::size_index(stored)](
            packed, width, source, row_step, step, rows, width);
        source = packed;
      }
      if (converts_in_[i]) {
        casts_.at(spec_.inputs[i].dtype, spec_.input_types[i])(buffers.in[i], source, rows * width);
      }
      first[i] = buffers.in[i];
      row_bytes[i] = width * wanted;
    }
    for (std::int64_t row = 0; row < rows; ++row) {
      Chunk chunk{
          .one_element = one_element, .count = columns, .begin = begin + row * space_.inner_size()};
      for (std::size_t i = 0; i < input_count_; ++i) {
        chunk.in[i] = first[i] + row * row_bytes[i];
      }
      call(chunk, buffers);
    }
  }

  // Runs several short rows at once: gathers each input's part of them into a buffer, unless the
  // input is contiguous over the whole result.
  void run_short_rows(std::int64_t begin, std::int64_t end) {
    Buffers buffers;
    const std::int64_t inner = space_.inner_size();
    // Chunks of whole rows all start at the same column, so a row that repeats is gathered once.
    const std::int64_t step = kBufferElements / inner * inner;
    for (std::int64_t at = begin; at < end; at += step) {
      Chunk chunk{.count = std::min(step, end - at), .begin = at};
      for (std::size_t i = 0; i < input_count_; ++i) {
        const TensorView& view = spec_.inputs[i];
        const std::int64_t stored = size_bytes(view.dtype);
        if (at > begin && space_.repeats(i, 0, space_.rank - 1)) {
          chunk.in[i] = buffers.in[i];
          continue;
        }
        if (space_.is_linear(i)) {
          chunk.in[i] = view.data + at * stored;
        } else {
          std::byte* const packed = converts_in_[i] ? buffers.raw : buffers.in[i];
          pack_short_rows(i, at / inner, at % inner, chunk.count, packed);
          chunk.in[i] = packed;
        }
        if (converts_in_[i]) {
          casts_.at(view.dtype, spec_.input_types[i])(buffers.in[i], chunk.in[i], chunk.count);
          chunk.in[i] = buffers.in[i];
        }
      }
      call(chunk, buffers);
    }
    finish_streams();
  }

  void pack_short_rows(std::size_t input,
                       std::int64_t row,
                       std::int64_t column,
                       std::int64_t count,
                       std::byte* to) const {
    const TensorView& view = spec_.inputs[input];
    switch (size_bytes(view.dtype)) {
      case 1:
        pack_elements<std::uint8_t>(input, row, column, count, to);
        break;
      case 2:
        pack_elements<std::uint16_t>(input, row, column, count, to);
        break;
      case 4:
        pack_elements<std::uint32_t>(input, row, column, count, to);
        break;
      default:
        pack_elements<std::uint64_t>(input, row, column, count, to);
        break;
    }
  }

  template <class T>
  void pack_elements(std::size_t input,
                     std::int64_t row,
                     std::int64_t column,
                     std::int64_t count,
                     std::byte* to_bytes) const {
    const T* from = spec_.inputs[input].as<T>();
    T* to = reinterpret_cast<T*>(to_bytes);
    const std::int64_t step = space_.inner_stride(input);
    Place place(space_, row);
    while (count > 0) {
      const std::int64_t width = std::min(space_.inner_size() - column, count);
      const T* first = from + place.offset[input] + column * step;
      for (std::int64_t c = 0; c < width; ++c) {
        to[c] = first[c * step];
      }
      to += width;
      count -= width;
      column = 0;
      place.advance();
    }
  }

  // Runs the body on a chunk with prepared inputs, and writes outputs to memory directly or through
  // buffers.
  void call(Chunk& chunk, Buffers& buffers) {
    for (std::size_t i = 0; i < spec_.outputs.size(); ++i) {
      const TensorView& view = spec_.outputs[i];
      std::byte* const target = view.data + chunk.begin * size_bytes(view.dtype);
      chunk.out[i] = converts_out_[i] || streams_[i] ? buffers.out[i] : target;
    }
    fn_(body_, chunk);
    for (std::size_t i = 0; i < spec_.outputs.size(); ++i) {
      const TensorView& view = spec_.outputs[i];
      const std::int64_t stored = size_bytes(view.dtype);
      std::byte* const target = view.data + chunk.begin * stored;
      if (converts_out_[i]) {
        std::byte* const cast = streams_[i] ? buffers.raw : target;
        casts_.at(spec_.output_types[i], view.dtype)(cast, buffers.out[i], chunk.count);
        if (streams_[i]) {
          moves_.stream(target, cast, chunk.count * stored);
        }
      } else if (streams_[i]) {
        moves_.stream(target, buffers.out[i], chunk.count * stored);
      }
    }
  }

  void finish_streams() const {
    if (has_streams_) {
      moves_.fence();
    }
  }

  const WalkSpec& spec_;
  KernelContext& context_;
  const MoveLoops& moves_;
  const CastLoops& casts_;
  ChunkFn fn_;
  const void* body_;
  std::size_t input_count_;
  std::int64_t count_;
  std::uint32_t one_element_ = 0;
  Collapsed space_;
  std::array<bool, Chunk::kMaxInputs> converts_in_{};
  std::array<bool, Chunk::kMaxOutputs> converts_out_{};
  std::array<bool, Chunk::kMaxOutputs> streams_{};
  bool has_streams_ = false;
};

}  // namespace

void run_chunks(const WalkSpec& spec, KernelContext& context, ChunkFn fn, const void* body) {
  Walk(spec, context, fn, body).run();
}

}  // namespace hearth::cpu
