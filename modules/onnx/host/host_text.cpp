#include "host_text.hpp"

#include <algorithm>
#include <utility>

#include "modules/onnx/host/host_elements.hpp"

namespace hearth::onnx {
namespace {

std::string lowered(std::string text) {
  std::ranges::transform(text, text.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return text;
}

std::string raised(std::string text) {
  std::ranges::transform(text, text.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  return text;
}

// The words of TfIdfVectorizer: strings, or integers as text.
std::vector<std::string> words_of(const HostArray& array) {
  if (has_strings(array)) {
    return array.strings();
  }
  std::vector<std::string> words;
  for (const std::int64_t value : integers_of(array)) {
    words.push_back(std::to_string(value));
  }
  return words;
}

struct NgramRule {
  std::vector<std::string> pool;
  std::vector<std::int64_t> starts;   // in the pool, by length of n-grams
  std::vector<std::int64_t> columns;  // of the result, by n-gram
  std::int64_t least = 1;
  std::int64_t most = 1;
  std::int64_t skips = 0;
  std::int64_t width = 0;
};

NgramRule rule_of(const Call& call) {
  const NodeInfo& node = call.node();
  NgramRule rule{.pool = {},
                 .starts = {},
                 .columns = {},
                 .least = node.integer("min_gram_length", 1),
                 .most = node.integer("max_gram_length", 1),
                 .skips = node.integer("max_skip_count", 0)};
  if (const auto* words = node.attribute<std::vector<std::string>>("pool_strings")) {
    rule.pool = *words;
  } else if (const auto* numbers = node.integers("pool_int64s")) {
    for (const std::int64_t number : *numbers) {
      rule.pool.push_back(std::to_string(number));
    }
  }
  if (const auto* starts = node.integers("ngram_counts")) {
    rule.starts = *starts;
  }
  if (const auto* columns = node.integers("ngram_indexes")) {
    rule.columns = *columns;
  }
  for (const std::int64_t column : rule.columns) {
    if (column < 0 || column >= kMostHostElements) {
      call.refuse("ngram_indexes has {}", column);
    }
    rule.width = std::max(rule.width, column + 1);
  }
  return rule;
}

// Counts the n-grams of one length in a row, with `skip` words between the words of each.
void count_length(const Call& call,
                  const NgramRule& rule,
                  std::int64_t length,
                  std::span<const std::string> row,
                  std::vector<double>& counts) {
  const auto size = static_cast<std::int64_t>(rule.starts.size());
  if (length < 1 || length > size) {
    return;
  }
  const std::int64_t begin = rule.starts[static_cast<std::size_t>(length - 1)];
  const std::int64_t end = length < size ? rule.starts[static_cast<std::size_t>(length)]
                                         : static_cast<std::int64_t>(rule.pool.size());
  std::int64_t number = 0;  // of the first n-gram of this length
  for (std::int64_t i = 1; i < length; ++i) {
    number +=
        (rule.starts[static_cast<std::size_t>(i)] - rule.starts[static_cast<std::size_t>(i - 1)]) /
        i;
  }
  if (begin < 0 || end < begin || end > static_cast<std::int64_t>(rule.pool.size())) {
    call.refuse("ngram_counts do not fit the pool");
  }
  const std::int64_t most_skips = length == 1 ? 0 : rule.skips;
  for (std::int64_t skip = 0; skip <= most_skips; ++skip) {
    const std::int64_t stride = skip + 1;
    for (std::int64_t at = 0; at + (length - 1) * stride < static_cast<std::int64_t>(row.size());
         ++at) {
      for (std::int64_t gram = begin; gram + length <= end; gram += length) {
        bool is_equal = true;
        for (std::int64_t i = 0; i < length && is_equal; ++i) {
          is_equal = rule.pool[static_cast<std::size_t>(gram + i)] ==
                     row[static_cast<std::size_t>(at + i * stride)];
        }
        const std::int64_t index = number + (gram - begin) / length;
        if (is_equal && index < static_cast<std::int64_t>(rule.columns.size())) {
          counts[static_cast<std::size_t>(rule.columns[static_cast<std::size_t>(index)])] += 1;
        }
      }
    }
  }
}

void weigh(const Call& call, const NgramRule& rule, std::vector<double>& counts) {
  const std::string mode = call.node().text("mode", "TF");
  if (mode == "TF") {
    return;
  }
  std::vector<double> weights(counts.size(), 1);
  if (const auto* given = call.node().attribute<std::vector<double>>("weights")) {
    for (std::size_t i = 0; i < std::min(given->size(), rule.columns.size()); ++i) {
      weights[static_cast<std::size_t>(rule.columns[i])] = (*given)[i];
    }
  }
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double count = mode == "IDF" ? (counts[i] > 0 ? 1 : 0) : counts[i];
    counts[i] = count * weights[i];
  }
}

}  // namespace

bool normalise_strings(Call& call) {
  const HostArray& x = call.host(0);
  const NodeInfo& node = call.node();
  const bool is_sensitive = node.integer("is_case_sensitive", 0) != 0;
  std::vector<std::string> stops;
  if (const auto* given = node.attribute<std::vector<std::string>>("stopwords")) {
    stops = *given;
  }
  if (!is_sensitive) {
    std::ranges::transform(stops, stops.begin(), lowered);
  }
  const std::string action = node.text("case_change_action", "NONE");
  std::vector<std::string> kept;
  for (const std::string& word : x.strings()) {
    if (std::ranges::find(stops, is_sensitive ? word : lowered(word)) != stops.end()) {
      continue;
    }
    kept.push_back(action == "LOWER" ? lowered(word) : action == "UPPER" ? raised(word) : word);
  }
  if (kept.empty()) {
    kept.emplace_back();
  }
  const auto count = static_cast<std::int64_t>(kept.size());
  const Shape shape = x.shape.rank() == 2 ? Shape{1, count} : Shape{count};
  call.give(host_strings(std::move(kept), shape));
  return true;
}

bool count_ngrams(Call& call) {
  const HostArray& x = call.host(0);
  const NgramRule rule = rule_of(call);
  const std::vector<std::string> words = words_of(x);
  const std::int64_t rows = x.shape.rank() == 2 ? x.shape[0] : 1;
  const std::size_t length = rows == 0 ? 0 : words.size() / static_cast<std::size_t>(rows);
  std::vector<double> all;
  for (std::int64_t row = 0; row < rows; ++row) {
    std::vector<double> counts(static_cast<std::size_t>(rule.width), 0);
    const std::span<const std::string> part =
        std::span(words).subspan(static_cast<std::size_t>(row) * length, length);
    for (std::int64_t n = rule.least; n <= rule.most; ++n) {
      count_length(call, rule, n, part, counts);
    }
    weigh(call, rule, counts);
    all.insert(all.end(), counts.begin(), counts.end());
  }
  const Shape shape = x.shape.rank() == 2 ? Shape{rows, rule.width} : Shape{rule.width};
  call.give(cast_host(host_reals(std::move(all), shape, OnnxType::f64), OnnxType::f32));
  return true;
}

bool concat_strings(Call& call) {
  const HostArray& a = call.host(0);
  const HostArray& b = call.host(1);
  const Shape shape = broadcast_shape(a.shape, b.shape);
  const std::vector<std::size_t> of_a = broadcast_places(a.shape, shape);
  const std::vector<std::size_t> of_b = broadcast_places(b.shape, shape);
  std::vector<std::string> joined;
  for (std::size_t i = 0; i < of_a.size(); ++i) {
    joined.push_back(a.strings()[of_a[i]] + b.strings()[of_b[i]]);
  }
  call.give(host_strings(std::move(joined), shape));
  return true;
}

namespace {

// Parts of a text. Without a delimiter runs of spaces separate them.
std::vector<std::string> parts_of(const std::string& text,
                                  const std::string& delimiter,
                                  std::int64_t most) {
  std::vector<std::string> parts;
  const bool is_space = delimiter.empty();
  std::size_t at = is_space ? text.find_first_not_of(" \t\n") : 0;
  while (at != std::string::npos && (!text.empty() || !is_space)) {
    const bool is_last = static_cast<std::int64_t>(parts.size()) == most;
    const std::size_t end = is_last    ? std::string::npos
                            : is_space ? text.find_first_of(" \t\n", at)
                                       : text.find(delimiter, at);
    parts.push_back(text.substr(at, end == std::string::npos ? end : end - at));
    if (end == std::string::npos) {
      break;
    }
    at = is_space ? text.find_first_not_of(" \t\n", end) : end + delimiter.size();
  }
  return parts;
}

}  // namespace

bool split_strings(Call& call) {
  const HostArray& x = call.host(0);
  const std::string delimiter = call.node().text("delimiter", "");
  const auto* const limit = call.node().attribute<std::int64_t>("maxsplit");
  std::vector<std::vector<std::string>> all;
  std::size_t longest = 0;
  std::vector<std::int64_t> counts;
  for (const std::string& text : x.strings()) {
    all.push_back(parts_of(text, delimiter, limit == nullptr ? -1 : *limit));
    longest = std::max(longest, all.back().size());
    counts.push_back(static_cast<std::int64_t>(all.back().size()));
  }
  std::vector<std::string> flat;
  for (std::vector<std::string>& parts : all) {
    parts.resize(longest);
    std::ranges::move(parts, std::back_inserter(flat));
  }
  Shape shape = x.shape;
  shape.push_back(static_cast<std::int64_t>(longest));
  call.give(0, OnnxValue(host_strings(std::move(flat), shape)));
  call.give(1, OnnxValue(host_integers(std::move(counts), x.shape)));
  return true;
}

}  // namespace hearth::onnx
