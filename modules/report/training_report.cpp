#include <hearth/modules/training_report.hpp>

#include "line_chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string_view>

namespace hearth {
namespace {

using detail::escaped;
using detail::LineChart;

constexpr std::string_view kStyle = R"(
:root { --ink: #1d2530; --soft: #5d6b7d; --grid: #dfe4ea; --page: #ffffff; --card: #f6f8fa;
  --c0: #1f6feb; --c1: #d4690a; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e9f0; --soft: #97a3b4; --grid: #333c48; --page: #14181e; --card: #1c222a;
    --c0: #6ea8fe; --c1: #f0a350; }
}
body { background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, sans-serif;
  margin: 2rem auto; max-width: 1180px; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.facts { display: flex; flex-wrap: wrap; gap: .5rem; padding: 0; list-style: none; }
.facts li { background: var(--card); border-radius: 6px; padding: .3rem .7rem; }
.facts b { color: var(--soft); font-weight: normal; margin-right: .4rem; }
.charts { display: flex; flex-wrap: wrap; gap: 1rem; }
svg { background: var(--card); border-radius: 8px; max-width: 100%; height: auto; }
svg .title { fill: var(--ink); font-weight: 600; font-size: 14px; }
svg .tick { fill: var(--soft); font-size: 12px; }
svg .grid { stroke: var(--grid); }
svg .line0 { stroke: var(--c0); } svg .line1 { stroke: var(--c1); }
svg path { fill: none; stroke-width: 2; stroke-linejoin: round; }
svg .dot0 { fill: var(--c0); } svg .dot1 { fill: var(--c1); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .8rem; text-align: right; border-bottom: 1px solid var(--grid); }
th { color: var(--soft); font-weight: 600; } th.top { text-align: center; }
tr.best { background: var(--card); font-weight: 600; }
td.hit { font-weight: 600; }
pre { background: var(--card); border-radius: 8px; padding: .8rem; overflow-x: auto; }
)";

std::vector<double> column(const TrainingHistory& history,
                           const std::function<double(const EpochRecord&)>& of) {
  std::vector<double> values;
  for (const EpochRecord& epoch : history.epochs) {
    values.push_back(of(epoch));
  }
  return values;
}

double first_epoch(const TrainingHistory& history) {
  return history.epochs.empty() ? 1 : static_cast<double>(history.epochs.front().epoch);
}

bool has_validation(const TrainingHistory& history) {
  return std::ranges::any_of(
      history.epochs, [](const EpochRecord& epoch) { return epoch.validation_loss.has_value(); });
}

std::string titled(std::string name) {
  if (!name.empty() && name[0] >= 'a' && name[0] <= 'z') {
    name[0] = static_cast<char>(name[0] - 'a' + 'A');
  }
  return name;
}

std::vector<LineChart> charts_of(const TrainingHistory& history) {
  std::vector<LineChart> charts;
  const auto add = [&](std::string title, bool is_share, std::vector<detail::ChartLine> lines) {
    charts.push_back({.title = std::move(title),
                      .axis = "epoch",
                      .first = first_epoch(history),
                      .in_percent = is_share,
                      .lines = std::move(lines)});
  };
  std::vector<detail::ChartLine> losses{
      {"training", column(history, [](const EpochRecord& epoch) { return epoch.train_loss; })}};
  if (has_validation(history)) {
    losses.push_back({"validation", column(history, [](const EpochRecord& epoch) {
                        return epoch.validation_loss.value_or(std::nan(""));
                      })});
  }
  add("Loss", false, std::move(losses));
  for (std::size_t i = 0; i < history.metrics.size(); ++i) {
    const MetricColumn& metric = history.metrics[i];
    add(titled(metric.name),
        metric.in_percent,
        {{metric.name, column(history, [i](const EpochRecord& epoch) {
            return i < epoch.metrics.size() ? epoch.metrics[i] : std::nan("");
          })}});
  }
  const auto add_steps = [&](std::string title, std::string name, const StepCurve& curve) {
    const auto stride = static_cast<double>(curve.steps_per_point());
    charts.push_back({.title = std::move(title),
                      .axis = "step",
                      .first = stride,
                      .stride = stride,
                      .lines = {{std::move(name), curve.points()}}});
  };
  add_steps("Loss per step", "loss", history.steps);
  add_steps("Learning rate per step", "rate", history.rates);
  add("Samples per second", false, {{"samples", column(history, [](const EpochRecord& epoch) {
                                       return epoch.samples_per_s();
                                     })}});
  std::erase_if(charts, [](const LineChart& chart) { return chart.lines.front().values.empty(); });
  return charts;
}

// Learning rates of the epoch's first and last step.
std::string rates_of(const EpochRecord& epoch) {
  const std::string first = detail::readable_number(epoch.first_learning_rate, 0);
  const std::string last = detail::readable_number(epoch.last_learning_rate, 0);
  return first == last ? last : fmt::format("{} to {}", first, last);
}

std::string epoch_table(const TrainingReport& report) {
  if (report.history.epochs.empty()) {
    return "<p>No epoch has finished.</p>\n";
  }
  std::string text = "<div class=\"wide\"><table>\n<tr><th>epoch</th><th>training loss</th>";
  const bool has_losses = has_validation(report.history);
  text += has_losses ? "<th>validation loss</th>" : "";
  for (const MetricColumn& metric : report.history.metrics) {
    text += "<th>" + escaped(metric.name) + "</th>";
  }
  text += "<th>learning rate</th><th>seconds</th><th>samples/s</th></tr>\n";
  for (const EpochRecord& epoch : report.history.epochs) {
    text += fmt::format("<tr{}><td>{}</td><td>{}</td>",
                        report.best_epoch == epoch.epoch ? " class=\"best\"" : "",
                        epoch.epoch,
                        figure_text({}, epoch.train_loss));
    if (has_losses) {
      text +=
          "<td>" + (epoch.validation_loss ? figure_text({}, *epoch.validation_loss) : "") + "</td>";
    }
    for (std::size_t i = 0; i < epoch.metrics.size(); ++i) {
      text += "<td>" + figure_text(report.history.metrics.at(i), epoch.metrics[i]) + "</td>";
    }
    const double seconds = std::chrono::duration<double>(epoch.duration).count();
    text += fmt::format("<td>{}</td><td>{:.{}f}</td><td>{}</td></tr>\n",
                        rates_of(epoch),
                        seconds,
                        seconds < 1 ? 3 : 1,
                        detail::readable_number(epoch.samples_per_s(), 1));
  }
  return text + "</table></div>\n";
}

std::string confusion_table(const ConfusionMatrix& matrix) {
  std::string text = fmt::format(
      "<div class=\"wide\"><table>\n<tr><th rowspan=\"2\">actual class</th><th class=\"top\" "
      "colspan=\"{}\">predicted class</th>",
      matrix.class_count());
  for (const char* figure : {"precision", "recall", "F1"}) {
    text += fmt::format("<th rowspan=\"2\">{}</th>", figure);
  }
  text += "</tr>\n<tr>";
  const std::int64_t classes = matrix.class_count();
  for (std::int64_t predicted = 0; predicted < classes; ++predicted) {
    text += fmt::format("<th>{}</th>", predicted);
  }
  text += "</tr>\n";
  for (std::int64_t actual = 0; actual < classes; ++actual) {
    text += fmt::format("<tr><th>{}</th>", actual);
    for (std::int64_t predicted = 0; predicted < classes; ++predicted) {
      text += fmt::format("<td{}>{}</td>",
                          actual == predicted ? " class=\"hit\"" : "",
                          matrix.count(actual, predicted));
    }
    text += fmt::format("<td>{:.1f} %</td><td>{:.1f} %</td><td>{:.1f} %</td></tr>\n",
                        matrix.precision(actual) * 100,
                        matrix.recall(actual) * 100,
                        matrix.f1(actual) * 100);
  }
  return text + "</table></div>\n";
}

}  // namespace

std::string html_of(const TrainingReport& report) {
  std::string text = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n<meta "
      "name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>{0}</title>\n"
      "<style>{1}</style>\n</head>\n<body>\n<h1>{0}</h1>\n",
      escaped(report.title),
      kStyle);
  if (!report.facts.empty()) {
    text += "<ul class=\"facts\">\n";
    for (const auto& [name, value] : report.facts) {
      text += fmt::format("<li><b>{}</b>{}</li>\n", escaped(name), escaped(value));
    }
    text += "</ul>\n";
  }
  text += "<h2>Curves</h2>\n<div class=\"charts\">\n";
  for (const LineChart& chart : charts_of(report.history)) {
    text += detail::svg_of(chart);
  }
  text += "</div>\n<h2>Epochs</h2>\n" + epoch_table(report);
  if (report.confusion) {
    text += "<h2>Confusion matrix</h2>\n" + confusion_table(*report.confusion);
  }
  if (!report.model.empty()) {
    text += "<h2>Model</h2>\n<pre>" + escaped(report.model) + "</pre>\n";
  }
  return text + "</body>\n</html>\n";
}

}  // namespace hearth
