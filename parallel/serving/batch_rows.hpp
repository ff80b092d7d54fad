// The rows of a batch: joins the inputs of its requests, cuts its outputs into answers, and
// compares answers. Stateless. Threads: any; ops go to the calling thread's stream.
#pragma once

#include <hearth/parallel/batcher.hpp>
#include <hearth/runtime/tensor.hpp>

#include <span>
#include <string>
#include <vector>

namespace hearth::detail {

/// Joins one input of several requests on a device. Repeats the first row up to `padded_rows`. An
/// input by value is that of the first request.
[[nodiscard]] Tensor join_rows(const Device& device,
                               std::span<const RequestRef> requests,
                               std::size_t input,
                               std::int64_t padded_rows);

/// Returns one row of an input, as an input.
[[nodiscard]] RequestInput row_of(const RequestInput& input, std::int64_t row);

/// Waits for the outputs and returns their values.
///
/// Errors: those of Tensor::read_into.
[[nodiscard]] Result<std::vector<HostRows>> read_outputs(std::span<const Tensor> outputs);

/// Returns rows [begin, begin + count) of each output. Requires that axis 0 of each counts rows.
[[nodiscard]] std::vector<HostRows> cut_rows(std::span<const HostRows> outputs,
                                             std::int64_t begin,
                                             std::int64_t count);
/// Joins the outputs of single rows.
[[nodiscard]] std::vector<HostRows> join_outputs(std::span<const std::vector<HostRows>> rows);

/// Returns why axis 0 of an output does not count `rows` rows; empty if each does.
[[nodiscard]] std::string why_no_rows(std::span<const HostRows> outputs, std::int64_t rows);
/// Returns how two answers differ; empty if they do not. `is_exact`: they must have equal bits.
/// Otherwise floats may differ as sums of kProofTerms terms in different orders do.
[[nodiscard]] std::string difference(std::span<const HostRows> in_batch,
                                     std::span<const HostRows> alone,
                                     bool is_exact);

/// Terms of the sums whose order may differ in a batch.
inline constexpr double kProofTerms = 4096;
/// The allowed difference of an element `alone` of an output whose largest element is `largest`:
/// the row `sum` of the tolerance table of the tests.
[[nodiscard]] double row_tolerance(DType dtype, double alone, double largest) noexcept;

}  // namespace hearth::detail
