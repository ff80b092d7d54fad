#include <hearth/modules/dataset_views.hpp>

#include <hearth/modules/epoch_order.hpp>

#include <hearth/runtime/base/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace hearth {
namespace {

[[noreturn]] void refuse_view(ErrorCode code, const std::string& text, SourceLoc loc = {}) {
  throw_error(Error{.code = code, .text = text, .location = loc});
}

// Copies the rows of `from` to these positions of `to`. The first part determines the shape of
// `to`.
void place_rows(std::string_view name,
                const HostArray& from,
                std::span<const std::size_t> places,
                std::int64_t count,
                HostArray& to) {
  Shape wanted = from.shape();
  if (wanted.rank() == 0) {
    refuse_view(ErrorCode::shape_mismatch,
                fmt::format("ConcatDataset: {} of a part is one number, without rows", name));
  }
  wanted.set(0, count);
  if (to.bytes().empty()) {
    to = HostArray(from.dtype(), wanted, SourceLoc{});
  }
  if (to.dtype() != from.dtype() || to.shape() != wanted) {
    refuse_view(to.dtype() == from.dtype() ? ErrorCode::shape_mismatch : ErrorCode::dtype_mismatch,
                fmt::format("ConcatDataset: {} of the parts do not fit: {} and {}",
                            name,
                            describe(to.dtype(), to.shape()),
                            describe(from.dtype(), wanted)));
  }
  const std::size_t row_bytes = places.empty() ? 0 : from.bytes().size() / places.size();
  for (std::size_t i = 0; i < places.size(); ++i) {
    std::ranges::copy(from.bytes().subspan(i * row_bytes, row_bytes),
                      to.bytes().subspan(places[i] * row_bytes, row_bytes).begin());
  }
}

std::string names_in(const Examples& examples) {
  std::string names;
  for (const NamedArray& named : examples.more) {
    names += " " + named.name;
  }
  return names.empty() ? " none" : names;
}

}  // namespace

// ---- SubsetDataset ----

SubsetDataset::SubsetDataset(const Dataset& base, std::vector<std::int64_t> numbers, SourceLoc loc)
    : base_(base), numbers_(std::move(numbers)) {
  const std::int64_t size = base.size();
  for (const std::int64_t number : numbers_) {
    if (number < 0 || number >= size) {
      refuse_view(ErrorCode::invalid_argument,
                  fmt::format("SubsetDataset: there is no example {} in {}, which has {}",
                              number,
                              base.name(),
                              size),
                  loc);
    }
  }
}

Examples SubsetDataset::read(std::span<const std::int64_t> indices) const {
  return read_in_epoch(indices, 0);
}
Examples SubsetDataset::read_in_epoch(std::span<const std::int64_t> indices,
                                      std::int64_t epoch) const {
  std::vector<std::int64_t> numbers;
  numbers.reserve(indices.size());
  for (const std::int64_t index : indices) {
    numbers.push_back(numbers_[static_cast<std::size_t>(index)]);
  }
  return base_.get().read_in_epoch(numbers, epoch);
}

std::string SubsetDataset::name() const {
  return fmt::format("SubsetDataset of {}", base_.get().name());
}

std::vector<SubsetDataset> random_split(const Dataset& data,
                                        std::span<const double> shares,
                                        std::uint64_t seed,
                                        SourceLoc loc) {
  constexpr double kRounding = 1e-9;
  double sum = 0;
  for (const double share : shares) {
    sum += share >= 0 ? share : 2;
  }
  if (!(sum <= 1 + kRounding)) {
    refuse_view(
        ErrorCode::invalid_argument,
        fmt::format("random_split: [{}] are no shares of one whole", fmt::join(shares, ", ")),
        loc);
  }
  const std::vector<std::int64_t> order = shuffled_order(data.size(), seed, 0);
  const auto count = static_cast<double>(order.size());
  std::vector<SubsetDataset> parts;
  double up_to = 0;
  std::ptrdiff_t begin = 0;
  for (const double share : shares) {
    up_to += share;
    const auto end = static_cast<std::ptrdiff_t>(std::llround(std::min(up_to, 1.0) * count));
    parts.emplace_back(
        data, std::vector<std::int64_t>(order.begin() + begin, order.begin() + end), loc);
    begin = end;
  }
  return parts;
}
std::vector<SubsetDataset> random_split(const Dataset& data,
                                        std::initializer_list<double> shares,
                                        std::uint64_t seed,
                                        SourceLoc loc) {
  return random_split(data, std::span<const double>(shares.begin(), shares.size()), seed, loc);
}

// ---- ConcatDataset ----

ConcatDataset::ConcatDataset(std::vector<std::reference_wrapper<const Dataset>> parts,
                             SourceLoc loc)
    : parts_(std::move(parts)) {
  if (parts_.empty()) {
    refuse_view(ErrorCode::invalid_argument, "ConcatDataset: needs a data set or more", loc);
  }
  std::int64_t end = 0;
  for (const Dataset& part : parts_) {
    end += part.size();
    ends_.push_back(end);
  }
}

Examples ConcatDataset::read(std::span<const std::int64_t> indices) const {
  return read_in_epoch(indices, 0);
}

// Phases: assign the positions of the result to parts; read each part once; copy its rows.
Examples ConcatDataset::read_in_epoch(std::span<const std::int64_t> indices,
                                      std::int64_t epoch) const {
  std::vector<std::vector<std::int64_t>> numbers(parts_.size());
  std::vector<std::vector<std::size_t>> places(parts_.size());
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const auto part =
        static_cast<std::size_t>(std::ranges::upper_bound(ends_, indices[i]) - ends_.begin());
    numbers[part].push_back(indices[i] - (part == 0 ? 0 : ends_[part - 1]));
    places[part].push_back(i);
  }
  if (indices.empty()) {
    return parts_.front().get().read_in_epoch(indices, epoch);
  }
  const auto count = static_cast<std::int64_t>(indices.size());
  Examples all;
  bool is_first = true;
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    if (places[part].empty()) {
      continue;
    }
    const Examples some = parts_[part].get().read_in_epoch(numbers[part], epoch);
    if (std::exchange(is_first, false)) {
      for (const NamedArray& named : some.more) {
        all.more.push_back({named.name, HostArray()});
      }
    }
    const bool same_names =
        std::ranges::equal(all.more, some.more, [](const NamedArray& a, const NamedArray& b) {
          return a.name == b.name;
        });
    if (!same_names) {
      refuse_view(ErrorCode::invalid_argument,
                  fmt::format("ConcatDataset: the parts have other arrays: {} and {}",
                              names_in(all),
                              names_in(some)));
    }
    const bool may_leave_out = !some.more.empty();
    if (!may_leave_out || !some.inputs.is_left_out()) {
      place_rows("inputs", some.inputs, places[part], count, all.inputs);
    }
    if (!may_leave_out || !some.targets.is_left_out()) {
      place_rows("targets", some.targets, places[part], count, all.targets);
    }
    for (std::size_t i = 0; i < some.more.size(); ++i) {
      place_rows(some.more[i].name, some.more[i].array, places[part], count, all.more[i].array);
    }
  }
  return all;
}

// ---- MappedDataset ----

MappedDataset::MappedDataset(const Dataset& base, Function function, SourceLoc loc)
    : MappedDataset(
          base,
          function ? EpochFunction([map = std::move(function)](
                                       Examples examples,
                                       std::span<const std::int64_t> /*numbers*/,
                                       std::int64_t /*epoch*/) { return map(std::move(examples)); })
                   : EpochFunction(),
          loc) {}
MappedDataset::MappedDataset(const Dataset& base, NumberedFunction function, SourceLoc loc)
    : MappedDataset(base,
                    function ? EpochFunction([map = std::move(function)](
                                                 Examples examples,
                                                 std::span<const std::int64_t> numbers,
                                                 std::int64_t /*epoch*/) {
                      return map(std::move(examples), numbers);
                    })
                             : EpochFunction(),
                    loc) {}
MappedDataset::MappedDataset(const Dataset& base, EpochFunction function, SourceLoc loc)
    : base_(base), function_(std::move(function)) {
  if (!function_) {
    refuse_view(ErrorCode::invalid_argument, "MappedDataset: needs a function", loc);
  }
}

Examples MappedDataset::read(std::span<const std::int64_t> indices) const {
  return read_in_epoch(indices, 0);
}
Examples MappedDataset::read_in_epoch(std::span<const std::int64_t> indices,
                                      std::int64_t epoch) const {
  return function_(base_.get().read_in_epoch(indices, epoch), indices, epoch);
}

std::string MappedDataset::name() const {
  return fmt::format("MappedDataset of {}", base_.get().name());
}

}  // namespace hearth
