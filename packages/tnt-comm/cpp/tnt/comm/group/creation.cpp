#include "tnt/comm/group/creation.hpp"

#include <algorithm>
#include <sstream>
#include <vector>

#include "tnt/comm/base/text.hpp"

namespace tnt::comm {
namespace {

std::vector<std::string> lines_of(const std::string& whole) {
  std::vector<std::string> lines;
  std::istringstream stream(whole);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// "GradientReducer 'gradients' with tensor 3 'kernel' (float32, 10 elements)".
std::string value_at(const std::vector<std::string>& lines, std::size_t index) {
  if (index == 0) return lines.front();
  return text(lines.front(), " with ", index < lines.size() ? lines[index] : "nothing more");
}

std::size_t first_difference(const std::vector<std::string>& left,
                             const std::vector<std::string>& right) {
  const auto both = std::mismatch(left.begin(), left.end(), right.begin(), right.end());
  return static_cast<std::size_t>(both.first - left.begin());
}

}  // namespace

void require_same_creation(Group& group, const std::string& title, const std::string& details) {
  const std::vector<std::string> all = group.exchange(text(title, "\n", details), title);
  // All compare with the first member, so that all report the same difference.
  for (std::size_t member = 1; member < all.size(); ++member) {
    if (all[member] == all.front()) continue;
    const auto reference = lines_of(all.front());
    const auto other = lines_of(all[member]);
    const std::size_t index = first_difference(reference, other);
    const Error error(
        ErrorKind::mismatch,
        text("The ranks of group '", group.name(), "' do not create the same object: rank ",
             group.ranks().front(), " creates ", value_at(reference, index), ", rank ",
             group.ranks()[member], " creates ", value_at(other, index),
             ". Every rank must build the same model in the same way."));
    group.health()->fail(error);
    throw error;
  }
}

}  // namespace tnt::comm
