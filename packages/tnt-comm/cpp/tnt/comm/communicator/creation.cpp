#include "tnt/comm/communicator/creation.hpp"

#include <algorithm>
#include <exception>
#include <new>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>
#include <vector>

#include "tnt/comm/base/error.hpp"

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

// All throw the same error if they do not create the same object.
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
    group.abort_state()->fail(error);
    throw error;
  }
}

// In a catch block: whether this rank can still agree with the others. What else is
// thrown has ended a wait for them, and another wait would end no better.
bool can_agree() {
  try {
    throw;
  } catch (const Error& error) {
    return error.kind() != ErrorKind::timeout && error.kind() != ErrorKind::peer_lost;
  } catch (const std::bad_alloc&) {
    return true;
  } catch (const std::system_error&) {
    return true;
  } catch (...) {
    return false;
  }
}

/// This rank's part in one creation.
class OwnPart {
 public:
  OwnPart(Group& group, const std::string& title)
      : group_(group),
        title_(text(title, " of group '", group.name(), "'")),
        object_(group.next_object()) {}

  void make(const std::function<void(SegmentSet&)>& create);

  /// Throws unless all members have made theirs.
  void agree(const std::string& title);

 private:
  void look();
  bool tell(const Error& error);

  Group& group_;
  std::string title_;
  std::pair<CreationId, std::string> object_;
  std::exception_ptr failure_;
  std::string reason_;               // of that failure
  bool has_heard_of_other_ = false;  // which has failed
};

void OwnPart::look() {
  group_.abort_state()->check_failures_of_others();
  const Creations& creations = *group_.abort_state()->creations();
  const auto error = creations.failure_of_others(group_.ranks(), object_.first, title_);
  if (!error) return;
  has_heard_of_other_ = true;
  throw Error(*error);
}

// Who waits in a segment's creation does not come to agree before it knows.
bool OwnPart::tell(const Error& error) {
  try {
    group_.abort_state()->creations()->fail(group_.ranks(), object_.first, error);
    return true;
  } catch (const Error&) {
    return false;
  }
}

void OwnPart::make(const std::function<void(SegmentSet&)>& create) {
  SegmentSet segments(group_, object_.second, title_, [this] { look(); });
  try {
    create(segments);
  } catch (...) {
    if (has_heard_of_other_) return;
    const Error error = Error::current();
    if (!can_agree() || !tell(error)) {
      group_.abort_state()->fail(error);
      throw;
    }
    failure_ = std::current_exception();
    reason_ = error.what();
  }
}

void OwnPart::agree(const std::string& title) {
  const std::vector<std::string> reasons = group_.exchange(reason_, title);
  if (failure_) {
    group_.note_failed_creation(reason_);
    std::rethrow_exception(failure_);
  }
  for (std::size_t member = 0; member < reasons.size(); ++member) {
    if (reasons[member].empty()) continue;
    const Error error =
        creation_failure(title_, group_.ranks()[member], {ErrorKind::comm, reasons[member]});
    group_.note_failed_creation(error.what());
    throw error;
  }
}

}  // namespace

void create_together(Group& group, const std::string& title, const std::string& details,
                     const std::function<void(SegmentSet& segments)>& create) {
  require_same_creation(group, title, details);
  OwnPart part(group, title);
  part.make(create);
  part.agree(title);
}

}  // namespace tnt::comm
