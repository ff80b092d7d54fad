#include "op_page.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <stdexcept>
#include <vector>

#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/recording.hpp>
#include <hearth/streams/op_facts.hpp>
#include <hearth/streams/op_table.hpp>
#include <hearth/streams/trace/op_trace.hpp>

#include "backends/gpu/kernel_table.hpp"
#include "header_text.hpp"
#include "op_examples.hpp"
#include "options_page.hpp"

namespace hearth::docs {
namespace {

constexpr std::string_view kHead = R"(# Ops

The functions of `<hearth/runtime/ops.hpp>` and of the headers beside it; `<hearth/hearth.hpp>`
includes all. The build writes this page (`ninja docs_pages`): it calls each function and records
its ops. The headers state shapes, options, errors, costs and papers.

- **Function**: its parameters with their defaults, and its overloads. The fields of an option
  struct stand below the functions, in the order that an initialiser must keep:
  `topk(x, 3, {.axis = 1, .descending = false})`.
- **Types**: element types of `x`, or of the result of a function without `x`. *floats* are f32,
  f64, f16 and bf16. *numbers* are these and i32, i64, u8 and i8. *all* also has bool.
- **Gradient**: `yes` if a gradient flows back to inputs of floats.
- **Ops**: the ops that the function submits. Errors, traces and recordings name them. Ops of one
  function and of its neighbours run as one kernel if their classes permit it.
- **Class**: how the fusion planner treats these ops. *elementwise*, *reduce* and *row* ops run as
  one kernel with their neighbours, and as the epilogue of a *contraction* or *conv*. A *view* moves
  no bytes. `hearth-bench explain` and `explain()` show
  [the kernels of your program](errors.md#record-it-and-run-it-again).
)";

const std::vector<DType> kTypes{DType::f32,
                                DType::f64,
                                DType::f16,
                                DType::bf16,
                                DType::i32,
                                DType::i64,
                                DType::u8,
                                DType::i8,
                                DType::boolean};

DtypeMask mask_of(std::initializer_list<DType> types) {
  DtypeMask mask = 0;
  for (const DType type : types) {
    mask = static_cast<DtypeMask>(mask | dtype_bit(type));
  }
  return mask;
}

std::string types_of(DtypeMask mask) {
  const DtypeMask floats = mask_of({DType::f32, DType::f64, DType::f16, DType::bf16});
  const DtypeMask integers = mask_of({DType::i32, DType::i64, DType::u8, DType::i8});
  const auto numbers = static_cast<DtypeMask>(floats | integers);
  const auto all = static_cast<DtypeMask>(numbers | dtype_bit(DType::boolean));
  if (mask == floats) {
    return "floats";
  }
  if (mask == numbers) {
    return "numbers";
  }
  return mask == all ? "all" : describe(mask);
}

std::string_view name_of(FusionClass fusion) {
  switch (fusion) {
    case FusionClass::view:
      return "view";
    case FusionClass::fill:
      return "fill";
    case FusionClass::elementwise:
      return "elementwise";
    case FusionClass::reduce:
      return "reduce";
    case FusionClass::row:
      return "row";
    case FusionClass::contraction:
      return "contraction";
    case FusionClass::conv:
      return "conv";
    case FusionClass::pool:
      return "pool";
    case FusionClass::scan:
      return "scan";
    case FusionClass::gather:
      return "gather";
    case FusionClass::attention:
      return "attention";
    case FusionClass::opaque:
      return "opaque";
    default:
      return "";
  }
}

std::string joined(const std::vector<std::string>& words, std::string_view between = ", ") {
  std::string text;
  for (const std::string& word : words) {
    text += text.empty() ? "" : between;
    text += word;
  }
  return text;
}

void add_once(std::vector<std::string>& all, std::string_view word) {
  if (std::ranges::find(all, word) == all.end()) {
    all.emplace_back(word);
  }
}

struct Measured {
  DtypeMask types = 0;
  bool has_gradient = false;
  std::vector<OpKind> kinds;
};

DtypeMask types_taken(const Device& device, const OpExample& example) {
  DtypeMask types = 0;
  for (const DType type : kTypes) {
    OpInputs inputs(device, type);
    try {
      const Tensor result = example.call(inputs);
      static_cast<void>(result.read_bytes().get());  // and its kernels support it
      types = static_cast<DtypeMask>(types | dtype_bit(type));
    } catch (const DtypeError&) {
    } catch (const Exception& error) {
      throw std::runtime_error(example.name + " of " + std::string(name(type)) + ": " +
                               error.what());
    }
  }
  return types;
}

bool has_gradient(const Device& device, const OpExample& example) {
  bool is_tracked = false;
  static_cast<void>(grad(
      [&](const std::vector<Tensor>& leaves) {
        OpInputs inputs(device, DType::f32);
        inputs.factor = leaves[0];
        is_tracked = example.call(inputs).is_tracked();
        return leaves[0] * 1;
      },
      {ones(device, {})}));
  return is_tracked;
}

std::vector<OpKind> kinds_of(const Runtime& runtime, DType type, const OpExample& example) {
  OpInputs inputs(runtime.device(), type);
  static_cast<void>(example.call(inputs));  // makes the inputs
  runtime.device().sync();
  RecordScope scope(runtime, {.bytes = RecordedBytes::none, .reduces_failures = false});
  Tensor result;
  try {
    result = example.call(inputs);
  } catch (const ArgumentError&) {  // the first call passed: no recording takes its kernel
    return {OpKind::custom};
  }
  runtime.device().sync();
  const OpTrace trace = scope.take().value();
  std::vector<OpKind> kinds;
  for (const TraceOp& op : trace.ops) {
    const OpKind kind = op.record.kind;
    if (op_info(kind).op_class != OpClass::lifetime &&
        std::ranges::find(kinds, kind) == kinds.end()) {
      kinds.push_back(kind);
    }
  }
  return kinds;
}

Measured measure(const Runtime& runtime, const OpExample& example) {
  Measured measured{.types = types_taken(runtime.device(), example), .kinds = {}};
  const bool takes_f32 = (measured.types & dtype_bit(DType::f32)) != 0;
  measured.has_gradient = takes_f32 && has_gradient(runtime.device(), example);
  for (const DType type : kTypes) {
    if ((measured.types & dtype_bit(type)) != 0) {
      measured.kinds = kinds_of(runtime, type, example);
      break;
    }
  }
  return measured;
}

std::string doc_of(const std::string& name,
                   const std::vector<DeclaredFunction>& functions,
                   const OpExample& example) {
  if (!example.doc.empty()) {
    return example.doc;
  }
  for (const DeclaredFunction& function : functions) {
    if (function.name == name && !function.doc.empty() && !function.doc.starts_with("Shapes: ")) {
      return function.doc;
    }
  }
  for (const OpInfo& info : op_table()) {
    if (info.name == name) {
      const std::string doc(info.doc);
      return doc.substr(0, doc.find(". ")) + (doc.find(". ") == std::string::npos ? "" : ".");
    }
  }
  throw std::runtime_error(name + " has no description: add one to its example in op_examples.cpp");
}

std::string escaped(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) {
    text.insert(at, "\\");
  }
  return text;
}

// The calls of a function: one for each overload with different parameter names.
std::string calls_of(const std::string& name, const std::vector<DeclaredFunction>& functions) {
  std::vector<std::string> calls;
  for (const DeclaredFunction& function : functions) {
    if (function.name == name) {
      add_once(calls, "`" + name + "(" + joined(function.parameters) + ")`");
    }
  }
  return joined(calls);
}

std::string row_of(const std::string& calls, const std::string& doc, const Measured& measured) {
  std::vector<std::string> kinds;
  std::vector<std::string> classes;
  for (const OpKind kind : measured.kinds) {
    add_once(kinds, name(kind));
    add_once(classes, name_of(op_facts(kind).fusion));
  }
  return "| " + calls + " | " + escaped(doc) + " | " + types_of(measured.types) + " | " +
         (measured.has_gradient ? "yes" : "") + " | " + joined(kinds) + " | " + joined(classes) +
         " |\n";
}

bool names(std::string_view types, const std::string& type) {
  for (std::size_t at = types.find(type); at != std::string_view::npos;
       at = types.find(type, at + 1)) {
    const std::size_t end = at + type.size();
    if (end == types.size() || types[end] == ' ' || types[end] == '>' || types[end] == '&') {
      return true;
    }
  }
  return false;
}

// The options of a section's functions, and their other types of parameters and results.
std::string options_in(std::string_view section_text,
                       const std::vector<DeclaredFunction>& functions) {
  std::string text;
  for (const DeclaredStruct& declared : structs_in(section_text)) {
    std::vector<std::string> users;
    for (const DeclaredFunction& function : functions) {
      if (names(function.types, declared.name)) {
        add_once(users, "`" + function.name + "`");
      }
    }
    text += "\n### " + declared.name + "\n\n" +
            (users.empty() ? "A result" : "Taken by " + joined(users)) + ".\n\n" +
            field_table(declared);
  }
  for (const DeclaredEnum& declared : enums_in(section_text)) {
    text += "\n### " + declared.name + "\n\n" + value_table(declared);
  }
  return text;
}

// Splits a header at its section lines, `// ---- reductions: … ----`, by the sections' names.
std::map<std::string, std::string> sections_of(std::string_view header) {
  static constexpr std::string_view kSection = "\n// ---- ";
  std::map<std::string, std::string> sections;
  for (std::size_t at = header.find(kSection); at != std::string_view::npos;) {
    const std::size_t begin = at + kSection.size();
    const std::size_t next = header.find(kSection, begin);
    const std::string_view text = header.substr(begin, next - begin);
    std::string_view title = text.substr(0, text.find(" ----"));
    sections.emplace(title.substr(0, title.find_first_of(":;")), text);
    at = next;
  }
  return sections;
}

std::string backends(const std::set<OpKind>& kinds) {
  std::vector<std::string> missing;
  for (const OpKind kind : kinds) {
    if (op_info(kind).op_class != OpClass::view && gpu::kernel_row(kind).encode == nullptr) {
      missing.emplace_back(name(kind));
    }
  }
  return "\n## Devices\n\n"
         "All functions run on `cpu`, `sim` and `reference` devices with all types of the tables.\n"
         "On `vulkan` devices " +
         (missing.empty() ? std::string("all functions run too")
                          : "these ops have no kernel: " + joined(missing)) +
         "; f64 needs a GPU that supports it.\n";
}

}  // namespace

std::string op_page(const Runtime& runtime, std::string_view header) {
  const std::vector<DeclaredFunction> functions = functions_in(header);
  std::string page(kHead);
  std::string section;
  std::set<std::string> done;
  std::set<OpKind> kinds;
  const std::map<std::string, std::string> sections = sections_of(header);
  const auto end_section = [&] {
    page += section.empty() ? "" : options_in(sections.at(section), functions);
  };
  for (const DeclaredFunction& function : functions) {
    if (!done.insert(function.name).second) {
      continue;  // an overload
    }
    const auto example = std::ranges::find(op_examples(), function.name, &OpExample::name);
    if (example == op_examples().end()) {
      throw std::runtime_error(function.name + " has no example in op_examples.cpp");
    }
    if (function.section != section) {
      end_section();
      section = function.section;
      std::string title = section;
      title[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(title[0])));
      page += "\n## " + title +
              "\n\n| function | description | types | gradient | ops | class |\n"
              "|---|---|---|---|---|---|\n";
    }
    const Measured measured = measure(runtime, *example);
    kinds.insert(measured.kinds.begin(), measured.kinds.end());
    page += row_of(
        calls_of(function.name, functions), doc_of(function.name, functions, *example), measured);
  }
  end_section();
  for (const OpExample& example : op_examples()) {
    if (!done.contains(example.name)) {
      throw std::runtime_error("no function " + example.name + " in runtime/ops.hpp");
    }
  }
  return page + backends(kinds);
}

}  // namespace hearth::docs
