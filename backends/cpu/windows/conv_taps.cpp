#include "conv_taps.hpp"

#include "backends/cpu/products/epilogue.hpp"
#include "backends/cpu/products/gemm.hpp"
#include "conv_planes.hpp"

#include <hearth/runtime/base/assert.hpp>

#include <algorithm>

namespace hearth::cpu {

namespace {

// A part must take longer than waking a core (34 µs), whether products or memory limit it.
constexpr double kTapPartFlops = 16e6;
constexpr double kTapPartBytes = 1e6;
// Enough work to share with an awake thread: about 5 µs.
constexpr double kSharedTapFlops = 4e5;
// A block's planes stay in the second-level cache, its results in the first-level cache.
constexpr std::int64_t kPlaneBytes = 1 << 19;
constexpr std::int64_t kBlockPixels = 256;
// Results up to this size stay as whole planes in the second-level cache.
constexpr std::int64_t kResultBytes = 1 << 17;
// Depth of one pass: the weights of one panel stay in the first-level cache.
constexpr std::int64_t kDepth = 192;
// Cost of transposing a block of results, in steps of depth.
constexpr std::int64_t kTurnDepth = 8;

// Partial sums of a tile whose depth has more than kMostBlocks blocks.
template <class T>
class TileTotals {
 public:
  /// Adds the tile's current sums and restarts the tile at 0.
  void take(Tile<T>& tile) {
    each(tile, [](double& total, T& sum) { total += static_cast<double>(sum); });
    tile.start = nullptr;
    tile.row_start = nullptr;
    has_any_ = true;
  }
  /// Writes the total sums into the tile.
  void finish(const Tile<T>& tile) {
    if (has_any_) {
      each(tile,
           [](double& total, T& sum) { sum = static_cast<T>(total + static_cast<double>(sum)); });
    }
  }

 private:
  static constexpr std::int64_t kMostRows = 16;
  static constexpr std::int64_t kMostColumns = 32;

  template <class Fn>
  void each(const Tile<T>& tile, const Fn& fn) {
    HEARTH_ASSERT(tile.rows <= kMostRows && tile.columns <= kMostColumns,
                  "a tile is larger than its totals");
    for (std::int64_t row = 0; row < tile.rows; ++row) {
      for (std::int64_t column = 0; column < tile.columns; ++column) {
        fn(totals_[row * kMostColumns + column], tile.c[row * tile.c_step + column]);
      }
    }
  }

  bool has_any_ = false;
  double totals_[kMostRows * kMostColumns] = {};
};

template <class T>
class Convolution {
 public:
  /// `awake_threads`: returns the number of threads that share short work.
  template <class AwakeThreads>
  Convolution(const TapConvolution& convolution,
              IsaLevel isa,
              const TapChoice& choice,
              const AwakeThreads& awake_threads)
      : conv_(convolution),
        kernels_(tile_kernels<T>(isa)),
        loops_(window_loops<T>(isa)),
        choice_(choice) {
    depth_ = conv_.inputs * static_cast<std::int64_t>(conv_.taps.size());
    block_depth_ = depth_ == 0 ? 1 : parts(depth_, parts(depth_, kDepth));
    choose_form();
    lay_out_block(awake_threads);
    lay_out_scratch();
  }

  [[nodiscard]] TapPlan plan() const { return {.form = form_, .block_rows = block_rows_}; }
  [[nodiscard]] std::int64_t scratch_bytes() const {
    return shared_bytes_ + part_count_ * part_bytes_;
  }

  void run(std::byte* scratch, Arena& arena) {
    offsets_ = reinterpret_cast<std::int64_t*>(scratch);
    bias_ = reinterpret_cast<T*>(scratch + bias_at_);
    fill_offsets();
    take_bias();
    take_weights(reinterpret_cast<T*>(scratch + weights_at_));
    if (awake_threads_ > 1) {
      arena.share(
          awake_threads_, unit_count_, 1, [&](std::int64_t unit, std::int64_t /*end*/, int thread) {
            run_unit(unit, scratch + shared_bytes_ + thread * part_bytes_);
          });
      return;
    }
    const std::int64_t grain = parts(unit_count_, part_count_);
    arena.parallel_for(unit_count_, grain, [&](std::int64_t begin, std::int64_t end) {
      std::byte* own = scratch + shared_bytes_ + begin / grain * part_bytes_;
      for (std::int64_t unit = begin; unit < end; ++unit) {
        run_unit(unit, own);
      }
    });
  }

 private:
  struct Unit {
    std::int64_t image;
    std::int64_t group;
    std::int64_t first_row;
    std::int64_t rows;
  };

  static constexpr auto kElementBytes = static_cast<std::int64_t>(sizeof(T));

  void choose_form() {
    const std::int64_t lanes = kernels_.vector_columns;
    const std::int64_t by_pixels = parts(conv_.columns, lanes) * lanes * conv_.outputs * depth_;
    const std::int64_t by_channels =
        conv_.columns * parts(conv_.outputs, lanes) * lanes * (depth_ + kTurnDepth);
    const bool is_chosen = choice_.form != TapForm::by_size && choice_.form != TapForm::windows;
    form_ = is_chosen                  ? choice_.form
            : by_pixels <= by_channels ? TapForm::channels_by_pixels
                                       : TapForm::pixels_by_channels;
    const std::int64_t most =
        form_ == TapForm::channels_by_pixels
            ? kernels_.max_rows
            : (conv_.outputs <= lanes ? lanes : std::int64_t{kernels_.panel_columns});
    // Vector operands come in whole panels, scalar operands in equal ones.
    panel_ = form_ == TapForm::channels_by_pixels ? parts(conv_.outputs, parts(conv_.outputs, most))
                                                  : most;
    panels_ = parts(conv_.outputs, panel_);
    pixels_ = form_ == TapForm::channels_by_pixels
                  ? std::int64_t{kernels_.panel_columns}
                  : parts(conv_.columns, parts(conv_.columns, kernels_.max_rows));
  }

  template <class AwakeThreads>
  void lay_out_block(const AwakeThreads& awake_threads) {
    std::int64_t last_row = 0;
    std::int64_t last_column = 0;
    block_.column_stride = conv_.column_stride;
    for (std::size_t t = 0; t < conv_.taps.size(); ++t) {
      const ConvTap& tap = conv_.taps[t];
      first_tap_row_ = t == 0 ? tap.row : std::min(first_tap_row_, tap.row);
      block_.first_column = t == 0 ? tap.column : std::min(block_.first_column, tap.column);
      last_row = t == 0 ? tap.row : std::max(last_row, tap.row);
      last_column = t == 0 ? tap.column : std::max(last_column, tap.column);
    }
    block_.phase_columns =
        conv_.columns + (last_column - block_.first_column) / conv_.column_stride;
    const std::int64_t tap_rows = last_row - first_tap_row_;
    const std::int64_t row_bytes =
        std::max<std::int64_t>(1, conv_.inputs * block_.row_elements() * kElementBytes);
    const std::int64_t fit =
        std::max<std::int64_t>(1, (plane_bytes() / row_bytes - tap_rows) / conv_.row_stride);
    const double flops =
        2.0 * static_cast<double>(depth_ * conv_.outputs) *
        static_cast<double>(conv_.y.shape()[0] * conv_.groups * conv_.rows * conv_.columns);
    const double bytes = static_cast<double>(conv_.x.element_count() + conv_.y.element_count()) *
                         static_cast<double>(size_bytes(conv_.y.dtype));
    auto wanted_parts = static_cast<std::int64_t>(flops / kTapPartFlops + bytes / kTapPartBytes);
    if (wanted_parts <= 1 && flops >= kSharedTapFlops) {
      awake_threads_ = awake_threads();
      wanted_parts = awake_threads_;
    }
    const std::int64_t planes = conv_.y.shape()[0] * conv_.groups;
    const bool is_whole =
        choice_.block_pixels == 0 && suits_whole_planes() && planes >= wanted_parts;
    // Several blocks for each thread, so that the others take over the blocks of a late one.
    constexpr std::int64_t kBlocks = 2;
    const std::int64_t block_rows = awake_threads_ > 1 ? parts(conv_.rows, kBlocks * awake_threads_)
                                                       : block_pixels() / conv_.columns;
    const std::int64_t wanted =
        std::min(fit, is_whole ? conv_.rows : std::max<std::int64_t>(1, block_rows));
    block_rows_ = parts(conv_.rows, parts(conv_.rows, wanted));
    block_.rows = (block_rows_ - 1) * conv_.row_stride + tap_rows + 1;
    if (const std::int64_t unit = conv_.sink.row_unit; conv_.sink.take != nullptr) {
      block_rows_ = unit == 0 ? conv_.rows : std::min(conv_.rows, parts(block_rows_, unit) * unit);
      block_.rows = (block_rows_ - 1) * conv_.row_stride + tap_rows + 1;
    }
    row_blocks_ = parts(conv_.rows, block_rows_);
    unit_count_ = planes * row_blocks_;
    part_count_ = std::clamp<std::int64_t>(wanted_parts, 1, std::min(kMaxParts, unit_count_));
  }

  [[nodiscard]] std::int64_t block_pixels() const {
    return choice_.block_pixels == 0 ? kBlockPixels : choice_.block_pixels;
  }
  [[nodiscard]] std::int64_t plane_bytes() const {
    return choice_.plane_bytes == 0 ? kPlaneBytes : choice_.plane_bytes;
  }

  // An epilogue runs over whole planes at once, over parts of planes row by row.
  [[nodiscard]] bool suits_whole_planes() const {
    return conv_.outputs * conv_.rows * conv_.columns * kElementBytes <= kResultBytes;
  }

  // Shared: offsets | weights | bias. Each part: planes | results of a tile | results to be spread
  // or narrowed | memory of the sink.
  void lay_out_scratch() {
    weights_at_ = whole_lines(depth_ * std::int64_t{sizeof(std::int64_t)});
    bias_at_ = weights_at_ + whole_lines(conv_.groups * panels_ * panel_ * depth_ * kElementBytes);
    shared_bytes_ = bias_at_ + whole_lines(conv_.groups * conv_.outputs * kElementBytes);
    // Vectors of pixels may be read beyond the last plane.
    turned_at_ = whole_lines((conv_.inputs * block_.plane_elements() + kernels_.panel_columns) *
                             kElementBytes);
    const std::int64_t pixels = block_rows_ * conv_.columns;
    results_at_ =
        turned_at_ +
        (form_ == TapForm::pixels_by_channels ? whole_lines(pixels * panel_ * kElementBytes) : 0);
    sink_at_ =
        results_at_ + (writes_directly() ? 0 : whole_lines(pixels * conv_.outputs * kElementBytes));
    part_bytes_ = sink_at_;
    if (conv_.sink.take != nullptr) {
      part_bytes_ +=
          whole_lines(conv_.sink.memory_bytes(conv_.sink.context, conv_.outputs, block_rows_));
    }
  }

  [[nodiscard]] bool writes_directly() const {
    return conv_.y.dtype == dtype_of<T> && conv_.y_row_step == 1 && conv_.y_column_step == 1 &&
           !finishes_elsewhere() && conv_.sink.take == nullptr;
  }
  // A cut for the awake threads leaves an in-place epilogue with many short rows; in scratch memory
  // it is one row. Larger pictures lose more by the copy: bench BM_ConvRelu_Rows.
  [[nodiscard]] bool finishes_elsewhere() const {
    return awake_threads_ > 1 && row_blocks_ > 1 && conv_.epilogue != nullptr &&
           conv_.epilogue->runs_anywhere() && conv_.y.dtype == dtype_of<T>;
  }

  void fill_offsets() {
    const auto tap_count = static_cast<std::int64_t>(conv_.taps.size());
    const bool inside = has_taps_inside(conv_);
    for (std::int64_t c = 0; c < conv_.inputs; ++c) {
      for (std::int64_t t = 0; t < tap_count; ++t) {
        const ConvTap& tap = conv_.taps[static_cast<std::size_t>(t)];
        const std::int64_t k = inside ? c * tap_count + t : t * conv_.inputs + c;
        offsets_[k] = c * block_.plane_elements() +
                      (tap.row - first_tap_row_) * block_.row_elements() +
                      block_.column_place(tap.column - block_.first_column);
      }
    }
  }

  // Uses cached weights, or packs them and caches the result if there is room.
  void take_weights(T* scratch) {
    weights_ = scratch;
    if (conv_.constant == nullptr) {
      pack_weights(scratch);
      return;
    }
    ConstantForm form = conv_.form;
    form.numbers[9] = panel_;
    form.numbers[10] = static_cast<std::int64_t>(sizeof(T));
    if (const std::byte* const kept = conv_.constant->find(form)) {
      weights_ = reinterpret_cast<const T*>(kept);
      return;
    }
    T* to = scratch;
    if (std::byte* const room =
            conv_.constant->keep(form, conv_.groups * panels_ * panel_ * depth_ * kElementBytes)) {
      to = reinterpret_cast<T*>(room);
    }
    pack_weights(to);
    weights_ = to;
  }

  void pack_weights(T* weights) const {
    const std::int64_t element_bytes = size_bytes(conv_.x.dtype);
    Pack pack{.item_step = conv_.output_step,
              .depth_step = conv_.input_step,
              .items = conv_.outputs,
              .width = panel_,
              .panel_step = panel_ * depth_};
    for (std::int64_t group = 0; group < conv_.groups; ++group) {
      const std::byte* from = conv_.w + group * conv_.group_step * element_bytes;
      T* to = weights + group * panels_ * panel_ * depth_;
      if (has_taps_inside(conv_)) {
        pack.from = from;
        pack.depth = depth_;
        pack.depth_step = 1;
        kernels_.pack(pack, conv_.x.dtype, to);
        continue;
      }
      for (const ConvTap& tap : conv_.taps) {
        pack.from = from + tap.weight_offset * element_bytes;
        pack.depth = conv_.inputs;
        kernels_.pack(pack, conv_.x.dtype, to);
        to += conv_.inputs * panel_;
      }
    }
  }

  void take_bias() {
    if (conv_.bias != nullptr) {
      gather(kernels_,
             conv_.bias->data,
             conv_.bias->dtype,
             conv_.bias->strides()[0],
             bias_,
             conv_.groups * conv_.outputs);
    }
  }

  [[nodiscard]] Unit unit_at(std::int64_t index) const {
    Unit unit{};
    unit.first_row = index % row_blocks_ * block_rows_;
    index /= row_blocks_;
    unit.group = index % conv_.groups;
    unit.image = index / conv_.groups;
    unit.rows = std::min(block_rows_, conv_.rows - unit.first_row);
    return unit;
  }

  void run_unit(std::int64_t index, std::byte* own) const {
    const Unit unit = unit_at(index);
    T* planes = reinterpret_cast<T*>(own);
    PlaneBlock block = block_;
    block.first_row = first_tap_row_ + unit.first_row * conv_.row_stride;
    copy_planes(
        loops_, conv_.x, unit.image, unit.group * conv_.inputs, conv_.inputs, block, planes);
    const std::int64_t first_channel = unit.image * conv_.y.shape()[1] + unit.group * conv_.outputs;
    const std::int64_t plane = conv_.y.shape()[2] * conv_.y.shape()[3];
    T* y = reinterpret_cast<T*>(own + results_at_);
    std::int64_t y_step = unit.rows * conv_.columns;
    if (writes_directly()) {
      y = reinterpret_cast<T*>(conv_.y.data) + first_channel * plane +
          unit.first_row * conv_.columns;
      y_step = plane;
    }
    for (std::int64_t panel = 0; panel < panels_; ++panel) {
      if (form_ == TapForm::pixels_by_channels) {
        multiply_pixels(unit, panel, planes, reinterpret_cast<T*>(own + turned_at_), y, y_step);
      } else {
        multiply_channels(unit, panel, planes, y, y_step);
      }
    }
    if (conv_.sink.take != nullptr) {
      conv_.sink.take(conv_.sink.context,
                      {.made = reinterpret_cast<std::byte*>(y),
                       .first_plane = first_channel,
                       .planes = conv_.outputs,
                       .first_row = unit.first_row,
                       .rows = unit.rows},
                      own + sink_at_);
      return;
    }
    if (finishes_elsewhere()) {
      conv_.epilogue->run_in_place(reinterpret_cast<std::byte*>(y),
                                   conv_.outputs * unit.rows * conv_.columns);
    }
    if (!writes_directly()) {
      spread(unit, y, conv_.y.data + first_channel * plane * size_bytes(conv_.y.dtype));
    }
    if (conv_.epilogue != nullptr && !finishes_elsewhere()) {
      conv_.epilogue->run(
          {.first = {unit.image,
                     unit.group * conv_.outputs,
                     (unit.first_row * conv_.y_row_step + conv_.y_first_row) * conv_.merged_rows,
                     conv_.y_first_column},
           .sizes =
               {1, conv_.outputs, unit.rows * conv_.merged_rows, conv_.columns / conv_.merged_rows},
           .steps = {1, 1, conv_.y_row_step, conv_.y_column_step}});
    }
  }

  [[nodiscard]] bool is_deep() const { return depth_ > kMostBlocks * block_depth_; }

  void multiply_pixels(const Unit& unit,
                       std::int64_t panel,
                       const T* planes,
                       T* turned,
                       T* y,
                       std::int64_t y_step) const {
    const std::int64_t channel = panel * panel_;
    const std::int64_t channels = std::min(panel_, conv_.outputs - channel);
    const T* weights = weights_ + (unit.group * panels_ + panel) * panel_ * depth_;
    Tile<T> tile;
    tile.b_step = panel_;
    tile.c_step = panel_;
    tile.columns = static_cast<int>(channels);
    const T* const bias =
        conv_.bias == nullptr ? nullptr : bias_ + unit.group * conv_.outputs + channel;
    const std::int64_t step = is_deep() ? depth_ : block_depth_;
    for (std::int64_t k = 0; k < depth_ || k == 0; k += step) {
      tile.depth = std::min(block_depth_, depth_ - k);
      tile.a_offsets = offsets_ + k;
      for (std::int64_t pixel = 0; pixel < unit.rows * conv_.columns; pixel += tile.rows) {
        const std::int64_t column = pixel % conv_.columns;
        tile.rows = static_cast<int>(std::min(pixels_, conv_.columns - column));
        tile.a = planes + pixel / conv_.columns * conv_.row_stride * block_.row_elements() + column;
        tile.b = weights + k * panel_;
        tile.c = turned + pixel * panel_;
        tile.start = k > 0 ? tile.c : bias;
        tile.start_step = k > 0 ? tile.c_step : 0;
        if (is_deep()) {
          multiply_deep(tile, 0, panel_);
          tile.a_offsets = offsets_;
        } else {
          kernels_.multiply(tile);
        }
      }
    }
    kernels_.transpose(
        turned, panel_, y + channel * y_step, y_step, unit.rows * conv_.columns, channels);
  }

  // Iterates over the blocks of the depth for one tile at a time.
  void multiply_deep(Tile<T>& tile, std::int64_t a_step, std::int64_t b_step) const {
    TileTotals<T> totals;
    const Tile<T> first = tile;
    for (std::int64_t k = 0; k < depth_; k += block_depth_) {
      tile.depth = std::min(block_depth_, depth_ - k);
      tile.a = first.a + k * a_step;
      tile.b = first.b + k * b_step;
      if (first.a_offsets != nullptr) {
        tile.a_offsets = first.a_offsets + k;
      } else {
        tile.b_offsets = first.b_offsets + k;
      }
      if (k > 0) {
        tile.start = tile.c;
        tile.start_step = tile.c_step;
        if (k / block_depth_ % kMostBlocks == 0) {
          totals.take(tile);
        }
      }
      kernels_.multiply(tile);
    }
    totals.finish(tile);
  }

  void multiply_channels(
      const Unit& unit, std::int64_t panel, const T* planes, T* y, std::int64_t y_step) const {
    const std::int64_t channel = panel * panel_;
    const T* weights = weights_ + (unit.group * panels_ + panel) * panel_ * depth_;
    Tile<T> tile;
    tile.a_step = panel_;
    tile.c_step = y_step;
    tile.start_step = y_step;
    tile.rows = static_cast<int>(std::min(panel_, conv_.outputs - channel));
    const T* const bias =
        conv_.bias == nullptr ? nullptr : bias_ + unit.group * conv_.outputs + channel;
    tile.row_start = bias;
    for (std::int64_t row = 0; row < unit.rows; ++row) {
      for (std::int64_t column = 0; column < conv_.columns; column += pixels_) {
        tile.columns = static_cast<int>(std::min(pixels_, conv_.columns - column));
        tile.b = planes + row * conv_.row_stride * block_.row_elements() + column;
        tile.c = y + channel * y_step + row * conv_.columns + column;
        if (is_deep()) {
          tile.a = weights;
          tile.b_offsets = offsets_;
          tile.start = nullptr;
          tile.row_start = bias;
          multiply_deep(tile, panel_, 0);
          continue;
        }
        for (std::int64_t k = 0; k < depth_ || k == 0; k += block_depth_) {
          tile.depth = std::min(block_depth_, depth_ - k);
          tile.a = weights + k * panel_;
          tile.b_offsets = offsets_ + k;
          tile.start = k > 0 ? tile.c : nullptr;
          kernels_.multiply(tile);
        }
      }
    }
  }

  // Copies a block of the sum's type to its places in y.
  void spread(const Unit& unit, const T* from, std::byte* to) const {
    const std::int64_t element_bytes = size_bytes(conv_.y.dtype);
    const std::int64_t height = conv_.y.shape()[2];
    const std::int64_t width = conv_.y.shape()[3];
    const bool is_whole = conv_.columns == width && conv_.y_row_step == 1 &&
                          conv_.y_column_step == 1 && conv_.y_first_column == 0;
    for (std::int64_t channel = 0; channel < conv_.outputs; ++channel) {
      if (is_whole) {
        const std::int64_t first = (channel * height + unit.first_row + conv_.y_first_row) * width;
        kernels_.store(from, to + first * element_bytes, conv_.y.dtype, unit.rows * width);
        from += unit.rows * width;
        continue;
      }
      for (std::int64_t row = 0; row < unit.rows; ++row, from += conv_.columns) {
        const std::int64_t y_row = (unit.first_row + row) * conv_.y_row_step + conv_.y_first_row;
        std::byte* out =
            to + ((channel * height + y_row) * width + conv_.y_first_column) * element_bytes;
        if (conv_.y_column_step == 1) {
          kernels_.store(from, out, conv_.y.dtype, conv_.columns);
          continue;
        }
        if (conv_.y.dtype == dtype_of<T>) {
          loops_.spread(from, reinterpret_cast<T*>(out), conv_.y_column_step, conv_.columns);
          continue;
        }
        for (std::int64_t column = 0; column < conv_.columns; ++column) {
          kernels_.store(
              from + column, out + column * conv_.y_column_step * element_bytes, conv_.y.dtype, 1);
        }
      }
    }
  }

  const TapConvolution& conv_;
  const TileKernels<T>& kernels_;
  const WindowLoops<T>& loops_;
  TapChoice choice_;
  TapForm form_ = TapForm::pixels_by_channels;
  PlaneBlock block_;
  std::int64_t first_tap_row_ = 0;
  std::int64_t depth_ = 0;  // products of one sum
  std::int64_t block_depth_ = 1;
  std::int64_t panel_ = 0;  // output channels of one packed panel
  std::int64_t panels_ = 0;
  std::int64_t pixels_ = 0;      // pixels of one tile
  std::int64_t block_rows_ = 0;  // output rows of one unit
  std::int64_t row_blocks_ = 0;
  std::int64_t unit_count_ = 0;
  std::int64_t part_count_ = 1;
  int awake_threads_ = 1;  // threads that share work too short to wake others
  std::int64_t weights_at_ = 0;
  std::int64_t bias_at_ = 0;
  std::int64_t shared_bytes_ = 0;
  std::int64_t turned_at_ = 0;
  std::int64_t results_at_ = 0;
  std::int64_t sink_at_ = 0;
  std::int64_t part_bytes_ = 0;
  std::int64_t* offsets_ = nullptr;
  const T* weights_ = nullptr;
  T* bias_ = nullptr;
};

template <class T>
Status run_taps(const TapConvolution& convolution,
                const TapChoice& choice,
                KernelContext& context) {
  Convolution<T> work(
      convolution, context.isa, choice, [&] { return context.arena.awake_threads(); });
  HEARTH_TRY(std::byte* const scratch, context.scratch.take_all(work.scratch_bytes()));
  work.run(scratch, context.arena);
  return {};
}

}  // namespace

bool PlaneCut::is_whole(int cores) const noexcept {
  const auto wanted = static_cast<std::int64_t>(flops / kTapPartFlops);
  const std::int64_t needed = flops < kSharedTapFlops ? 1
                              : wanted <= 1           ? cores
                                                      : std::min<std::int64_t>(wanted, 2 * cores);
  return (cores == 1 || planes >= needed) && input_bytes <= kPlaneBytes &&
         result_bytes <= kResultBytes;
}

TapPlan plan_tap_convolution(const TapConvolution& convolution,
                             const KernelContext& context,
                             const TapChoice& choice) {
  const auto plan = [&](auto zero) {
    return Convolution<decltype(zero)>(convolution, context.isa, choice, [] { return 1; }).plan();
  };
  return convolution.x.dtype == DType::f64 ? plan(double{}) : plan(float{});
}

bool has_taps_inside(const TapConvolution& convolution) noexcept {
  for (std::size_t t = 0; t < convolution.taps.size(); ++t) {
    if (convolution.taps[t].weight_offset != static_cast<std::int64_t>(t)) {
      return false;
    }
  }
  return convolution.input_step == static_cast<std::int64_t>(convolution.taps.size());
}

Status run_tap_convolution(const TapConvolution& convolution,
                           const TapChoice& choice,
                           KernelContext& context) {
  if (convolution.y.element_count() == 0 || convolution.rows == 0 || convolution.columns == 0) {
    return {};
  }
  return convolution.x.dtype == DType::f64 ? run_taps<double>(convolution, choice, context)
                                           : run_taps<float>(convolution, choice, context);
}

}  // namespace hearth::cpu
