#pragma once

#include <string>

#include "tnt/comm/group/group.hpp"

namespace tnt::comm {

/// Makes sure that all members create the same object: collective, blocking.
///
/// `title` says what is created, `details` are lines that must be equal. If
/// any differs, all members throw the same mismatch error, which names the
/// first difference with both ranks' values, and the group is broken.
void require_same_creation(Group& group, const std::string& title, const std::string& details);

}  // namespace tnt::comm
