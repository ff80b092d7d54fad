#include "matmul_product.hpp"

#include "backends/cpu/machine/part_memory.hpp"
#include "backends/cpu/machine/sweep_memory.hpp"
#include "gemm_blas.hpp"
#include "int_gemm.hpp"
#include "product_choices.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace hearth::cpu {

namespace {

// Memory bandwidth limits thin products: smallest number of bytes that a part reads.
constexpr double kPartBytes = 1.5e6;
// Smallest weights to share with an awake thread: 5 µs of reading.
constexpr double kSharedBytes = 1.28e5;
// Limits of products of few rows that are swapped, by the right side: with contiguous columns, or
// with contiguous rows.
constexpr std::int64_t kMostRowsByColumns = 256;
constexpr std::int64_t kLeastRowsByRows = 16;
constexpr std::int64_t kMostRowsByRows = 128;
constexpr std::int64_t kLeastDepthByRows = 192;
constexpr std::int64_t kMostBytesByRows = std::int64_t{4} << 20;
// Rows of a matrix that the axpy form adds in the sum's own type. Longer sums are joined in f64.
constexpr std::int64_t kAxpyDepth = 1024;
// Elements of a result whose parts are joined at a time: 32 MiB of f64 sums.
constexpr std::int64_t kBandElements = std::int64_t{1} << 22;
// Elements joined by one task.
constexpr std::int64_t kJoinElements = std::int64_t{1} << 16;

enum class Form {
  thin,    // few rows times a matrix that is read once, in place
  packed,  // register tiles
  blas,    // OpenBLAS
};

template <class T>
class Product {
 public:
  /// `choice`: null for the rule.
  Product(const MatmulProduct& product, const KernelContext& context, const ProductChoice* choice)
      : context_(context),
        kernels_(tile_kernels<T>(context.isa)),
        dtype_(product.a.dtype),
        product_(product) {
    // With few columns the transposed product has the better shape: cᵀ = bᵀ·aᵀ.
    swapped_ = product.m > product.n && product.n <= kernels_.vector_columns &&
               !suits_thin(product.m, product.b) && !reads_columns(product);
    m_ = product.m;
    n_ = product.n;
    a_ = product.a;
    b_ = product.b;
    if (swapped_) {
      swap();
    }
    if (suits_thin(m_, b_)) {
      form_ = Form::thin;
    } else if (context.use_blas && blas_suits<T>(m_, n_, product.k, a_, b_, context.isa)) {
      form_ = Form::blas;
    } else if (reads_more_swapped() || reads_larger_swapped()) {
      swapped_ = true;
      swap();
    }
    if (choice != nullptr && form_ == Form::packed) {
      if (choice->is_swapped != swapped_) {
        swapped_ = choice->is_swapped;
        swap();
      }
      choice_ = choice->gemm;
    }
    makes_whole_ = product.rows.is_there() &&
                   (form_ != Form::packed || swapped_ || !reads_rows_once(n_, product.k));
    lay_out();
  }

  [[nodiscard]] std::int64_t scratch_bytes() const { return scratch_bytes_; }
  /// Returns how the product runs; nothing if not by register tiles in one sum.
  [[nodiscard]] std::optional<ProductPlan> planned() const noexcept {
    if (form_ != Form::packed || is_deep() || m_ * n_ * product_.k == 0) {
      return std::nullopt;
    }
    return ProductPlan{
        .choice = {.is_swapped = swapped_, .gemm = planned_choice(packed(), kernels_)},
        .scratch_bytes = scratch_bytes_};
  }

  void run(std::byte* scratch, Arena* arena) {
    const T* bias = bias_values(scratch + bias_at_);
    T* c = writes_directly() ? reinterpret_cast<T*>(product_.c)
                             : reinterpret_cast<T*>(scratch + c_at_);
    const T* start = swapped_ ? nullptr : bias;
    if (product_.k == 0) {
      for (std::int64_t i = 0; i < m_ * n_; ++i) {
        c[i] = start == nullptr ? T{} : start[i % n_];
      }
      give(0, n_);
    } else if (makes_whole_) {
      make_whole(scratch, arena);
      multiply(c, start, scratch, arena);
    } else {
      multiply(c, start, scratch, arena);
    }
    finish(c, bias, scratch);
    if (!writes_directly()) {
      give_all(arena);
    }
  }

 private:
  void multiply(T* c, const T* start, std::byte* scratch, Arena* arena) {
    if (form_ == Form::thin) {
      run_thin(c, start, scratch, arena);
    } else if (is_deep()) {
      multiply_deep(c, start, scratch, arena);
    } else {
      Gemm<T> gemm = packed();
      gemm.c = c;
      gemm.bias = start;
      run_packed(gemm, scratch, arena);
    }
  }

  void run_packed(const Gemm<T>& gemm, std::byte* scratch, Arena* arena) {
    if (form_ == Form::blas) {
      run_blas_gemm(gemm, arena);
    } else {
      run_gemm(gemm, kernels_, scratch + work_at_, arena);
    }
  }

  // Computes bands of rows, each as the sum of parts of the depth.
  void multiply_deep(T* c, const T* start, std::byte* scratch, Arena* arena) {
    const Joined joined = joined_at(scratch);
    const std::int64_t band = band_rows();
    const std::int64_t depth = part_depth();
    for (std::int64_t row = 0; row < m_; row += band) {
      const std::int64_t elements = std::min(band, m_ - row) * n_;
      for (std::int64_t k = 0; k < product_.k; k += depth) {
        Gemm<T> part = piece(elements / n_, std::min(depth, product_.k - k));
        part.a.data += (row * a_.row_step + k * a_.column_step) * size_bytes(a_.dtype);
        part.b.data += k * b_.row_step * size_bytes(b_.dtype);
        part.c = joined.part;
        run_packed(part, scratch, arena);
        for_ranges(arena, elements, kJoinElements, [&](std::int64_t begin, std::int64_t end) {
          joined.add(begin, end, k == 0);
        });
      }
      T* const to = c + row * n_;
      for_ranges(arena, elements / n_, rows_to_join(), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          joined.round(i * n_, n_, start, to + i * n_);
        }
      });
      if (writes_directly()) {
        product_.sink.take(row, elements / n_, 0, n_);
      }
    }
  }

  /// f64 sums of parts of the depth, and the next part.
  struct Joined {
    T* part = nullptr;
    double* sums = nullptr;

    void add(std::int64_t begin, std::int64_t end, bool is_first) const {
      for (std::int64_t i = begin; i < end; ++i) {
        sums[i] = (is_first ? 0.0 : sums[i]) + static_cast<double>(part[i]);
      }
    }
    void round(std::int64_t first, std::int64_t count, const T* start, T* to) const {
      for (std::int64_t i = 0; i < count; ++i) {
        const double sum = sums[first + i];
        to[i] = static_cast<T>(start == nullptr ? sum : sum + static_cast<double>(start[i]));
      }
    }
  };
  [[nodiscard]] Joined joined_at(std::byte* scratch) const {
    return {reinterpret_cast<T*>(scratch + part_at_),
            reinterpret_cast<double*>(scratch + sums_at_)};
  }
  // Returns a piece of the product without the callbacks, which need whole results or the whole
  // depth.
  [[nodiscard]] Gemm<T> piece(std::int64_t m, std::int64_t k) const {
    Gemm<T> gemm = packed();
    gemm.m = m;
    gemm.k = k;
    gemm.sink = {};
    return gemm;
  }
  [[nodiscard]] bool is_deep() const {
    return product_.k > (form_ == Form::thin ? kAxpyDepth : kMostDepth) &&
           !(form_ == Form::thin && by_dot());
  }
  [[nodiscard]] bool by_dot() const { return b_.row_step == 1; }
  [[nodiscard]] std::int64_t part_depth() const {
    return even_part(product_.k, form_ == Form::thin ? kAxpyDepth : kMostDepth);
  }
  [[nodiscard]] std::int64_t band_rows() const {
    return form_ == Form::thin ? m_
                               : even_part(m_, std::clamp<std::int64_t>(kBandElements / n_, 1, m_));
  }
  [[nodiscard]] std::int64_t rows_to_join() const {
    return std::max<std::int64_t>(1, kJoinElements / n_);
  }

  // Computes all rows of the left side first, for forms that visit a row more than once, or parts
  // of rows.
  void make_whole(std::byte* scratch, Arena* arena) {
    const ProducedRows& rows = product_.rows;
    std::byte* const to = scratch + made_at_;
    const std::int64_t row_bytes = product_.k * size_bytes(dtype_);
    const PartMemory producers(scratch + producers_at_, rows.threads, rows.memory_bytes);
    for_ranges(arena, product_.m, rows.grain, [&](std::int64_t begin, std::int64_t end) {
      rows.run(PartMemory::Part(producers).data(), to + begin * row_bytes, begin, end);
    });
    (swapped_ ? b_ : a_).data = to;
  }

  /// Passes finished columns of all rows to the sink, if the result needs no further step.
  void give(std::int64_t begin, std::int64_t end) const {
    if (writes_directly()) {
      product_.sink.take(0, m_, begin, end - begin);
    }
  }
  void give_all(Arena* arena) const {
    if (product_.sink.done == nullptr) {
      return;
    }
    constexpr std::int64_t kElements = std::int64_t{1} << 16;
    for_ranges(arena,
               product_.m,
               std::max<std::int64_t>(1, kElements / product_.n),
               [this](std::int64_t begin, std::int64_t end) {
                 product_.sink.take(begin, end - begin, 0, product_.n);
               });
  }

  static GemmOperand transposed(const GemmOperand& operand) {
    return {operand.data, operand.dtype, operand.column_step, operand.row_step, operand.constant};
  }

  void swap() {
    std::swap(m_, n_);
    std::swap(a_, b_);
    a_ = transposed(a_);
    b_ = transposed(b_);
  }

  // Whether to swap a long sum over rows of both operands, such as a weight's gradient. The smaller
  // one is then packed, the larger one read in place, and the result is small enough to transpose.
  [[nodiscard]] bool reads_more_swapped() const {
    return !swapped_ && product_.sink.done == nullptr && dtype_ == dtype_of<T> &&
           a_.row_step == 1 && b_.column_step == 1 && b_.constant == nullptr &&
           m_ <= most_read_columns(kernels_) && n_ >= 2 * m_ && product_.k >= n_;
  }

  // Whether to swap few rows times a larger matrix, such as a batch times weights. The few rows are
  // then packed, and the matrix is read in place. Straight, all of the matrix would be packed. A
  // bias would be added after the sum, with other bits.
  [[nodiscard]] bool reads_larger_swapped() const {
    if (swapped_ || product_.sink.done != nullptr || product_.rows.is_there() ||
        product_.bias != nullptr || dtype_ != dtype_of<T> || b_.constant != nullptr ||
        n_ < 2 * m_) {
      return false;
    }
    if (b_.row_step == 1) {
      return m_ <= kMostRowsByColumns;
    }
    return b_.column_step == 1 && m_ >= kLeastRowsByRows && m_ <= kMostRowsByRows &&
           product_.k >= kLeastDepthByRows &&
           product_.k * n_ * static_cast<std::int64_t>(sizeof(T)) <= kMostBytesByRows;
  }

  // Whether the left side of a product of few columns, such as the gradient of a classifier's
  // weights, is read in place along its columns. A thin product, after a swap, is faster still.
  static bool reads_columns(const MatmulProduct& product) {
    return product.a.row_step == 1 && product.n > kMaxThinRows && product.bias == nullptr &&
           product.a.dtype == dtype_of<T>;
  }

  static bool suits_thin(std::int64_t rows, const GemmOperand& b) {
    return b.row_step == 1 ? rows <= kMaxDotRows : b.column_step == 1 && rows <= kMaxThinRows;
  }

  [[nodiscard]] bool writes_directly() const { return !swapped_ && dtype_ == dtype_of<T>; }
  [[nodiscard]] bool reads_x_directly() const {
    return a_.dtype == dtype_of<T> && a_.column_step == 1;
  }

  [[nodiscard]] Gemm<T> packed() const {
    Gemm<T> gemm;
    gemm.m = m_;
    gemm.n = n_;
    gemm.k = product_.k;
    gemm.a = a_;
    gemm.b = b_;
    gemm.c_step = n_;
    gemm.sink = writes_directly() ? product_.sink : BlockSink{};
    gemm.rows = makes_whole_ ? ProducedRows{} : product_.rows;
    gemm.choice = choice_;
    return gemm;
  }

  // Scratch: bias; c, if swapped or narrowed; c in final order, if both; a part of a deep sum, and
  // the sum; packed operands or x; a that a prologue computes whole, and the memory of its
  // producers.
  void lay_out() {
    constexpr auto kElementBytes = static_cast<std::int64_t>(sizeof(T));
    const std::int64_t c_bytes = whole_lines(m_ * n_ * kElementBytes);
    bias_at_ = 0;
    c_at_ = whole_lines(product_.n * kElementBytes);
    ordered_at_ = c_at_ + (writes_directly() ? 0 : c_bytes);
    part_at_ = ordered_at_ + (swapped_ && dtype_ != dtype_of<T> ? c_bytes : 0);
    const std::int64_t joined = is_deep() ? band_rows() * n_ : 0;
    sums_at_ = part_at_ + whole_lines(joined * kElementBytes);
    work_at_ = sums_at_ + whole_lines(joined * std::int64_t{sizeof(double)});
    scratch_bytes_ = work_at_;
    if (form_ == Form::thin) {
      scratch_bytes_ += whole_lines(m_ * product_.k * kElementBytes);
    } else if (form_ == Form::packed) {
      scratch_bytes_ += packed_scratch_bytes();
    }
    if (makes_whole_) {
      made_at_ = whole_lines(scratch_bytes_);
      producers_at_ = made_at_ + whole_lines(product_.m * product_.k * size_bytes(dtype_));
      scratch_bytes_ =
          producers_at_ + PartMemory::bytes(product_.rows.threads, product_.rows.memory_bytes);
    }
  }

  // The last band and the last part may be smaller, and their plans may differ.
  [[nodiscard]] std::int64_t packed_scratch_bytes() const {
    if (!is_deep()) {
      return gemm_scratch_bytes(packed(), kernels_);
    }
    const auto last = [](std::int64_t size, std::int64_t part) { return (size - 1) % part + 1; };
    std::int64_t bytes = 0;
    for (const std::int64_t rows : {band_rows(), last(m_, band_rows())}) {
      for (const std::int64_t depth : {part_depth(), last(product_.k, part_depth())}) {
        bytes = std::max(bytes, gemm_scratch_bytes(piece(rows, depth), kernels_));
      }
    }
    return bytes;
  }

  [[nodiscard]] const T* bias_values(std::byte* to) const {
    if (product_.bias == nullptr) {
      return nullptr;
    }
    if (dtype_ == dtype_of<T> && product_.bias_step == 1) {
      return reinterpret_cast<const T*>(product_.bias);
    }
    const Pack pack{.from = product_.bias,
                    .item_step = 1,
                    .depth_step = product_.bias_step,
                    .depth = product_.n,
                    .items = 1,
                    .width = 1};
    kernels_.pack(pack, dtype_, reinterpret_cast<T*>(to));
    return reinterpret_cast<const T*>(to);
  }

  void run_thin(T* c, const T* start, std::byte* scratch, Arena* arena) const {
    T* const x = reinterpret_cast<T*>(scratch + work_at_);
    Thin<T> thin;
    thin.x = reinterpret_cast<const T*>(a_.data);
    thin.x_step = a_.row_step;
    if (!reads_x_directly()) {
      for (std::int64_t row = 0; row < m_; ++row) {
        const Pack pack{.from = a_.data + row * a_.row_step * size_bytes(a_.dtype),
                        .item_step = 1,
                        .depth_step = a_.column_step,
                        .depth = product_.k,
                        .items = 1,
                        .width = 1};
        kernels_.pack(pack, a_.dtype, x + row * product_.k);
      }
      thin.x = x;
      thin.x_step = product_.k;
    }
    thin.y_step = n_;
    thin.depth = product_.k;
    thin.rows = static_cast<int>(m_);
    thin.backwards = by_dot() && arena != nullptr && context_.sweeps != nullptr &&
                     context_.sweeps->turn(b_.data);
    thin.w_step = by_dot() ? b_.column_step : b_.row_step;
    const std::int64_t element_bytes = size_bytes(b_.dtype);
    const double w_bytes = static_cast<double>(product_.k) * static_cast<double>(n_) *
                           static_cast<double>(element_bytes);
    const std::int64_t count =
        std::clamp<std::int64_t>(static_cast<std::int64_t>(w_bytes / kPartBytes), 1, kMaxParts);
    const auto columns = [&](std::int64_t begin, std::int64_t end) {
      Thin<T> part = thin;
      part.w = b_.data + begin * b_.column_step * element_bytes;
      part.y = c + begin;
      part.start = start == nullptr ? nullptr : start + begin;
      part.columns = end - begin;
      if (by_dot()) {
        kernels_.thin_dot(part, b_.dtype);
      } else if (is_deep()) {
        add_axpys(part, joined_at(scratch), begin);
      } else {
        kernels_.thin_axpy(part, b_.dtype);
      }
      give(begin, end);
    };
    constexpr std::int64_t kColumns = 16;
    const int awake = arena != nullptr && w_bytes >= kSharedBytes ? arena->awake_threads() : 1;
    if (awake > 1) {
      arena->share(
          awake,
          n_,
          Arena::shared_grain(awake, n_, kColumns),
          [&](std::int64_t begin, std::int64_t end, int /*thread*/) { columns(begin, end); });
    } else {
      for_ranges(
          arena, n_, ((n_ + count - 1) / count + kColumns - 1) / kColumns * kColumns, columns);
    }
  }

  // Computes the columns of `all`, which begin at `column`, as sums of parts of the depth.
  void add_axpys(const Thin<T>& all, const Joined& joined, std::int64_t column) const {
    const std::int64_t depth = part_depth();
    for (std::int64_t k = 0; k < all.depth; k += depth) {
      Thin<T> part = all;
      part.x += k;
      part.w += k * all.w_step * size_bytes(b_.dtype);
      part.y = joined.part + column;
      part.start = nullptr;
      part.depth = std::min(depth, all.depth - k);
      kernels_.thin_axpy(part, b_.dtype);
      for (std::int64_t row = 0; row < m_; ++row) {
        joined.add(row * n_ + column, row * n_ + column + all.columns, k == 0);
      }
    }
    for (std::int64_t row = 0; row < m_; ++row) {
      joined.round(row * n_ + column, all.columns, all.start, all.y + row * n_);
    }
  }

  // Transposes a swapped result, adds its bias, and narrows it.
  void finish(T* c, const T* bias, std::byte* scratch) const {
    if (swapped_) {
      T* ordered = dtype_ == dtype_of<T> ? reinterpret_cast<T*>(product_.c)
                                         : reinterpret_cast<T*>(scratch + ordered_at_);
      for (std::int64_t j = 0; j < m_ && bias != nullptr; ++j) {
        for (std::int64_t i = 0; i < n_; ++i) {
          c[j * n_ + i] += bias[j];
        }
      }
      kernels_.transpose(c, n_, ordered, m_, m_, n_);
      c = ordered;
    }
    if (dtype_ != dtype_of<T>) {
      kernels_.store(c, product_.c, dtype_, m_ * n_);
    }
  }

  const KernelContext& context_;
  const TileKernels<T>& kernels_;
  DType dtype_;
  const MatmulProduct& product_;
  bool swapped_ = false;
  bool makes_whole_ = false;  // computes the left side before the product
  GemmChoice choice_ = {};
  Form form_ = Form::packed;
  std::int64_t m_ = 0;
  std::int64_t n_ = 0;
  GemmOperand a_;
  GemmOperand b_;
  std::int64_t bias_at_ = 0;
  std::int64_t c_at_ = 0;
  std::int64_t ordered_at_ = 0;
  std::int64_t part_at_ = 0;
  std::int64_t sums_at_ = 0;
  std::int64_t work_at_ = 0;
  std::int64_t made_at_ = 0;
  std::int64_t producers_at_ = 0;
  std::int64_t scratch_bytes_ = 0;
};

std::optional<ProductPlan> planned(const MatmulProduct& product,
                                   const KernelContext& context,
                                   const ProductChoice* choice) noexcept {
  if (product.a.dtype == DType::i8) {
    return std::nullopt;
  }
  return product.a.dtype == DType::f64 ? Product<double>(product, context, choice).planned()
                                       : Product<float>(product, context, choice).planned();
}

}  // namespace

std::optional<ProductPlan> rule_plan(const MatmulProduct& product,
                                     const KernelContext& context) noexcept {
  return planned(product, context, nullptr);
}

// A swapped product adds the bias after the sum, not before it.
std::optional<ProductPlan> other_plan(const MatmulProduct& product,
                                      const KernelContext& context,
                                      const ProductChoice& rule,
                                      const ProductChoice& choice) noexcept {
  if (rule == choice || product.sink.done != nullptr || product.rows.is_there() ||
      (product.bias != nullptr && rule.is_swapped != choice.is_swapped)) {
    return std::nullopt;
  }
  std::optional<ProductPlan> plan = planned(product, context, &choice);
  return plan.has_value() && plan->choice == choice ? plan : std::nullopt;
}

bool allows(const MatmulProduct& product,
            const KernelContext& context,
            const ProductChoice& choice) noexcept {
  const std::optional<ProductPlan> rule = rule_plan(product, context);
  return rule.has_value() && other_plan(product, context, rule->choice, choice).has_value();
}

std::int64_t matmul_scratch_bytes(const MatmulProduct& product,
                                  const KernelContext& context) noexcept {
  if (product.a.dtype == DType::i8) {
    return int_product_scratch_bytes(product, context.isa);
  }
  const ProductChoice* const choice = choice_of(context.pick);
  return product.a.dtype == DType::f64 ? Product<double>(product, context, choice).scratch_bytes()
                                       : Product<float>(product, context, choice).scratch_bytes();
}

void run_matmul(const MatmulProduct& product,
                const KernelContext& context,
                std::byte* scratch,
                Arena* arena) {
  const ProductChoice* const choice = choice_of(context.pick);
  if (product.a.dtype == DType::i8) {
    run_int_product(product, context.isa, scratch, arena);
  } else if (product.a.dtype == DType::f64) {
    Product<double>(product, context, choice).run(scratch, arena);
  } else {
    Product<float>(product, context, choice).run(scratch, arena);
  }
}

}  // namespace hearth::cpu
