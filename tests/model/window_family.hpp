// The programs with which the window's model is searched. Threads: any; values.
#pragma once

#include <cstdint>
#include <vector>

#include "window_program.hpp"

namespace hearth::model {

/// Handwritten programs, each about one interaction of lanes, windows and the world.
[[nodiscard]] std::vector<WindowProgram> chosen_programs();
/// The chosen program of this name. Errors: std::out_of_range.
[[nodiscard]] WindowProgram chosen_program(const std::string& name);
/// `count` different programs of two lanes with `records` records each. They have ops on own and on
/// the other lane's tensors, last uses, drops, adoptions, reads, syncs, groups and failing kernels.
/// Their options are plans, spare memory, shutdowns, questions, restarts, deadlines and ending
/// threads, on host and asynchronous devices. No two are equal up to an exchange of the lanes.
[[nodiscard]] std::vector<WindowProgram> generated_programs(std::uint64_t seed,
                                                            std::size_t count,
                                                            int records);

}  // namespace hearth::model
