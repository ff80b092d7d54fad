#include <hearth/parallel/batch_runner.hpp>

#include <hearth/parallel/batch_rows.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace hearth::detail {
namespace {

std::int64_t rows_of(std::span<const RequestRef> requests) {
  std::int64_t rows = 0;
  for (const RequestRef& request : requests) {
    rows += request->rows;
  }
  return rows;
}

// Errors that a call has at each repetition, since shapes and types alone decide them.
bool is_of_shapes(ErrorCode code) noexcept {
  return code == ErrorCode::shape_mismatch || code == ErrorCode::dtype_mismatch ||
         code == ErrorCode::invalid_argument || code == ErrorCode::unsupported;
}

}  // namespace

BatchRunner::BatchRunner(const Device& device, SeatModel model, Options options)
    : device_(device), model_(std::move(model)), options_(std::move(options)), stream_(device) {}

BatchOutcome BatchRunner::run(RunningBatch& batch) {
  outcome_ = {};
  batch_ = &batch;
  try {
    const StreamScope scope(stream_);
    version_ = model_.renew();
    switch (batch.mode) {
      case BatchMode::whole:
        run_whole(batch.requests, batch.padded_rows);
        break;
      case BatchMode::proof:
        run_proof(batch.requests, batch.padded_rows);
        break;
      case BatchMode::alone:
        run_alone(batch.requests);
        break;
    }
  } catch (...) {  // outside of a pass: a stream in use, or no memory for the batch itself
    const ErrorRef error = error_of_current_exception();
    for (const RequestRef& request : batch.requests) {
      fail(*request, error);
    }
  }
  batch_ = nullptr;
  return std::exchange(outcome_, {});
}

Result<BatchRunner::Outputs> BatchRunner::pass(std::span<const RequestRef> requests,
                                               std::int64_t padded_rows) {
  try {
    const std::size_t count = requests.front()->inputs.size();
    std::vector<Tensor> inputs;
    inputs.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      inputs.push_back(join_rows(device_, requests, i, padded_rows));
    }
    const std::vector<Tensor> outputs = model_.forward(inputs);
    inputs.clear();
    return read_outputs(outputs);
  } catch (...) {
    return error_of_current_exception();
  }
}

Result<BatchRunner::Outputs> BatchRunner::pass_alone(const RequestRef& request) {
  if (!options_.exact_rows || request->rows == 1) {
    return pass({&request, 1}, request->rows);
  }
  std::vector<Outputs> rows;
  for (std::int64_t row = 0; row < request->rows; ++row) {
    const auto single = std::make_shared<ServerRequest>();
    for (const RequestInput& input : request->inputs) {
      single->inputs.push_back(row_of(input, row));
    }
    HEARTH_TRY(Outputs outputs, pass({&single, 1}, 1));
    if (const std::string why = why_no_rows(outputs, 1); !why.empty()) {
      return Error{.code = ErrorCode::unsupported,
                   .text = "ModelServer: exact_rows needs outputs whose axis 0 counts rows: " + why,
                   .op = "ModelServer::ask"};
    }
    rows.push_back(std::move(outputs));
  }
  return join_outputs(rows);
}

void BatchRunner::run_whole(std::span<const RequestRef> requests, std::int64_t padded_rows) {
  Result<Outputs> outputs = pass(requests, padded_rows);
  if (!outputs.has_value()) {
    if (may_divide(requests, outputs.shared_error())) {
      run_halves(requests);
    }
    return;
  }
  // A request by itself gets the outputs as they are, whatever their axis 0 counts.
  if (requests.size() == 1 && padded_rows == requests.front()->rows) {
    answer(*requests.front(), std::move(outputs).value());
  } else if (const std::string why = why_no_rows(outputs.value(), padded_rows); !why.empty()) {
    refute(why);
    run_alone(requests);
    return;
  } else {
    std::int64_t row = 0;
    for (const RequestRef& request : requests) {
      answer(*request, cut_rows(outputs.value(), row, request->rows));
      row += request->rows;
    }
  }
  outcome_.is_measured = requests.size() == batch_->requests.size();
}

void BatchRunner::run_proof(std::span<const RequestRef> requests, std::int64_t padded_rows) {
  Result<Outputs> together = pass(requests, padded_rows);
  if (!together.has_value()) {
    const ErrorRef error = together.shared_error();
    if (may_divide(requests, error) && run_alone(requests) && is_of_shapes(error->code)) {
      refute(fmt::format(
          "{} rows together fail, each request alone does not: {}", padded_rows, error->text));
    }
    return;
  }
  std::string why = why_no_rows(together.value(), padded_rows);
  bool has_compared_all = true;
  std::int64_t row = 0;
  for (const RequestRef& request : requests) {
    Result<Outputs> alone = pass_alone(request);
    if (!alone.has_value()) {
      has_compared_all = false;
      if (!may_divide({&request, 1}, alone.shared_error())) {
        if (outcome_.is_lost || outcome_.is_closed) {
          return;
        }
      }
      row += request->rows;
      continue;
    }
    if (why.empty()) {
      const std::string text = difference(
          cut_rows(together.value(), row, request->rows), alone.value(), options_.exact_rows);
      why =
          text.empty() ? "" : fmt::format("a request at row {} gets another answer: {}", row, text);
    }
    row += request->rows;
    answer(*request, std::move(alone).value());
  }
  if (!why.empty()) {
    refute(why);
  } else if (has_compared_all) {
    outcome_.rows_are_independent = true;
  }
}

bool BatchRunner::run_alone(std::span<const RequestRef> requests) {
  bool has_answered_all = true;
  for (const RequestRef& request : requests) {
    Result<Outputs> outputs = pass_alone(request);
    if (outputs.has_value()) {
      answer(*request, std::move(outputs).value());
      continue;
    }
    has_answered_all = false;
    if (!may_divide({&request, 1}, outputs.shared_error()) &&
        (outcome_.is_lost || outcome_.is_closed)) {
      return false;
    }
  }
  return has_answered_all;
}

void BatchRunner::run_halves(std::span<const RequestRef> requests) {
  if (options_.exact_rows) {
    run_alone(requests);  // a half may have a size that is not proven
    return;
  }
  const std::size_t half = requests.size() / 2;
  for (const auto part : {requests.first(half), requests.subspan(half)}) {
    if (!outcome_.is_lost && !outcome_.is_closed) {
      const std::int64_t rows = rows_of(part);
      run_whole(part, part.size() == 1 ? rows : padded(rows));
    }
  }
}

bool BatchRunner::may_divide(std::span<const RequestRef> requests, const ErrorRef& error) {
  const ErrorCode code = error->code;
  if (code == ErrorCode::device_lost || code == ErrorCode::deadline_exceeded || device_.is_lost()) {
    outcome_.is_lost = true;
    outcome_.error = error;
    return false;
  }
  if (code == ErrorCode::device_closed) {
    outcome_.is_closed = true;
  }
  if (requests.size() > 1 && !outcome_.is_closed && options_.repeatable) {
    if (code == ErrorCode::out_of_memory) {
      outcome_.fitting_rows = std::max<std::int64_t>(1, rows_of(requests) / 2);
    }
    return true;
  }
  for (const RequestRef& request : requests) {
    fail(*request, error);
  }
  if (outcome_.is_closed) {
    for (const RequestRef& request : batch_->requests) {
      fail(*request, error);
    }
  }
  return false;
}

void BatchRunner::refute(std::string_view why) {
  outcome_.rows_are_independent = false;
  device_.log().warn(fmt::format("ModelServer: requests of {} run {}: {}",
                                 batch_->signature->text,
                                 options_.exact_rows
                                     ? fmt::format("in no batches of {} rows", batch_->padded_rows)
                                     : "one by one",
                                 why));
}

void BatchRunner::answer(ServerRequest& request, Outputs outputs) {
  if (request.claim()) {
    answered_.fetch_add(1, std::memory_order_relaxed);
    request.promise.set_value(Answer{.outputs = std::move(outputs), .version = version_});
  }
}

void BatchRunner::fail(ServerRequest& request, const ErrorRef& error) {
  if (request.claim()) {
    failed_.fetch_add(1, std::memory_order_relaxed);
    request.promise.set_error(error);
  }
}

std::int64_t BatchRunner::padded(std::int64_t rows) const noexcept {
  const auto size = std::lower_bound(options_.ladder.begin(), options_.ladder.end(), rows);
  return size == options_.ladder.end() ? rows : *size;
}

}  // namespace hearth::detail
