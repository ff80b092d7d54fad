#include "conv_weight.hpp"

#include "backends/cpu/products/gemm.hpp"
#include "conv_planes.hpp"
#include "conv_weight_product.hpp"
#include "conv_window_weight.hpp"

#include <algorithm>

namespace hearth::cpu {

namespace {

// A part must take longer than waking a core (34 µs), whether products or memory limit it.
constexpr double kWeightPartFlops = 16e6;
constexpr double kWeightPartBytes = 1e6;
// Limit of the sums of all parts together.
constexpr std::int64_t kSumBytes = 32 << 20;
// Elements joined by one task.
constexpr std::int64_t kWeightJoinElements = 1 << 16;
// Pixels of one block of rows.
constexpr std::int64_t kWeightBlockPixels = 320;
// A longer row is cut: limit of the products that a tile adds to one another.
constexpr std::int64_t kMostTilePixels = 512;
// With fewer input channels, a tile holds several taps beside the channels.
constexpr std::int64_t kFewInputs = 8;

// sum[group][tap][c][o] = Σ_pixel x[pixel + tap][c]·grad[pixel][o], with both transposed to
// channels innermost. With few input channels the rows (tap, c) are gathered for each pixel
// instead.
template <class T>
class WeightGradient {
 public:
  WeightGradient(const TensorView& x,
                 const TensorView& grad,
                 const TensorView& weight,
                 const ConvAttributes& attributes,
                 IsaLevel isa)
      : kernels_(tile_kernels<T>(isa)),
        loops_(window_loops<T>(isa)),
        x_(x),
        grad_(grad),
        weight_(weight),
        attributes_(attributes) {
    groups_ = attributes.groups;
    inputs_ = weight.shape()[1];
    outputs_ = weight.shape()[0] / groups_;
    kernel_ = {weight.shape()[2], weight.shape()[3]};
    taps_ = kernel_[0] * kernel_[1];
    rows_ = grad.shape()[2];
    columns_ = grad.shape()[3];
    gathers_ = inputs_ < kFewInputs;
    panel_ = outputs_ <= kernels_.vector_columns ? kernels_.vector_columns : kernels_.panel_columns;
    padded_outputs_ = parts(outputs_, panel_) * panel_;
    const std::int64_t row_items = gathers_ ? taps_ * inputs_ : inputs_;
    items_ = parts(row_items, parts(row_items, kernels_.max_rows));
    lay_out();
  }

  [[nodiscard]] std::int64_t scratch_bytes() const {
    return shared_bytes_ + part_count_ * part_bytes_;
  }

  void run(std::byte* scratch, Arena& arena) {
    offsets_ = reinterpret_cast<std::int64_t*>(scratch);
    fill_offsets();
    const std::int64_t images = x_.shape()[0];
    const std::int64_t grain = parts(images, part_count_);
    const std::int64_t used = parts(images, grain);
    arena.parallel_for(images, grain, [&](std::int64_t begin, std::int64_t end) {
      std::byte* own = scratch + shared_bytes_ + begin / grain * part_bytes_;
      auto* const sums = reinterpret_cast<T*>(own);
      std::fill_n(sums, sum_elements_, T{});
      if (has_totals_) {
        std::fill_n(totals_of(own), sum_elements_, 0.0);
      }
      std::int64_t blocks = 0;  // blocks so far, of each group
      for (std::int64_t image = begin; image < end; ++image) {
        for (std::int64_t row = 0; row < rows_; row += block_rows_) {
          for (std::int64_t group = 0; group < groups_; ++group) {
            add_rows(image, group, row, blocks, own);
          }
          blocks += parts(std::min(block_rows_, rows_ - row) * columns_, depth_);
        }
      }
      for (std::int64_t group = 0; has_totals_ && group < groups_; ++group) {
        move_to_totals(group, own);
      }
    });
    join(scratch + shared_bytes_, used, reinterpret_cast<T*>(scratch + weights_at_), arena);
  }

 private:
  static constexpr auto kElementBytes = static_cast<std::int64_t>(sizeof(T));

  void lay_out() {
    block_.first_column = -attributes_.padding[1];
    block_.column_stride = attributes_.stride[1];
    block_.phase_columns =
        columns_ + (kernel_[1] - 1) * attributes_.dilation[1] / attributes_.stride[1];
    block_rows_ =
        parts(rows_, parts(rows_, std::max<std::int64_t>(1, kWeightBlockPixels / columns_)));
    block_.rows =
        (block_rows_ - 1) * attributes_.stride[0] + (kernel_[0] - 1) * attributes_.dilation[0] + 1;
    pixels_ = block_rows_ * columns_;
    depth_ = even_part(pixels_, kMostTilePixels);
    sum_elements_ = groups_ * taps_ * inputs_ * padded_outputs_;
    const double flops = 2.0 * static_cast<double>(sum_elements_) *
                         static_cast<double>(x_.shape()[0] * rows_ * columns_);
    const std::int64_t most = std::clamp<std::int64_t>(
        kSumBytes / std::max<std::int64_t>(1, sum_elements_ * kElementBytes), 1, kMaxParts);
    const double bytes = static_cast<double>(x_.element_count() + grad_.element_count()) *
                         static_cast<double>(size_bytes(x_.dtype));
    part_count_ = std::clamp<std::int64_t>(
        static_cast<std::int64_t>(flops / kWeightPartFlops + bytes / kWeightPartBytes),
        1,
        std::min(most, x_.shape()[0]));
    // Shared: offsets | weights before they are narrowed.
    weights_at_ = whole_lines(pixels_ * std::int64_t{sizeof(std::int64_t)});
    shared_bytes_ =
        weights_at_ +
        (weight_.dtype == dtype_of<T> ? 0 : whole_lines(weight_.element_count() * kElementBytes));
    const std::int64_t images = parts(x_.shape()[0], part_count_);
    has_totals_ = images * parts(rows_, block_rows_) * parts(pixels_, depth_) > kMostBlocks;
    // Each part: sums | planes | transposed planes or gathered rows | gradient | transposed
    // gradient | sums in f64.
    const std::int64_t plane_elements = inputs_ * block_.plane_elements();
    planes_at_ = whole_lines(sum_elements_ * kElementBytes);
    turned_at_ = planes_at_ + whole_lines((plane_elements + loops_.vector_columns) * kElementBytes);
    staged_at_ = turned_at_ + whole_lines(gathers_ ? pixels_ * taps_ * inputs_ * kElementBytes
                                                   : plane_elements * kElementBytes);
    const std::int64_t staged =
        std::max(outputs_ * pixels_, gathers_ ? taps_ * inputs_ * columns_ : 0);
    grad_at_ = staged_at_ + whole_lines(staged * kElementBytes);
    totals_at_ = grad_at_ + whole_lines(pixels_ * padded_outputs_ * kElementBytes);
    part_bytes_ =
        totals_at_ + (has_totals_ ? whole_lines(sum_elements_ * std::int64_t{sizeof(double)}) : 0);
  }

  void fill_offsets() {
    for (std::int64_t pixel = 0; pixel < pixels_; ++pixel) {
      const std::int64_t row = pixel / columns_ * attributes_.stride[0];
      offsets_[pixel] = (row * block_.row_elements() + pixel % columns_) * inputs_;
    }
  }

  [[nodiscard]] std::int64_t tap_place(std::int64_t tap) const {
    return tap / kernel_[1] * attributes_.dilation[0] * block_.row_elements() +
           block_.column_place(tap % kernel_[1] * attributes_.dilation[1]);
  }

  // Adds rows of an image to sums that already hold `blocks` blocks of pixels.
  void add_rows(std::int64_t image,
                std::int64_t group,
                std::int64_t row,
                std::int64_t blocks,
                std::byte* own) const {
    const std::int64_t rows = std::min(block_rows_, rows_ - row);
    PlaneBlock block = block_;
    block.first_row = row * attributes_.stride[0] - attributes_.padding[0];
    T* planes = reinterpret_cast<T*>(own + planes_at_);
    T* turned = reinterpret_cast<T*>(own + turned_at_);
    copy_planes(loops_, x_, image, group * inputs_, inputs_, block, planes);
    if (gathers_) {
      gather_rows(planes, rows, reinterpret_cast<T*>(own + staged_at_), turned);
    } else {
      kernels_.transpose(
          planes, block.plane_elements(), turned, inputs_, inputs_, block.plane_elements());
    }
    T* grad = reinterpret_cast<T*>(own + grad_at_);
    turn_gradient(image, group, row, rows, reinterpret_cast<T*>(own + staged_at_), grad);
    T* sums = reinterpret_cast<T*>(own) + group * group_elements();
    for (std::int64_t first = 0; first < rows * columns_; first += depth_, ++blocks) {
      if (has_totals_ && blocks > 0 && blocks % kMostBlocks == 0) {
        move_to_totals(group, own);
      }
      multiply(turned, grad, first, std::min(depth_, rows * columns_ - first), sums);
    }
  }

  [[nodiscard]] double* totals_of(std::byte* own) const {
    return reinterpret_cast<double*>(own + totals_at_);
  }
  [[nodiscard]] std::int64_t group_elements() const { return taps_ * inputs_ * padded_outputs_; }
  void move_to_totals(std::int64_t group, std::byte* own) const {
    T* const sums = reinterpret_cast<T*>(own) + group * group_elements();
    double* const totals = totals_of(own) + group * group_elements();
    for (std::int64_t i = 0; i < group_elements(); ++i) {
      totals[i] += static_cast<double>(sums[i]);
      sums[i] = T{};
    }
  }

  // Writes to[pixel][(tap, c)].
  void gather_rows(const T* planes, std::int64_t rows, T* staged, T* to) const {
    const std::int64_t width = taps_ * inputs_;
    for (std::int64_t row = 0; row < rows; ++row) {
      T* out = staged;
      for (std::int64_t tap = 0; tap < taps_; ++tap) {
        for (std::int64_t c = 0; c < inputs_; ++c, out += columns_) {
          const T* from = planes + c * block_.plane_elements() +
                          row * attributes_.stride[0] * block_.row_elements() + tap_place(tap);
          std::copy_n(from, columns_, out);
        }
      }
      kernels_.transpose(staged, columns_, to + row * columns_ * width, width, width, columns_);
    }
  }

  // Writes to[pixel][o].
  void turn_gradient(std::int64_t image,
                     std::int64_t group,
                     std::int64_t row,
                     std::int64_t rows,
                     T* staged,
                     T* to) const {
    const Strides& steps = grad_.strides();
    const std::int64_t count = rows * columns_;
    const std::byte* from =
        grad_.data +
        (image * steps[0] + group * outputs_ * steps[1] + row * steps[2]) * size_bytes(grad_.dtype);
    if (grad_.dtype == dtype_of<T> && steps[3] == 1 && steps[2] == columns_) {
      kernels_.transpose(
          reinterpret_cast<const T*>(from), steps[1], to, padded_outputs_, outputs_, count);
      return;
    }
    for (std::int64_t o = 0; o < outputs_; ++o) {
      for (std::int64_t i = 0; i < rows; ++i) {
        gather(kernels_,
               from + (o * steps[1] + i * steps[2]) * size_bytes(grad_.dtype),
               grad_.dtype,
               steps[3],
               staged + o * count + i * columns_,
               columns_);
      }
    }
    kernels_.transpose(staged, count, to, padded_outputs_, outputs_, count);
  }

  void multiply(
      const T* turned, const T* grad, std::int64_t first, std::int64_t pixels, T* sums) const {
    const std::int64_t row_items = gathers_ ? taps_ * inputs_ : inputs_;
    Tile<T> tile;
    tile.depth = pixels;
    tile.b_step = padded_outputs_;
    tile.c_step = padded_outputs_;
    tile.start_step = padded_outputs_;
    tile.a_step = row_items;
    tile.a_offsets = gathers_ ? nullptr : offsets_ + first;
    for (std::int64_t o = 0; o < padded_outputs_; o += panel_) {
      tile.b = grad + first * padded_outputs_ + o;
      tile.columns = static_cast<int>(std::min(panel_, outputs_ - o));
      for (std::int64_t tap = 0; tap < (gathers_ ? 1 : taps_); ++tap) {
        const T* from = turned + (gathers_ ? first * row_items : tap_place(tap) * inputs_);
        for (std::int64_t item = 0; item < row_items; item += items_) {
          tile.a = from + item;
          tile.rows = static_cast<int>(std::min(items_, row_items - item));
          tile.c = sums + (tap * inputs_ + item) * padded_outputs_ + o;
          tile.start = tile.c;
          kernels_.multiply(tile);
        }
      }
    }
  }

  // Adds the parts in order and stores them in the order of the weights.
  void join(std::byte* parts_begin, std::int64_t used, T* staged, Arena& arena) const {
    T* sums = reinterpret_cast<T*>(parts_begin);
    arena.parallel_for(
        sum_elements_, kWeightJoinElements, [&](std::int64_t begin, std::int64_t end) {
          if (has_totals_) {
            double* const totals = totals_of(parts_begin);
            for (std::int64_t part = 1; part < used; ++part) {
              const double* const more = totals_of(parts_begin + part * part_bytes_);
              for (std::int64_t i = begin; i < end; ++i) {
                totals[i] += more[i];
              }
            }
            for (std::int64_t i = begin; i < end; ++i) {
              sums[i] = static_cast<T>(totals[i]);
            }
            return;
          }
          for (std::int64_t part = 1; part < used; ++part) {
            const T* more = reinterpret_cast<const T*>(parts_begin + part * part_bytes_);
            for (std::int64_t i = begin; i < end; ++i) {
              sums[i] += more[i];
            }
          }
        });
    const bool direct = weight_.dtype == dtype_of<T>;
    T* to = direct ? reinterpret_cast<T*>(weight_.data) : staged;
    for (std::int64_t group = 0; group < groups_; ++group) {
      for (std::int64_t c = 0; c < inputs_; ++c) {
        const T* from = sums + (group * taps_ * inputs_ + c) * padded_outputs_;
        kernels_.transpose(from,
                           inputs_ * padded_outputs_,
                           to + (group * outputs_ * inputs_ + c) * taps_,
                           inputs_ * taps_,
                           taps_,
                           outputs_);
      }
    }
    if (!direct) {
      kernels_.store(staged, weight_.data, weight_.dtype, weight_.element_count());
    }
  }

  const TileKernels<T>& kernels_;
  const WindowLoops<T>& loops_;
  const TensorView& x_;
  const TensorView& grad_;
  const TensorView& weight_;
  const ConvAttributes& attributes_;
  std::int64_t groups_ = 1;
  std::int64_t inputs_ = 0;
  std::int64_t outputs_ = 0;
  std::array<std::int64_t, 2> kernel_{};
  std::int64_t taps_ = 0;
  std::int64_t rows_ = 0;
  std::int64_t columns_ = 0;
  bool gathers_ = false;
  std::int64_t panel_ = 0;           // output channels of one tile
  std::int64_t padded_outputs_ = 0;  // whole panels
  std::int64_t items_ = 0;           // rows of one tile
  PlaneBlock block_;
  std::int64_t block_rows_ = 0;
  std::int64_t pixels_ = 0;
  std::int64_t depth_ = 1;  // pixels of one tile
  std::int64_t sum_elements_ = 0;
  std::int64_t part_count_ = 1;
  std::int64_t weights_at_ = 0;
  std::int64_t shared_bytes_ = 0;
  std::int64_t planes_at_ = 0;
  std::int64_t turned_at_ = 0;
  std::int64_t staged_at_ = 0;
  std::int64_t grad_at_ = 0;
  std::int64_t totals_at_ = 0;
  std::int64_t part_bytes_ = 0;
  bool has_totals_ = false;  // more than kMostBlocks blocks: totals in f64
  std::int64_t* offsets_ = nullptr;
};

template <class T>
Status run_tile_gradient(const TensorView& x,
                         const TensorView& grad,
                         const TensorView& weight,
                         const ConvAttributes& attributes,
                         KernelContext& context) {
  WeightGradient<T> work(x, grad, weight, attributes, context.isa);
  HEARTH_TRY(std::byte* const scratch, context.scratch.take_all(work.scratch_bytes()));
  work.run(scratch, context.arena);
  return {};
}

}  // namespace

Status run_conv_backward_weight(const TensorView& x,
                                const TensorView& grad,
                                const TensorView& weight,
                                const ConvAttributes& attributes,
                                KernelContext& context) {
  if (weight.element_count() == 0) {
    return {};
  }
  if (grad.element_count() == 0) {
    std::fill_n(weight.data, weight.element_count() * size_bytes(weight.dtype), std::byte{0});
    return {};
  }
  // Of a single tap's strided inputs, the others need not be copied.
  const detail::Layout layout = visited_inputs(x, weight.shape(), grad.shape(), attributes);
  const TensorView visited{x.data, &layout, x.dtype};
  ConvAttributes steps = attributes;
  if (layout.shape != x.shape()) {
    steps.stride = {1, 1};
  }
  if (is_weight_product(visited, grad, weight, steps)) {
    return run_weight_product(visited, grad, weight, context);
  }
  if (has_few_channels(weight.shape(), attributes.groups)) {
    return run_window_backward_weight(visited, grad, weight, steps, context);
  }
  return x.dtype == DType::f64 ? run_tile_gradient<double>(visited, grad, weight, steps, context)
                               : run_tile_gradient<float>(visited, grad, weight, steps, context);
}

}  // namespace hearth::cpu
