#include "blas_products.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace hearth::cuda {
namespace {

constexpr std::size_t kMostWorkspaceBytes = std::size_t{32} << 20U;  // NVIDIA's word for sm_90

/// The largest power of two, up to 256, that divides the address.
std::uint32_t alignment_of(std::uint64_t address) noexcept {
  constexpr std::uint64_t kMost = 256;
  const std::uint64_t all = address | kMost;
  return static_cast<std::uint32_t>(all & (~all + 1));
}

BlasType type_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::f64:
      return BlasType::f64;
    case DType::f16:
      return BlasType::f16;
    case DType::bf16:
      return BlasType::bf16;
    case DType::i8:
      return BlasType::i8;
    default:
      return BlasType::f32;
  }
}

/// A matrix as the library sees it: lines of `line` elements, `stride` apart, in columns.
struct Side {
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  std::int64_t stride = 0;
  std::int32_t is_transposed = 0;
};

// A side of `across` by `depth` elements with these strides; none if neither is 1.
std::optional<Side> side_of(std::int64_t across,
                            std::int64_t depth,
                            std::int64_t across_stride,
                            std::int64_t depth_stride) noexcept {
  const auto size_across = static_cast<std::uint64_t>(across);
  const auto size_depth = static_cast<std::uint64_t>(depth);
  if (across_stride == 1 && (depth_stride >= across || depth == 1)) {
    return Side{size_across, size_depth, std::max(depth_stride, across), 0};
  }
  if (depth_stride == 1 && (across_stride >= depth || across == 1)) {
    return Side{size_depth, size_across, std::max(across_stride, depth), 1};
  }
  return std::nullopt;
}

}  // namespace

Result<std::shared_ptr<const CublasLtApi>> CublasLtApi::open(const std::string& folder) {
  static constexpr std::array kNames = {"libcublasLt.so.13", "libcublasLt.so.12"};
  static constexpr std::array kFolders = {"cu13/lib", "cu12/lib", "cublas/lib"};
  HEARTH_TRY(const SharedLibrary library,
             open_library({.title = "cuBLASLt, which multiplies matrices,",
                           .names = kNames,
                           .wheel_folders = kFolders,
                           .remedy = "install it with CUDA's toolkit or by 'pip install "
                                     "nvidia-cublas'"},
                          folder));
  auto api = std::make_shared<CublasLtApi>();
  api->file = library.file;
#define HEARTH_CUDA_LOAD(name, parameters)                                                   \
  api->name = reinterpret_cast<int(*) parameters>(library.find(#name)); /* NOLINT */         \
  if (api->name == nullptr) {                                                                \
    return Error{.code = ErrorCode::not_found,                                               \
                 .text = fmt::format(                                                        \
                     "{} lacks the function {}; install a newer one", library.file, #name)}; \
  }
  HEARTH_CUBLASLT_FUNCTIONS(HEARTH_CUDA_LOAD)
#undef HEARTH_CUDA_LOAD
  if (void* const version = library.find("cublasLtGetVersion"); version != nullptr) {
    api->version = reinterpret_cast<std::size_t (*)()>(version)();  // NOLINT: a function
  }
  return std::shared_ptr<const CublasLtApi>(std::move(api));
}

// ---- a call ----

BlasCall::BlasCall(std::shared_ptr<const CublasLtApi> api,
                   cublasLtHandle_t handle,
                   hearth::detail::Log* log)
    : api_(std::move(api)), handle_(handle), log_(log) {}

BlasCall::~BlasCall() {
  for (const cublasLtMatrixLayout_t matrix : matrices_) {
    if (matrix != nullptr) {
      api_->cublasLtMatrixLayoutDestroy(matrix);
    }
  }
  if (product_ != nullptr) {
    api_->cublasLtMatmulDescDestroy(product_);
  }
}

// The last attempt leaves the choice to the library, without a workspace.
int BlasCall::run(CUstream stream, const BlasAddresses& addresses) const {
  while (true) {
    const bool has_algorithm = first_ < algorithm_count_;
    const cublasLtMatmulHeuristicResult_t* const algorithm =
        has_algorithm ? &algorithms_[static_cast<std::size_t>(first_)] : nullptr;
    const int status = run_by(algorithm, stream, addresses);
    if (status == 0 || !has_algorithm) {
      return status;
    }
    if (log_ != nullptr) {
      log_->warn(
          fmt::format("{} refuses its algorithm {} of {} for a product: status {}, "
                      "workspace of {} bytes at {:#x}; the next one runs",
                      api_->file,
                      first_ + 1,
                      algorithm_count_,
                      status,
                      algorithm->workspaceSize,
                      addresses.scratch));
    }
    ++first_;
  }
}

// The library's matrices lie in columns: its product is that of the transposes, b before a.
int BlasCall::run_by(const cublasLtMatmulHeuristicResult_t* algorithm,
                     CUstream stream,
                     const BlasAddresses& addresses) const noexcept {
  const auto at = [](std::uint64_t address) {
    return reinterpret_cast<void*>(address);  // NOLINT: a device address
  };
  constexpr float kOne = 1;
  constexpr float kZero = 0;
  constexpr double kOneDouble = 1;
  constexpr double kZeroDouble = 0;
  constexpr std::int32_t kOneInteger = 1;
  constexpr std::int32_t kZeroInteger = 0;
  const void* const one = is_double_    ? static_cast<const void*>(&kOneDouble)
                          : is_integer_ ? static_cast<const void*>(&kOneInteger)
                                        : static_cast<const void*>(&kOne);
  const void* const zero = is_double_    ? static_cast<const void*>(&kZeroDouble)
                           : is_integer_ ? static_cast<const void*>(&kZeroInteger)
                                         : static_cast<const void*>(&kZero);
  if (addresses.bias != 0) {
    const int status = api_->cublasLtMatmulDescSetAttribute(
        product_, kBiasPointer, &addresses.bias, sizeof addresses.bias);
    if (status != 0) {
      return status;
    }
  }
  return api_->cublasLtMatmul(handle_,
                              product_,
                              one,
                              at(addresses.b),
                              matrices_[0],
                              at(addresses.a),
                              matrices_[1],
                              zero,
                              at(addresses.y),
                              matrices_[2],
                              at(addresses.y),
                              matrices_[2],
                              algorithm == nullptr ? nullptr : &algorithm->algo,
                              algorithm == nullptr ? nullptr : at(addresses.scratch),
                              algorithm == nullptr ? 0 : algorithm->workspaceSize,
                              stream);
}

// ---- plans ----

bool BlasProducts::open() {
  if (!std::exchange(was_tried_, true)) {
    const Status status = open_library();
    if (!status.has_value() && log_ != nullptr) {
      log_->warn(fmt::format("{} multiplies matrices by slower kernels of Hearth: {}",
                             device_->name(),
                             status.error().text));
    }
  }
  return api_ != nullptr;
}

Status BlasProducts::open_library() {
  HEARTH_TRY(std::shared_ptr<const CublasLtApi> api, CublasLtApi::open(device_->nvidia_folders()));
  static_cast<void>(device_->api());  // the library takes the current context
  if (const int status = api->cublasLtCreate(&handle_); status != 0) {
    return Error{.code = ErrorCode::not_found,
                 .text = fmt::format("cublasLtCreate of {} gave {}", api->file, status)};
  }
  api_ = std::move(api);
  return {};
}

const gpu::LibraryCall* BlasProducts::find(const gpu::LibraryProduct& p) {
  const Key key{static_cast<std::int64_t>(p.dtype),
                p.by_tf32 ? 1 : 0,
                p.matrices,
                p.a_matrix,
                p.b_matrix,
                p.rows,
                p.columns,
                p.depth,
                p.a_row,
                p.a_depth,
                p.b_depth,
                p.b_column,
                alignment_of(p.a),
                alignment_of(p.b),
                alignment_of(p.y),
                p.bias != 0 ? 1 : 0};
  const hearth::detail::MutexLock lock(mutex_);
  if (!open()) {
    return nullptr;
  }
  const auto found = calls_.find(key);
  if (found != calls_.end()) {
    return found->second.get();
  }
  return calls_.emplace(key, plan(p)).first->second.get();
}

// Removes the algorithms that the library marks as unusable, and sizes the workspace.
void BlasProducts::keep_usable(BlasCall& call) {
  auto& all = call.algorithms_;
  auto* const end = std::remove_if(all.begin(),
                                   all.begin() + call.algorithm_count_,
                                   [](const auto& each) { return each.state != 0; });
  call.algorithm_count_ = static_cast<int>(end - all.begin());
  for (auto* each = all.begin(); each != end; ++each) {
    call.workspace_bytes_ = std::max(call.workspace_bytes_, each->workspaceSize);
  }
}

// Phases: the sides in columns; the product; the matrices; what the search may take; the search.
// Null: the library does not take the product. In-place sums of parts are left out, since their
// order changes from run to run.
std::unique_ptr<BlasCall> BlasProducts::plan(const gpu::LibraryProduct& p) const {
  const std::optional<Side> b = side_of(p.columns, p.depth, p.b_column, p.b_depth);
  const std::optional<Side> a = side_of(p.rows, p.depth, p.a_row, p.a_depth);
  if (!a || !b) {
    return nullptr;
  }
  auto call = std::make_unique<BlasCall>(api_, handle_, log_);
  call->is_double_ = p.dtype == DType::f64;
  call->is_integer_ = p.dtype == DType::i8;
  const BlasType factors = type_of(p.dtype);
  const BlasType sums = call->is_integer_ ? BlasType::i32 : factors;
  const BlasCompute compute = call->is_double_    ? BlasCompute::f64
                              : call->is_integer_ ? BlasCompute::i32
                              : p.by_tf32         ? BlasCompute::f32_by_tf32
                                                  : BlasCompute::f32;
  const BlasType scale = call->is_double_    ? BlasType::f64
                         : call->is_integer_ ? BlasType::i32
                                             : BlasType::f32;
  const CublasLtApi& api = *api_;
  bool is_good = api.cublasLtMatmulDescCreate(
                     &call->product_, static_cast<int>(compute), static_cast<int>(scale)) == 0;
  const auto set = [&](int attribute, std::int32_t value) {
    is_good = is_good && api.cublasLtMatmulDescSetAttribute(
                             call->product_, attribute, &value, sizeof value) == 0;
  };
  // Its first operand is b: columns by depth. Its second is a: depth by rows.
  set(kTransposeA, b->is_transposed);
  set(kTransposeB, 1 - a->is_transposed);
  if (p.bias != 0) {
    set(kEpilogue, kAddsBias);
    is_good = is_good && api.cublasLtMatmulDescSetAttribute(
                             call->product_, kBiasPointer, &p.bias, sizeof p.bias) == 0;
  }
  const auto lay = [&](std::size_t i, BlasType type, const Side& side, std::int64_t matrix) {
    const auto count = static_cast<std::int32_t>(p.matrices);
    cublasLtMatrixLayout_t& to = call->matrices_[i];
    is_good =
        is_good && api.cublasLtMatrixLayoutCreate(
                       &to, static_cast<int>(type), side.rows, side.columns, side.stride) == 0;
    is_good = is_good &&
              api.cublasLtMatrixLayoutSetAttribute(to, kBatchCount, &count, sizeof count) == 0 &&
              api.cublasLtMatrixLayoutSetAttribute(to, kBatchStride, &matrix, sizeof matrix) == 0;
  };
  lay(0, factors, *b, p.b_matrix);
  lay(1, factors, *a, p.a_matrix);
  lay(2,
      sums,
      {static_cast<std::uint64_t>(p.columns), static_cast<std::uint64_t>(p.rows), p.columns, 0},
      p.rows * p.columns);
  cublasLtMatmulPreference_t preference = nullptr;
  is_good = is_good && api.cublasLtMatmulPreferenceCreate(&preference) == 0;
  const auto prefer = [&](int attribute, auto value) {
    is_good = is_good && api.cublasLtMatmulPreferenceSetAttribute(
                             preference, attribute, &value, sizeof value) == 0;
  };
  constexpr std::uint32_t kInComputeType = 2;
  prefer(kMostWorkspace, kMostWorkspaceBytes);
  prefer(kReductionSchemes, kInComputeType);
  prefer(kAlignmentOfA, alignment_of(p.b));
  prefer(kAlignmentOfA + 1, alignment_of(p.a));
  prefer(kAlignmentOfA + 2, alignment_of(p.y));
  prefer(kAlignmentOfA + 3, alignment_of(p.y));
  is_good = is_good && api.cublasLtMatmulAlgoGetHeuristic(handle_,
                                                          call->product_,
                                                          call->matrices_[0],
                                                          call->matrices_[1],
                                                          call->matrices_[2],
                                                          call->matrices_[2],
                                                          preference,
                                                          BlasCall::kMostAlgorithms,
                                                          call->algorithms_.data(),
                                                          &call->algorithm_count_) == 0;
  if (preference != nullptr) {
    api.cublasLtMatmulPreferenceDestroy(preference);
  }
  if (!is_good) {
    return nullptr;
  }
  keep_usable(*call);
  return call->algorithm_count_ > 0 ? std::move(call) : nullptr;
}

}  // namespace hearth::cuda
