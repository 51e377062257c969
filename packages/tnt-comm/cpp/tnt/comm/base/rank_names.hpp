#pragma once

#include <functional>
#include <string>
#include <vector>

namespace tnt::comm {

/// For messages: "rank 2", "ranks 1, 2"; of many the first ten. `name_of` says what
/// stands for a rank, its number if it is empty.
std::string names_of_ranks(const std::vector<int>& ranks,
                           const std::function<std::string(int)>& name_of = {});

}  // namespace tnt::comm
