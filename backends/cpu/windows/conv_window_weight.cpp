#include "conv_window_weight.hpp"

#include "backends/cpu/products/gemm.hpp"
#include "window_loops.hpp"

#include <algorithm>
#include <array>

namespace hearth::cpu {

namespace {

// Products of channels in a group: tiles waste less with more.
constexpr std::int64_t kFewProducts = 4;
// A part must take longer than waking a core (34 µs), whether products or memory limit it.
constexpr double kWindowWeightPartFlops = 8e6;
constexpr double kWindowWeightPartBytes = 1e6;
// The copied inputs and gradients of a block stay in the first-level cache.
constexpr std::int64_t kBlockBytes = 24 << 10;

template <class T>
class WindowWeightGradient {
 public:
  WindowWeightGradient(const TensorView& x,
                       const TensorView& grad,
                       const TensorView& weight,
                       const ConvAttributes& attributes,
                       IsaLevel isa)
      : loops_(window_loops<T>(isa)),
        kernels_(tile_kernels<T>(isa)),
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
    lay_out();
  }

  [[nodiscard]] std::int64_t scratch_bytes() const {
    return shared_bytes_ + part_count_ * part_bytes_;
  }

  void run(std::byte* scratch, Arena& arena) {
    offsets_ = reinterpret_cast<std::int64_t*>(scratch);
    fill_offsets();
    auto* const sums = reinterpret_cast<T*>(scratch + sums_at_);
    const std::int64_t grain = parts(groups_, part_count_);
    arena.parallel_for(groups_, grain, [&](std::int64_t begin, std::int64_t end) {
      std::byte* own = scratch + shared_bytes_ + begin / grain * part_bytes_;
      for (std::int64_t group = begin; group < end; group += block_groups_) {
        add_groups(group, std::min(block_groups_, end - group), own, sums);
      }
    });
    if (weight_.dtype != dtype_of<T>) {
      kernels_.store(sums, weight_.data, weight_.dtype, weight_.element_count());
    }
  }

 private:
  static constexpr auto kElementBytes = static_cast<std::int64_t>(sizeof(T));

  void lay_out() {
    const std::int64_t lanes = loops_.vector_columns;
    const std::int64_t stride = attributes_.stride[1];
    phase_columns_ = columns_ + (kernel_[1] - 1) * attributes_.dilation[1] / stride;
    grad_columns_ = parts(columns_, lanes) * lanes;
    row_elements_ = phase_columns_ * stride;
    const std::int64_t row_bytes =
        (inputs_ * attributes_.stride[0] * row_elements_ + outputs_ * grad_columns_) *
        kElementBytes;
    const std::int64_t wanted = std::clamp<std::int64_t>(kBlockBytes / row_bytes, 1, rows_);
    block_rows_ = parts(rows_, parts(rows_, wanted));
    plane_rows_ =
        (block_rows_ - 1) * attributes_.stride[0] + (kernel_[0] - 1) * attributes_.dilation[0] + 1;
    group_sums_ = outputs_ * inputs_ * taps_;
    const double terms = static_cast<double>(x_.shape()[0] * rows_ * columns_);
    const double flops = 2.0 * static_cast<double>(groups_ * group_sums_) * terms;
    const double bytes = static_cast<double>(x_.element_count() + grad_.element_count()) *
                         static_cast<double>(size_bytes(x_.dtype));
    part_count_ = std::clamp<std::int64_t>(
        static_cast<std::int64_t>(flops / kWindowWeightPartFlops + bytes / kWindowWeightPartBytes),
        1,
        std::min(kMaxParts, groups_));
    block_groups_ = std::clamp<std::int64_t>(
        kBlockBytes / (row_bytes * block_rows_), 1, parts(groups_, part_count_));
    // Shared: offsets | weights before they are narrowed.
    sums_at_ = whole_lines(taps_ * std::int64_t{sizeof(std::int64_t)});
    shared_bytes_ =
        sums_at_ +
        (weight_.dtype == dtype_of<T> ? 0 : whole_lines(weight_.element_count() * kElementBytes));
    // Each part: lanes of sums | sums in f64 | planes | gradients. Vectors may be read beyond the
    // last plane.
    const std::int64_t sums = block_groups_ * group_sums_;
    totals_at_ = whole_lines(sums * lanes * kElementBytes);
    planes_at_ = totals_at_ + whole_lines(sums * std::int64_t{sizeof(double)});
    grads_at_ = planes_at_ +
                whole_lines((block_groups_ * inputs_ * plane_rows_ * row_elements_ + 2 * lanes) *
                            kElementBytes);
    part_bytes_ = grads_at_ + whole_lines(block_groups_ * outputs_ * block_rows_ * grad_columns_ *
                                          kElementBytes);
  }

  // Whether gradients need no copy.
  [[nodiscard]] bool reads_grads() const {
    return loops_.reads_exactly && grad_.dtype == dtype_of<T> && grad_.strides()[3] == 1;
  }

  void fill_offsets() {
    for (std::int64_t tap = 0; tap < taps_; ++tap) {
      const std::int64_t q = tap % kernel_[1] * attributes_.dilation[1];
      offsets_[tap] = tap / kernel_[1] * attributes_.dilation[0] * row_elements_ +
                      q % attributes_.stride[1] * phase_columns_ + q / attributes_.stride[1];
    }
  }

  // Sums of `count` groups over all images and rows. Phases: copy a block of rows, add its products
  // for each pair of channels; at the end join the lanes.
  void add_groups(std::int64_t group, std::int64_t count, std::byte* own, T* narrowed) const {
    auto* const lanes = reinterpret_cast<T*>(own);
    auto* const totals = reinterpret_cast<double*>(own + totals_at_);
    const std::int64_t sums = count * group_sums_;
    std::fill_n(lanes, sums * loops_.vector_columns, T{});
    std::fill_n(totals, sums, 0.0);
    std::int64_t terms = 0;  // of each lane
    for (std::int64_t image = 0; image < x_.shape()[0]; ++image) {
      for (std::int64_t row = 0; row < rows_; row += block_rows_) {
        terms = add_rows(image, group, count, row, terms, own);
      }
    }
    loops_.finish_dots(lanes, sums, totals);
    T* const to = (weight_.dtype == dtype_of<T> ? reinterpret_cast<T*>(weight_.data) : narrowed) +
                  group * group_sums_;
    for (std::int64_t i = 0; i < sums; ++i) {
      to[i] = static_cast<T>(totals[i]);
    }
  }

  std::int64_t add_rows(std::int64_t image,
                        std::int64_t group,
                        std::int64_t count,
                        std::int64_t row,
                        std::int64_t terms,
                        std::byte* own) const {
    const std::int64_t rows = std::min(block_rows_, rows_ - row);
    T* const planes = reinterpret_cast<T*>(own + planes_at_);
    PlaneCopy copy = copy_of(x_, image, group * inputs_, count * inputs_);
    copy.first_row = row * attributes_.stride[0] - attributes_.padding[0];
    copy.first_column = -attributes_.padding[1];
    copy.rows = plane_rows_;
    copy.phase_columns = phase_columns_;
    copy.phases = attributes_.stride[1];
    loops_.copy(copy, planes);
    const T* grads = reinterpret_cast<const T*>(own + grads_at_);
    if (reads_grads()) {
      grads = grad_.as<const T>() + image * grad_.strides()[0] +
              group * outputs_ * grad_.strides()[1] + row * grad_.strides()[2];
    } else {
      copy = copy_of(grad_, image, group * outputs_, count * outputs_);
      copy.first_row = row;
      copy.rows = block_rows_;
      copy.phase_columns = grad_columns_;
      loops_.copy(copy, reinterpret_cast<T*>(own + grads_at_));
    }
    const std::int64_t grad_plane =
        reads_grads() ? grad_.strides()[1] : block_rows_ * grad_columns_;
    WindowDots<T> dots{.x_row_step = attributes_.stride[0] * row_elements_,
                       .offsets = offsets_,
                       .taps = taps_,
                       .grad_row_step = reads_grads() ? grad_.strides()[2] : grad_columns_,
                       .rows = rows,
                       .columns = columns_,
                       .grid_columns = kernel_[1],
                       .grid_step = attributes_.dilation[0] * row_elements_,
                       .planes = count,
                       .x_plane_step = inputs_ * plane_rows_ * row_elements_,
                       .grad_plane_step = outputs_ * grad_plane,
                       .all_taps = group_sums_,
                       .lanes = reinterpret_cast<T*>(own),
                       .totals = reinterpret_cast<double*>(own + totals_at_)};
    std::int64_t after = terms;
    for (std::int64_t output = 0; output < outputs_; ++output) {
      dots.grad = grads + output * grad_plane;
      for (std::int64_t input = 0; input < inputs_; ++input) {
        dots.x = planes + input * plane_rows_ * row_elements_;
        after = loops_.dots(dots, terms);
        dots.lanes += taps_ * loops_.vector_columns;
        dots.totals += taps_;
      }
    }
    return after;
  }

  // Planes as they are in memory.
  static PlaneCopy copy_of(const TensorView& from,
                           std::int64_t image,
                           std::int64_t channel,
                           std::int64_t channels) {
    const Strides& steps = from.strides();
    return {.from = from.data + (image * steps[0] + channel * steps[1]) * size_bytes(from.dtype),
            .dtype = from.dtype,
            .plane_step = steps[1],
            .row_step = steps[2],
            .column_step = steps[3],
            .height = from.shape()[2],
            .width = from.shape()[3],
            .planes = channels};
  }

  const WindowLoops<T>& loops_;
  const TileKernels<T>& kernels_;
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
  std::int64_t phase_columns_ = 0;  // of the copy of x
  std::int64_t row_elements_ = 0;
  std::int64_t grad_columns_ = 0;  // whole vectors
  std::int64_t block_rows_ = 1;
  std::int64_t plane_rows_ = 1;  // of x, for a block
  std::int64_t group_sums_ = 0;
  std::int64_t block_groups_ = 1;
  std::int64_t part_count_ = 1;
  std::int64_t sums_at_ = 0;
  std::int64_t shared_bytes_ = 0;
  std::int64_t totals_at_ = 0;
  std::int64_t planes_at_ = 0;
  std::int64_t grads_at_ = 0;
  std::int64_t part_bytes_ = 0;
  std::int64_t* offsets_ = nullptr;
};

template <class T>
Status run_window_gradient(const TensorView& x,
                           const TensorView& grad,
                           const TensorView& weight,
                           const ConvAttributes& attributes,
                           KernelContext& context) {
  WindowWeightGradient<T> work(x, grad, weight, attributes, context.isa);
  HEARTH_TRY(std::byte* const scratch, context.scratch.take_all(work.scratch_bytes()));
  work.run(scratch, context.arena);
  return {};
}

}  // namespace

bool has_few_channels(const Shape& weight, std::int64_t groups) noexcept {
  return weight[1] * (weight[0] / groups) <= kFewProducts;
}

Status run_window_backward_weight(const TensorView& x,
                                  const TensorView& grad,
                                  const TensorView& weight,
                                  const ConvAttributes& attributes,
                                  KernelContext& context) {
  return x.dtype == DType::f64 ? run_window_gradient<double>(x, grad, weight, attributes, context)
                               : run_window_gradient<float>(x, grad, weight, attributes, context);
}

}  // namespace hearth::cpu
