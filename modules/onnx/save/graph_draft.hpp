// GraphDraft: an ONNX graph that is being made: nodes, initialisers, inputs and results, and unique
// names for them. Bytes of weights are borrowed.
// Owned by save_onnx(). Threads: one.
// Invariant: a node's inputs were made before it.
// Source: onnx.proto of the ONNX project, IR version 8.
#pragma once

#include "modules/onnx/save/wire_writer.hpp"

#include <hearth/modules/onnx_type.hpp>
#include <hearth/runtime/base/dtype.hpp>
#include <hearth/runtime/base/shape.hpp>
#include <hearth/streams/op_attributes.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace hearth::onnx {

/// Version of ONNX's ops in written files.
inline constexpr std::int64_t kSavedOpset = 18;
inline constexpr std::int64_t kSavedIrVersion = 8;

using DraftAttribute =
    std::pair<std::string,
              std::variant<std::int64_t, float, std::string, std::vector<std::int64_t>>>;

struct DraftNode {
  std::string op;
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  std::vector<DraftAttribute> attributes = {};
};

/// An input or a result of the graph.
struct DraftPort {
  std::string name;
  DType dtype = DType::f32;
  /// Each size: a number, or a name, or nothing if it is unknown.
  std::vector<std::variant<std::int64_t, std::string>> dims = {};
};

class GraphDraft final {
 public:
  /// Reserves a name for a tensor, input or result. Returns false if it is taken.
  [[nodiscard]] bool reserve(const std::string& name) { return names_.insert(name).second; }
  /// Begins the names of the following nodes with a layer's path.
  void set_layer(std::string_view path) { layer_ = path; }

  /// Adds a node with one output. Returns the output's name.
  std::string add(std::string op,
                  std::vector<std::string> inputs,
                  std::vector<DraftAttribute> attributes = {});
  /// Adds a node with several outputs. Returns their names.
  std::vector<std::string> add_many(std::string op,
                                    std::vector<std::string> inputs,
                                    std::vector<DraftAttribute> attributes,
                                    std::size_t outputs);
  /// Adds an initialiser under a reserved name. The caller keeps the bytes alive.
  void add_weight(const std::string& name,
                  DType dtype,
                  const Shape& shape,
                  std::span<const std::byte> bytes);
  /// Each returns the name of an initialiser with these elements.
  std::string integers(const std::vector<std::int64_t>& values);
  std::string integer(std::int64_t value);
  std::string scalar(DType dtype, const ScalarAttributes& value);
  std::string scalar(DType dtype, double value);
  std::string constant(DType dtype, const Shape& shape, std::vector<std::byte> bytes);

  void add_input(DraftPort port) { inputs_.push_back(std::move(port)); }
  /// Makes a value the result with this reserved name.
  void add_result(const std::string& value, DraftPort port);

  /// Removes nodes and initialisers that no result needs.
  void prune();
  /// Returns the bytes of the file. The draft outlives them.
  [[nodiscard]] WireWriter model() const;

 private:
  struct Initialiser {
    std::string name;
    DType dtype = DType::f32;
    Shape shape;
    std::vector<std::byte> own = {};
    std::span<const std::byte> borrowed = {};
  };

  [[nodiscard]] std::string unique(std::string_view wanted);
  void rename(const std::string& from, const std::string& to);
  [[nodiscard]] WireWriter graph() const;

  std::string layer_;
  std::set<std::string> names_;
  std::map<std::string, int> last_numbers_;
  std::map<std::tuple<DType, std::vector<std::int64_t>, std::vector<std::byte>>, std::string>
      constants_;
  std::vector<DraftNode> nodes_;
  std::vector<Initialiser> initialisers_;
  std::vector<DraftPort> inputs_;
  std::vector<DraftPort> results_;
};

}  // namespace hearth::onnx
