// A product and a backend whose candidates a test plans, for tests of picks and trials.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <hearth/backends/builtin/builtin.hpp>
#include <hearth/runtime/base/thread_context.hpp>

#include "runtime/device/tuning/wanted_call.hpp"
#include "tests/support/forwarding_backend.hpp"

namespace hearth::testing {

/// A call of matmul without bytes: [m, k]·[k, n].
inline WantedCall wanted_product(std::int64_t m, std::int64_t n, std::int64_t k) {
  WantedCall wanted{
      .key = {.sizes = {1, 1, 1, 1, 1, m, n, k}, .kind = detail::kind_number("matmul")}};
  wanted.record.kind = OpKind::matmul;
  wanted.record.sequence = 1;
  wanted.record.input_count = 2;
  wanted.record.output_count = 1;
  wanted.inputs = {{.layout = detail::Layout(Shape{m, k})},
                   {.layout = detail::Layout(Shape{k, n})}};
  wanted.outputs = {{.layout = detail::Layout(Shape{m, n})}};
  return wanted;
}

/// Runs the reference's kernel for each candidate. A plan decides what else a candidate does.
class PlannedBackend : public ForwardingBackend {
 public:
  static constexpr const char* kFingerprint = "machine=planned";

  /// Receives the launch, whose results are there. Returns its outcome.
  using Plan = std::function<Issue(const Launch&, Issue)>;

  PlannedBackend(std::vector<detail::Candidate> candidates, Plan plan)
      : ForwardingBackend(make_backend({.name = "reference:0"}).value()),
        candidates_(std::move(candidates)),
        plan_(std::move(plan)),
        info_(ForwardingBackend::info()) {
    info_.fingerprint = kFingerprint;
  }

  [[nodiscard]] const BackendInfo& info() const noexcept override { return info_; }

  [[nodiscard]] std::vector<detail::Candidate> candidates(const KernelCall&) const override {
    ++listed_count;
    return candidates_;
  }

  mutable int listed_count = 0;
  std::vector<detail::CandidateId> ran;  ///< Picks of all launches.

 private:
  [[nodiscard]] Issue submit_one(const Launch& launch, Points after) override {
    ran.push_back(launch.pick);
    return plan_(launch, ForwardingBackend::submit_one(launch, after));
  }

  std::vector<detail::Candidate> candidates_;
  Plan plan_;
  BackendInfo info_;
};

}  // namespace hearth::testing
