#pragma once

#include <functional>
#include <string>

#include "tnt/comm/communicator/group.hpp"
#include "tnt/comm/communicator/segment_set.hpp"

namespace tnt::comm {

/// Creates an object on the group: collective, blocking. All members have it afterwards,
/// or none.
///
/// `title` says what is created, `details` are lines that must be equal. If
/// any differs, all members throw the same mismatch error, which names the
/// first difference with both ranks' values, and the group is broken.
///
/// `create` makes this rank's part, with what memory it needs of `segments`. If it
/// throws on a rank, the others throw an error that names the rank and its reason, and
/// the group can still be used. It is broken, though, if the rank cannot wait for the
/// others any more: one is lost, the time is over, or the wait was interrupted.
void create_together(Group& group, const std::string& title, const std::string& details,
                     const std::function<void(SegmentSet& segments)>& create);

}  // namespace tnt::comm
