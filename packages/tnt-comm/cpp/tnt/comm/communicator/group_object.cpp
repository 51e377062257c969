#include "tnt/comm/communicator/group_object.hpp"

#include <exception>
#include <new>
#include <sstream>
#include <system_error>

#include "tnt/comm/base/process.hpp"
#include "tnt/comm/transport/local/solo_transport.hpp"

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

// All throw the same error if they do not create the same object.
void require_same_creation(Group& group, const std::string& title, const std::string& details) {
  const std::vector<std::string> all = group.gather_texts(text(title, "\n", details), title);
  // All compare with the first member, so that all report the same difference.
  for (std::size_t member = 1; member < all.size(); ++member) {
    if (all[member] == all.front()) continue;
    const auto reference = lines_of(all.front());
    const auto other = lines_of(all[member]);
    const auto index =
        static_cast<std::size_t>(std::ranges::mismatch(reference, other).in1 - reference.begin());
    const Error error =
        Error(ErrorKind::mismatch, "The ranks of group '", group.name(),
              "' do not create the same object: rank ", group.ranks().front(), " creates ",
              value_at(reference, index), ", rank ", group.ranks()[member], " creates ",
              value_at(other, index), ". Every rank must build the same model in the same way.")
            .caused_by(
                group.ranks()[static_cast<std::size_t>(group.rank()) == member ? 0 : member]);
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

struct NewObject {
  Group& group;
  std::string title;  // with the group
  CreationId id;
};

// In a catch block: tells the others why this rank has failed, and returns it. If it cannot, or
// cannot agree with them any more, it breaks the group and rethrows.
std::string tell_failure(const NewObject& creation) {
  const Error error = Error::current();
  try {
    if (can_agree()) {
      // Who waits in a segment's creation does not come to agree before it knows.
      creation.group.abort_state()->rendezvous()->fail(creation.group.ranks(), creation.id, error);
      return error.what();
    }
  } catch (const Error&) {
    // As if it could not agree.
  }
  creation.group.abort_state()->fail(error);
  throw;
}

void require_no_failure(const NewObject& creation, const std::vector<std::string>& reasons) {
  for (std::size_t member = 0; member < reasons.size(); ++member) {
    if (reasons[member].empty()) continue;
    const Error error = creation_failure(creation.title, creation.group.ranks()[member],
                                         {ErrorKind::comm, reasons[member]});
    creation.group.runtime().note_failed_creation(error.what());
    throw error;
  }
}

}  // namespace

void create_together(Group& group, const std::string& title, const std::string& details,
                     const std::function<void(SegmentSet& segments)>& create) {
  require_same_creation(group, title, details);
  const auto [id, key] = group.next_object();
  const NewObject creation{group, text(title, " of group '", group.name(), "'"), id};
  bool has_heard_of_other = false;  // which has failed
  SegmentSet segments(group, key, creation.title, [&] {
    group.abort_state()->check_failures_of_others();
    const auto error = group.abort_state()->rendezvous()->failure_of_others(
        group.ranks(), creation.id, creation.title);
    has_heard_of_other = error.has_value();
    if (error) throw Error(*error);
  });
  std::exception_ptr failure;
  std::string reason;
  try {
    create(segments);
  } catch (...) {
    if (!has_heard_of_other) {
      reason = tell_failure(creation);
      failure = std::current_exception();
    }
  }
  const std::vector<std::string> reasons = group.gather_texts(reason, title);
  if (failure) {
    group.runtime().note_failed_creation(reason);
    std::rethrow_exception(failure);
  }
  require_no_failure(creation, reasons);
}

SharedArray::SharedArray(Group& group, std::size_t num_bytes) {
  group.abort_state()->require_intact();
  const bool is_shared = group.size() > 1 && group.topology() == Topology::readable;
  create_together(group, text("an array of ", num_bytes, " bytes in shared memory"), "",
                  [&](SegmentSet& segments) {
                    if (is_shared) {
                      segment_ = segments.create({num_bytes, SharedRegions::kNumNotifications});
                    } else {
                      segment_ = std::make_shared<HeapSegment>(num_bytes);
                    }
                  });
  if (!is_shared) return;
  regions_ = group.regions();
  block_ = regions_->add(segment_, num_bytes);
}

SharedArray::~SharedArray() {
  if (regions_ && !is_forked_child()) regions_->drop(block_);
}

}  // namespace tnt::comm
