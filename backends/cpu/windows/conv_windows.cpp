#include "conv_windows.hpp"

#include "backends/cpu/products/epilogue.hpp"
#include "backends/cpu/products/gemm.hpp"
#include "window_loops.hpp"

#include <algorithm>
#include <array>

namespace hearth::cpu {

namespace {

// A tile reads inputs once for up to 14 channels, a vector along rows once for up to 8 rows.
constexpr std::int64_t kFewOutputs = 2;
// A part must take longer than waking a core (34 µs), whether products or memory limit it.
constexpr double kWindowPartFlops = 8e6;
constexpr double kWindowPartBytes = 1e6;
// Enough work to share with an awake thread: about 5 µs.
constexpr double kSharedWindowFlops = 2e5;
// The copied inputs of a unit stay in the first-level cache.
constexpr std::int64_t kUnitBytes = 16 << 10;
// Rows of at least this number of columns begin at cache lines.
constexpr std::int64_t kWideColumns = 32;

template <class T>
class WindowConvolution {
 public:
  /// `awake_threads`: returns the number of threads that share short work.
  template <class AwakeThreads>
  WindowConvolution(std::span<const TapConvolution> phases,
                    IsaLevel isa,
                    const TapChoice& choice,
                    const AwakeThreads& awake_threads)
      : phases_(phases),
        conv_(phases.front()),
        loops_(window_loops<T>(isa)),
        kernels_(tile_kernels<T>(isa)) {
    height_ = conv_.y.shape()[2];
    width_ = conv_.y.shape()[3];
    lay_out_planes();
    cut(choice, awake_threads);
    lay_out_scratch();
  }

  [[nodiscard]] TapPlan plan() const {
    return {.form = TapForm::windows, .block_rows = unit_rows_, .unit_groups = unit_groups_};
  }
  [[nodiscard]] std::int64_t scratch_bytes() const {
    return shared_bytes_ + part_count_ * part_bytes_;
  }

  void run(std::byte* scratch, Arena& arena) {
    fill_offsets(reinterpret_cast<std::int64_t*>(scratch));
    take_weights(reinterpret_cast<T*>(scratch + weights_at_));
    take_bias(reinterpret_cast<T*>(scratch + bias_at_));
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
  // Rows [first_row, first_row + rows) of the result's planes of some groups of one image.
  struct Unit {
    std::int64_t image;
    std::int64_t group;
    std::int64_t groups;
    std::int64_t first_row;
    std::int64_t rows;
  };

  static constexpr auto kElementBytes = static_cast<std::int64_t>(sizeof(T));
  static constexpr std::int64_t kGridNumbers = 2;

  [[nodiscard]] std::int64_t depth_of(const TapConvolution& phase) const {
    return conv_.inputs * static_cast<std::int64_t>(phase.taps.size());
  }

  // The copy of a plane holds the inputs of all phases.
  void lay_out_planes() {
    bool is_first = true;
    std::int64_t last_column = 0;
    std::int64_t columns = 0;
    for (const TapConvolution& phase : phases_) {
      depth_ += depth_of(phase);
      columns = std::max(columns, phase.columns);
      for (const ConvTap& tap : phase.taps) {
        first_tap_row_ = is_first ? tap.row : std::min(first_tap_row_, tap.row);
        last_tap_row_ = is_first ? tap.row : std::max(last_tap_row_, tap.row);
        first_column_ = is_first ? tap.column : std::min(first_column_, tap.column);
        last_column = is_first ? tap.column : std::max(last_column, tap.column);
        is_first = false;
      }
    }
    phase_columns_ = columns + (last_column - first_column_) / conv_.column_stride;
    if (columns >= kWideColumns) {
      const std::int64_t line = 64 / kElementBytes;
      phase_columns_ = parts(phase_columns_, line) * line;
    }
    row_elements_ = phase_columns_ * conv_.column_stride;
  }

  // Input rows of a unit.
  [[nodiscard]] std::int64_t input_rows(std::int64_t unit_rows) const {
    return (parts(unit_rows, conv_.y_row_step) - 1) * conv_.row_stride + last_tap_row_ -
           first_tap_row_ + 1;
  }

  template <class AwakeThreads>
  void cut(const TapChoice& choice, const AwakeThreads& awake_threads) {
    const std::int64_t images = conv_.y.shape()[0];
    const double flops = 2.0 * static_cast<double>(depth_) *
                         static_cast<double>(conv_.y.element_count()) /
                         static_cast<double>(conv_.y_row_step * conv_.y_column_step);
    const double bytes = static_cast<double>(conv_.x.element_count() + conv_.y.element_count()) *
                         static_cast<double>(size_bytes(conv_.y.dtype));
    auto wanted_parts =
        static_cast<std::int64_t>(flops / kWindowPartFlops + bytes / kWindowPartBytes);
    if (wanted_parts <= 1 && flops >= kSharedWindowFlops) {
      awake_threads_ = awake_threads();
      wanted_parts = awake_threads_;
    }
    const std::int64_t room = choice.plane_bytes == 0 ? kUnitBytes : choice.plane_bytes;
    const std::int64_t row_bytes =
        std::max<std::int64_t>(1, conv_.inputs * row_elements_ * kElementBytes);
    const std::int64_t fit = room / row_bytes - (last_tap_row_ - first_tap_row_);
    const std::int64_t step = conv_.y_row_step;
    unit_rows_ = std::clamp<std::int64_t>(fit / conv_.row_stride, 1, parts(height_, step)) * step;
    if (const std::int64_t unit = conv_.sink.row_unit; conv_.sink.take != nullptr) {
      unit_rows_ = unit == 0 ? height_ : parts(unit_rows_, unit) * unit;
    }
    row_blocks_ = parts(height_, unit_rows_);
    if (conv_.sink.take == nullptr) {
      unit_rows_ = parts(parts(height_, row_blocks_), step) * step;
      row_blocks_ = parts(height_, unit_rows_);
    }
    unit_rows_ = std::min(unit_rows_, parts(height_, step) * step);
    if (row_blocks_ == 1) {
      // Several blocks for each thread, so that the others take over the blocks of a late one.
      constexpr std::int64_t kBlocks = 2;
      const std::int64_t most =
          wanted_parts > 1 ? parts(images * conv_.groups, kBlocks * wanted_parts) : conv_.groups;
      unit_groups_ = std::clamp<std::int64_t>(
          room / (input_rows(unit_rows_) * row_bytes), 1, std::min(most, conv_.groups));
    }
    group_blocks_ = parts(conv_.groups, unit_groups_);
    unit_groups_ = parts(conv_.groups, group_blocks_);
    group_blocks_ = parts(conv_.groups, unit_groups_);
    unit_count_ = images * group_blocks_ * row_blocks_;
    part_count_ = std::clamp<std::int64_t>(wanted_parts, 1, std::min(kMaxParts, unit_count_));
  }

  // Shared: offsets, places and grid of each phase | weights | bias. Each part: planes | two
  // phases' result before it is spread | results before they are narrowed | memory of the sink.
  void lay_out_scratch() {
    const auto phases = static_cast<std::int64_t>(phases_.size());
    weights_at_ =
        whole_lines((2 * depth_ + phases * kGridNumbers) * std::int64_t{sizeof(std::int64_t)});
    bias_at_ = weights_at_ + (reads_weights() ? 0 : whole_lines(weight_span() * kElementBytes));
    shared_bytes_ = bias_at_ + whole_lines(conv_.groups * conv_.outputs * kElementBytes);
    const std::int64_t planes =
        unit_groups_ * conv_.inputs * input_rows(unit_rows_) * row_elements_;
    // Vectors may be read beyond the last plane.
    spread_at_ = whole_lines((planes + 2 * loops_.vector_columns) * kElementBytes);
    const std::int64_t spread_rows = unit_groups_ * parts(unit_rows_, conv_.y_row_step);
    const std::int64_t spread =
        conv_.y_column_step == 1
            ? 0
            : 2 * spread_rows * parts(width_, conv_.y_column_step) + 2 * loops_.vector_columns;
    results_at_ = spread_at_ + whole_lines(spread * kElementBytes);
    const std::int64_t channels = unit_groups_ * conv_.outputs;
    sink_at_ =
        results_at_ +
        (writes_directly() ? 0 : whole_lines(channels * unit_rows_ * width_ * kElementBytes));
    part_bytes_ = sink_at_;
    if (conv_.sink.take != nullptr) {
      part_bytes_ += whole_lines(conv_.sink.memory_bytes(conv_.sink.context, channels, unit_rows_));
    }
  }

  [[nodiscard]] bool writes_directly() const {
    return conv_.y.dtype == dtype_of<T> && !finishes_elsewhere() && conv_.sink.take == nullptr;
  }
  // As for tiles: short rows in place cost an epilogue more than a copy.
  [[nodiscard]] bool finishes_elsewhere() const {
    return awake_threads_ > 1 && row_blocks_ > 1 && conv_.epilogue != nullptr &&
           conv_.epilogue->runs_anywhere() && conv_.y.dtype == dtype_of<T>;
  }
  [[nodiscard]] bool reads_weights() const { return conv_.x.dtype == dtype_of<T>; }
  // Elements of memory from the first weight to the last one.
  [[nodiscard]] std::int64_t weight_span() const {
    std::int64_t last_tap = 0;
    for (const TapConvolution& phase : phases_) {
      for (const ConvTap& tap : phase.taps) {
        last_tap = std::max(last_tap, tap.weight_offset);
      }
    }
    return 1 + last_tap + (conv_.groups - 1) * conv_.group_step +
           (conv_.outputs - 1) * conv_.output_step + (conv_.inputs - 1) * conv_.input_step;
  }

  [[nodiscard]] std::int64_t column_place(std::int64_t column) const {
    const std::int64_t q = column - first_column_;
    return q % conv_.column_stride * phase_columns_ + q / conv_.column_stride;
  }

  // The order of a sum is that of tiles.
  void fill_offsets(std::int64_t* offsets) {
    offsets_ = offsets;
    const std::int64_t plane_elements = input_rows(unit_rows_) * row_elements_;
    for (const TapConvolution& phase : phases_) {
      const auto tap_count = static_cast<std::int64_t>(phase.taps.size());
      const std::int64_t depth = depth_of(phase);
      const bool inside = has_taps_inside(phase);
      for (std::int64_t c = 0; c < conv_.inputs; ++c) {
        for (std::int64_t t = 0; t < tap_count; ++t) {
          const ConvTap& tap = phase.taps[static_cast<std::size_t>(t)];
          const std::int64_t k = inside ? c * tap_count + t : t * conv_.inputs + c;
          offsets[k] = c * plane_elements + (tap.row - first_tap_row_) * row_elements_ +
                       column_place(tap.column);
          offsets[depth + k] = c * conv_.input_step + tap.weight_offset;
        }
      }
      find_grid(phase, offsets, offsets + 2 * depth);
      offsets += 2 * depth + kGridNumbers;
    }
  }

  void take_weights(T* scratch) {
    if (reads_weights()) {
      weights_ = reinterpret_cast<const T*>(conv_.w);
      return;
    }
    kernels_.load(conv_.w, conv_.x.dtype, scratch, weight_span());
    weights_ = scratch;
  }

  void take_bias(T* scratch) {
    if (conv_.bias == nullptr) {
      return;
    }
    const TensorView& bias = *conv_.bias;
    loops_.copy({.from = bias.data,
                 .dtype = bias.dtype,
                 .column_step = bias.strides()[0],
                 .height = 1,
                 .width = bias.shape()[0],
                 .planes = 1,
                 .rows = 1,
                 .phase_columns = bias.shape()[0]},
                scratch);
    bias_ = scratch;
  }

  [[nodiscard]] Unit unit_at(std::int64_t index) const {
    Unit unit{};
    unit.first_row = index % row_blocks_ * unit_rows_;
    index /= row_blocks_;
    unit.group = index % group_blocks_ * unit_groups_;
    unit.image = index / group_blocks_;
    unit.groups = std::min(unit_groups_, conv_.groups - unit.group);
    unit.rows = std::min(unit_rows_, height_ - unit.first_row);
    return unit;
  }

  void copy_inputs(const Unit& unit, T* planes) const {
    const Strides& steps = conv_.x.strides();
    const Shape& shape = conv_.x.shape();
    const std::int64_t first = unit.image * steps[0] + unit.group * conv_.inputs * steps[1];
    loops_.copy({.from = conv_.x.data + first * size_bytes(conv_.x.dtype),
                 .dtype = conv_.x.dtype,
                 .plane_step = steps[1],
                 .row_step = steps[2],
                 .column_step = steps[3],
                 .height = shape[2],
                 .width = shape[3],
                 .planes = unit.groups * conv_.inputs,
                 .first_row = unit.first_row / conv_.y_row_step * conv_.row_stride + first_tap_row_,
                 .first_column = first_column_,
                 .rows = input_rows(unit_rows_),
                 .phase_columns = phase_columns_,
                 .phases = conv_.column_stride},
                planes);
  }

  // Phases: copy the inputs; compute the planes; narrow them; run what comes after them.
  void run_unit(std::int64_t index, std::byte* own) const {
    const Unit unit = unit_at(index);
    T* const planes = reinterpret_cast<T*>(own);
    copy_inputs(unit, planes);
    const std::int64_t first_channel = unit.image * conv_.y.shape()[1] + unit.group * conv_.outputs;
    const std::int64_t first = first_channel * height_ * width_ + unit.first_row * width_;
    T* y = reinterpret_cast<T*>(own + results_at_);
    std::int64_t y_step = unit.rows * width_;
    if (writes_directly()) {
      y = reinterpret_cast<T*>(conv_.y.data) + first;
      y_step = height_ * width_;
    }
    const std::int64_t channels = unit.groups * conv_.outputs;
    for (std::int64_t output = 0; output < conv_.outputs; ++output) {
      sum_planes(unit,
                 output,
                 planes,
                 reinterpret_cast<T*>(own + spread_at_),
                 y + output * y_step,
                 y_step);
    }
    if (conv_.sink.take != nullptr) {
      conv_.sink.take(conv_.sink.context,
                      {.made = reinterpret_cast<std::byte*>(y),
                       .first_plane = first_channel,
                       .planes = channels,
                       .first_row = unit.first_row,
                       .rows = unit.rows},
                      own + sink_at_);
      return;
    }
    if (finishes_elsewhere()) {
      conv_.epilogue->run_in_place(reinterpret_cast<std::byte*>(y), channels * y_step);
    }
    if (!writes_directly()) {
      std::byte* const to = conv_.y.data + first * size_bytes(conv_.y.dtype);
      const std::int64_t step = height_ * width_ * size_bytes(conv_.y.dtype);
      for (std::int64_t channel = 0; channel < channels; ++channel) {
        kernels_.store(y + channel * y_step, to + channel * step, conv_.y.dtype, y_step);
      }
    }
    if (conv_.epilogue != nullptr && !finishes_elsewhere()) {
      conv_.epilogue->run(
          {.first = {unit.image, unit.group * conv_.outputs, unit.first_row * conv_.merged_rows, 0},
           .sizes = {1, channels, unit.rows * conv_.merged_rows, width_ / conv_.merged_rows},
           .steps = {1, 1, 1, 1}});
    }
  }

  // Computes the unit's rows of one output channel of each group.
  void sum_planes(const Unit& unit,
                  std::int64_t output,
                  const T* planes,
                  T* spread,
                  T* y,
                  std::int64_t y_step) const {
    const std::int64_t channel = unit.group * conv_.outputs + output;
    WindowSum<T> sum{
        .x = planes,
        .x_row_step = conv_.row_stride * row_elements_,
        .w = weights_ + unit.group * conv_.group_step + output * conv_.output_step,
        .start = bias_ == nullptr ? nullptr : bias_ + channel,
        .planes = unit.groups,
        .x_plane_step = conv_.inputs * input_rows(unit_rows_) * row_elements_,
        .w_plane_step = conv_.group_step,
        .start_step = conv_.outputs,
    };
    const std::int64_t* offsets = offsets_;
    for (const TapConvolution& phase : phases_) {
      sum.offsets = offsets;
      sum.depth = depth_of(phase);
      sum.places = offsets + sum.depth;
      sum.grid_columns = offsets[2 * sum.depth];
      sum.grid_step = offsets[2 * sum.depth + 1];
      offsets += 2 * sum.depth + kGridNumbers;
      sum.rows = parts(unit.rows - phase.y_first_row, phase.y_row_step);
      sum.columns = phase.columns;
      T* const to = y + phase.y_first_row * width_ + phase.y_first_column;
      if (phase.y_column_step == 1) {
        sum.y = to;
        sum.y_row_step = phase.y_row_step * width_;
        sum.y_plane_step = conv_.outputs * y_step;
        loops_.sum(sum);
        continue;
      }
      // Two phases of columns alternate in memory: both are computed before they are written.
      const bool is_odd = phase.y_column_step == 2 && phase.y_first_column == 1;
      const std::int64_t half =
          unit.groups * parts(unit.rows, phase.y_row_step) * parts(width_, phase.y_column_step);
      sum.y = is_odd ? spread + half : spread;
      sum.y_row_step = sum.columns;
      sum.y_plane_step = sum.rows * sum.columns;
      loops_.sum(sum);
      if (phase.y_column_step == 2 && width_ > 1) {
        if (is_odd) {
          interleave(sum, spread, y + phase.y_first_row * width_, conv_.outputs * y_step);
        }
        continue;
      }
      const T* from = spread;
      for (std::int64_t plane = 0; plane < unit.groups; ++plane) {
        T* row_to = to + plane * conv_.outputs * y_step;
        for (std::int64_t row = 0; row < sum.rows; ++row, from += sum.columns) {
          loops_.spread(from, row_to, phase.y_column_step, sum.columns);
          row_to += phase.y_row_step * width_;
        }
      }
    }
  }

  // Writes rows whose even columns were computed before the odd ones of `odd`.
  void interleave(const WindowSum<T>& odd, const T* even, T* to, std::int64_t plane_step) const {
    const std::int64_t columns = parts(width_, 2);
    for (std::int64_t plane = 0; plane < odd.planes; ++plane) {
      loops_.interleave({.even = even + plane * odd.rows * columns,
                         .even_step = columns,
                         .odd = odd.y + plane * odd.y_plane_step,
                         .odd_step = odd.columns,
                         .to = to + plane * plane_step,
                         .to_step = conv_.y_row_step * width_,
                         .rows = odd.rows,
                         .columns = width_});
    }
  }

  // Writes the columns and the step of the grid that a phase's offsets are; no columns if they are
  // none. One channel's taps are a grid if they are rows of equal taps at equal distances.
  static void find_grid(const TapConvolution& phase,
                        const std::int64_t* offsets,
                        std::int64_t* grid) {
    grid[0] = 0;
    grid[1] = 0;
    const std::size_t count = phase.taps.size();
    if (phase.inputs != 1 || count == 0) {
      return;
    }
    std::size_t columns = 1;
    while (columns < count && phase.taps[columns].row == phase.taps[0].row) {
      ++columns;
    }
    if (columns == count || count % columns != 0) {
      return;
    }
    grid[1] = offsets[columns] - offsets[0];
    for (std::size_t k = columns; k < count; ++k) {
      if (offsets[k] != offsets[k - columns] + grid[1]) {
        return;
      }
    }
    grid[0] = static_cast<std::int64_t>(columns);
  }

  std::span<const TapConvolution> phases_;
  const TapConvolution& conv_;  // what all phases have in common
  const WindowLoops<T>& loops_;
  const TileKernels<T>& kernels_;
  std::int64_t height_ = 0;  // of the result
  std::int64_t width_ = 0;
  std::int64_t depth_ = 0;  // products of one sum, of all phases
  std::int64_t first_tap_row_ = 0;
  std::int64_t last_tap_row_ = 0;
  std::int64_t first_column_ = 0;
  std::int64_t phase_columns_ = 0;  // of the copy
  std::int64_t row_elements_ = 0;
  std::int64_t unit_rows_ = 1;
  std::int64_t row_blocks_ = 1;
  std::int64_t unit_groups_ = 1;
  std::int64_t group_blocks_ = 1;
  std::int64_t unit_count_ = 0;
  std::int64_t part_count_ = 1;
  int awake_threads_ = 1;  // threads that share work too short to wake others
  std::int64_t weights_at_ = 0;
  std::int64_t bias_at_ = 0;
  std::int64_t shared_bytes_ = 0;
  std::int64_t spread_at_ = 0;
  std::int64_t results_at_ = 0;
  std::int64_t sink_at_ = 0;
  std::int64_t part_bytes_ = 0;
  const std::int64_t* offsets_ = nullptr;
  const T* weights_ = nullptr;
  const T* bias_ = nullptr;
};

template <class T>
Status run_windows(std::span<const TapConvolution> phases,
                   const TapChoice& choice,
                   KernelContext& context) {
  WindowConvolution<T> work(
      phases, context.isa, choice, [&] { return context.arena.awake_threads(); });
  HEARTH_TRY(std::byte* const scratch, context.scratch.take_all(work.scratch_bytes()));
  work.run(scratch, context.arena);
  return {};
}

}  // namespace

bool runs_by_windows(std::span<const TapConvolution> phases, const TapChoice& choice) noexcept {
  if (phases.empty()) {
    return false;
  }
  const TapConvolution& first = phases.front();
  for (const TapConvolution& phase : phases) {
    // A tile makes one sum of at most this depth, as a window does.
    if (phase.inputs * static_cast<std::int64_t>(phase.taps.size()) > kSumDepth ||
        phase.rows == 0 || phase.columns == 0) {
      return false;
    }
    for (const ConvTap& tap : phase.taps) {
      if (tap.weight_offset < 0) {
        return false;
      }
    }
  }
  if (first.y.element_count() == 0 || first.group_step < 0 || first.output_step < 0 ||
      first.input_step < 0) {
    return false;
  }
  return choice.form == TapForm::by_size ? first.outputs <= kFewOutputs
                                         : choice.form == TapForm::windows;
}

TapPlan plan_window_convolution(std::span<const TapConvolution> phases,
                                const TapChoice& choice,
                                const KernelContext& context) {
  const auto plan = [&](auto zero) {
    return WindowConvolution<decltype(zero)>(phases, context.isa, choice, [] { return 1; }).plan();
  };
  return phases.front().x.dtype == DType::f64 ? plan(double{}) : plan(float{});
}

Status run_window_convolution(std::span<const TapConvolution> phases,
                              const TapChoice& choice,
                              KernelContext& context) {
  return phases.front().x.dtype == DType::f64 ? run_windows<double>(phases, choice, context)
                                              : run_windows<float>(phases, choice, context);
}

}  // namespace hearth::cpu
