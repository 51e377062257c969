#pragma once

#include <functional>

namespace tnt::comm::tests {

/// Calls a function in which `new` of this thread finds no memory. Whether that
/// is what it throws.
bool fails_without_memory(const std::function<void()>& function);

}  // namespace tnt::comm::tests
